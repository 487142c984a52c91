//! `cargo xtask protobuf`: generates the table and the test data of windlass-protobuf from the Go types of all pinned
//! versions of Kubernetes.

use std::{env, fs, path::PathBuf};

use crate::{
    Result,
    cargo::{cargo, succeed},
    generated::{self, Mode},
    upstream::{self, Minor},
};

const PROGRAM: &str = "./protobuf";
const TABLE: &str = "crates/windlass-protobuf/data/messages.txt";
const CORPUS: &str = "crates/windlass-protobuf/testdata/corpus.txt.gz";

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let folder = env::temp_dir().join(format!("windlass-protobuf-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, content: &[u8]) -> Result<String> {
        let path = self.0.join(name);
        fs::write(&path, content)?;
        Ok(path.display().to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder may be gone already, so the error is ignored.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns all pinned versions; `None` is the default one.
fn versions() -> Result<Vec<Option<Minor>>> {
    Ok(std::iter::once(None).chain(Minor::all()?.into_iter().map(Some)).collect())
}

/// Generates the table from all versions, and the test data from the default one.
pub(crate) fn run(mode: Mode) -> Result {
    let folder = Folder::new()?;
    let mut arguments = vec!["merge".to_owned()];
    for (at, version) in versions()?.iter().enumerate() {
        let types = upstream::output_of(version.as_ref(), PROGRAM, &["types"])?;
        arguments.push(folder.write(&at.to_string(), &types)?);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for (file, arguments) in [(TABLE, &arguments[..]), (CORPUS, &["corpus", "1", "0"])] {
        let output = upstream::output_of(None, PROGRAM, arguments)?;
        generated::write_or_check(&upstream::root().join(file), &output, mode)?;
    }
    Ok(())
}

/// Runs the tests with random objects of all versions.
pub(crate) fn long(seed: u64, objects: u64) -> Result {
    let folder = Folder::new()?;
    for version in versions()? {
        let corpus = ["corpus", &seed.to_string(), &objects.to_string()];
        let corpus = folder.write("corpus", &upstream::output_of(version.as_ref(), PROGRAM, &corpus)?)?;
        let mut test = cargo();
        test.args(["test", "--package", "windlass-protobuf", "--test", "corpus"]);
        succeed(test.env("WINDLASS_PROTOBUF_CORPUS", corpus))?;
    }
    Ok(())
}
