//! Generated files of the repository. A task writes them, or compares them with its output.

use std::{fs, path::Path};

use crate::{Result, upstream};

/// The action for a generated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    /// Returns an error if the file would change.
    Check,
}

/// The programs in `tools/` and their output files, relative to the root of the workspace.
const FROM_GO: &[(&str, &str)] =
    &[("./fields", "crates/windlass-api/data/types.tsv"), ("./bodies", "crates/windlass-server/testdata/bodies.tsv")];

impl Mode {
    pub(crate) const fn of(check: bool) -> Self {
        if check { Self::Check } else { Self::Write }
    }
}

/// Generates the type table of the server's codec and its test bodies, by reflection over the Go types.
pub(crate) fn from_go(mode: Mode) -> Result {
    for (program, file) in FROM_GO {
        let output = upstream::output_of(None, program, &[])?;
        write_or_check(&upstream::root().join(file), &output, mode)?;
    }
    Ok(())
}

/// Writes a file. With [`Mode::Check`], returns an error if the file would change.
pub(crate) fn write_or_check(path: &Path, content: &[u8], mode: Mode) -> Result {
    let shown = path.strip_prefix(upstream::root()).unwrap_or(path).display();
    if mode == Mode::Write {
        fs::write(path, content).map_err(|error| format!("writing {shown}: {error}"))?;
        println!("{shown}: {} bytes", content.len());
        return Ok(());
    }
    let found = fs::read(path).map_err(|error| format!("reading {shown}: {error}"))?;
    if found == content {
        println!("{shown}: up to date");
        return Ok(());
    }
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (old, new) = (lines(&found), lines(content));
    let first = old.iter().zip(&new).position(|(old, new)| old != new).unwrap_or(old.len().min(new.len()));
    Err(format!("{shown} differs from its source, in line {}", first + 1).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_would_change_is_named_with_its_line() {
        let path = std::env::temp_dir().join(format!("windlass-generated-{}", std::process::id()));
        write_or_check(&path, b"a\nb\n", Mode::Write).unwrap();
        write_or_check(&path, b"a\nb\n", Mode::Check).unwrap();
        let error = write_or_check(&path, b"a\nc\n", Mode::Check).unwrap_err().to_string();
        assert!(error.ends_with("in line 2"), "{error}");
        assert!(write_or_check(&path, b"a\nb\nc\n", Mode::Check).unwrap_err().to_string().ends_with("in line 3"));
        fs::remove_file(path).unwrap();
    }
}
