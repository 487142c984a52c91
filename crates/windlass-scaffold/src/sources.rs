//! Files that somebody else has made: `windlass import`.

use std::path::{Path, PathBuf};

use crate::{Changes, Error, Overwrite, format::formatted};

/// Sources, as they are to be written.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing before it is planned"]
pub struct Sources {
    files: Vec<(PathBuf, String)>,
    overwrite: Overwrite,
}

impl Sources {
    /// Files by their paths, below the folder of the plan.
    pub fn new<P: Into<PathBuf>>(files: impl IntoIterator<Item = (P, String)>) -> Self {
        let files = files.into_iter().map(|(path, text)| (path.into(), text)).collect();
        Self { files, overwrite: Overwrite::Never }
    }

    /// What to do where a file is there.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// What it would do to the folder. Rust is formatted.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut changes = Changes::of(folder, self.overwrite);
        for (path, text) in &self.files {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            let text = if is_rust { formatted(text.clone()) } else { text.clone() };
            changes.create(path, text)?;
        }
        changes.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_formatted_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let sources = |text: &str| Sources::new([("src/a.rs", text.to_owned()), ("b.txt", "x  y".to_owned())]);
        sources("pub mod  a;").plan(folder.path()).unwrap().write().unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((text("src/a.rs").as_str(), text("b.txt").as_str()), ("pub mod a;\n", "x  y"));
        let other = sources("pub mod b;");
        assert!(other.plan(folder.path()).unwrap_err().to_string().contains("src/a.rs"));
        other.overwrite(Overwrite::Force).plan(folder.path()).unwrap().write().unwrap();
        assert_eq!(text("src/a.rs"), "pub mod b;\n");
    }
}
