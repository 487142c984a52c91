//! Writing of generated sources: `windlass import`.

use std::path::{Path, PathBuf};

use crate::{Changes, Error, Overwrite, format::formatted, source::with_module};

/// A command that writes source files.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing until it is planned"]
pub struct Sources {
    files: Vec<(PathBuf, String)>,
    overwrite: Overwrite,
}

impl Sources {
    /// Creates the command from texts and their paths relative to the folder of the plan.
    pub fn new<P: Into<PathBuf>>(files: impl IntoIterator<Item = (P, String)>) -> Self {
        let files = files.into_iter().map(|(path, text)| (path.into(), text)).collect();
        Self { files, overwrite: Overwrite::Never }
    }

    /// Sets whether existing files are overwritten.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Computes the changes to `folder`. Rust code is formatted. If a file consists only of module declarations, they
    /// are added to an existing file.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut changes = Changes::of(folder, self.overwrite);
        for (path, text) in &self.files {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            let modules = if is_rust { declared(text) } else { None };
            if let Some(modules) = modules.filter(|_| folder.join(path).exists()) {
                for module in modules {
                    changes.edit(path, |path, text| with_module(path, text, module))?;
                }
                continue;
            }
            let text = if is_rust { formatted(text.clone()) } else { text.clone() };
            changes.create(path, text)?;
        }
        changes.checked()
    }
}

/// Returns the declared modules of a source that contains nothing else.
fn declared(source: &str) -> Option<Vec<&str>> {
    source.lines().map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';').map(str::trim)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_formatted_and_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let sources = |text: &str| Sources::new([("src/a.rs", text.to_owned()), ("b.txt", "x  y".to_owned())]);
        sources("pub struct  A;").plan(folder.path()).unwrap().write().unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((text("src/a.rs").as_str(), text("b.txt").as_str()), ("pub struct A;\n", "x  y"));
        let other = sources("pub struct B;");
        assert!(other.plan(folder.path()).unwrap_err().to_string().contains("src/a.rs"));
        other.overwrite(Overwrite::Force).plan(folder.path()).unwrap().write().unwrap();
        assert_eq!(text("src/a.rs"), "pub struct B;\n");
    }

    #[test]
    fn modules_are_declared_beside_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let text = || std::fs::read_to_string(folder.path().join("v1.rs")).unwrap();
        let sources = |modules: &str| Sources::new([("v1.rs", modules.to_owned())]).overwrite(Overwrite::Force);
        sources("pub mod site;\n").plan(folder.path()).unwrap().write().unwrap();
        sources("pub mod a;\npub mod site;\n").plan(folder.path()).unwrap().write().unwrap();
        assert_eq!(text(), "pub mod a;\npub mod site;\n");
    }
}
