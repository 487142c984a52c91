//! The changes of a command to a folder: computed completely, then shown or written.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use similar::TextDiff;

use crate::Error;

/// Specifies whether existing files may be overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Existing files cause an error.
    #[default]
    Never,
    /// Existing files are overwritten.
    Force,
}

/// The new content of files in a folder.
#[derive(Debug)]
#[must_use = "nothing is written before `write`"]
pub struct Changes {
    folder: PathBuf,
    overwrite: Overwrite,
    files: BTreeMap<PathBuf, File>,
    would_overwrite: Vec<PathBuf>,
}

#[derive(Debug)]
struct File {
    before: Option<String>,
    after: String,
}

impl Changes {
    pub(crate) fn of(folder: &Path, overwrite: Overwrite) -> Self {
        Self { folder: folder.to_owned(), overwrite, files: BTreeMap::new(), would_overwrite: Vec::new() }
    }

    /// Returns the new content of a file; `None` if the file does not exist.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        match self.files.get(path.as_ref()) {
            Some(file) => Ok(Some(file.after.clone())),
            None => read(&self.folder.join(path)),
        }
    }

    /// Creates a file. If it exists with another content, this is an error unless overwriting is allowed.
    pub(crate) fn create(&mut self, path: impl Into<PathBuf>, after: String) -> Result<(), Error> {
        let path = path.into();
        let before = self.text(&path)?;
        if self.overwrite == Overwrite::Never && before.is_some_and(|before| before != after) {
            self.would_overwrite.push(path);
            return Ok(());
        }
        self.set(path, after)
    }

    /// Creates a file, or keeps an existing one.
    pub(crate) fn create_or_keep(&mut self, path: impl Into<PathBuf>, after: String) -> Result<(), Error> {
        let path = path.into();
        if self.text(&path)?.is_some() { Ok(()) } else { self.set(path, after) }
    }

    /// Sets the content of a file, even if it exists.
    pub(crate) fn set(&mut self, path: impl Into<PathBuf>, after: String) -> Result<(), Error> {
        let path = path.into();
        if let Some(file) = self.files.get_mut(&path) {
            file.after = after;
        } else {
            let before = read(&self.folder.join(&path))?;
            self.files.insert(path, File { before, after });
        }
        Ok(())
    }

    /// Edits a file, which must exist.
    pub(crate) fn edit(
        &mut self,
        path: impl AsRef<Path>,
        edit: impl FnOnce(&Path, &str) -> Result<String, Error>,
    ) -> Result<(), Error> {
        let path = path.as_ref();
        let text = self.text(path)?.ok_or_else(|| Error::File {
            doing: "adding to",
            path: path.into(),
            source: io::ErrorKind::NotFound.into(),
        })?;
        let after = edit(path, &text)?;
        self.set(path, after)
    }

    /// Returns an error if a file would be overwritten.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        if self.would_overwrite.is_empty() { Ok(self) } else { Err(Error::WouldOverwrite(self.would_overwrite)) }
    }

    /// Returns the folder of the files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn changed(&self) -> impl Iterator<Item = (&Path, &File)> {
        self.files
            .iter()
            .filter(|(_, file)| file.before.as_deref() != Some(file.after.as_str()))
            .map(|(path, file)| (path.as_path(), file))
    }

    /// Returns the paths of the files that change, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.changed().map(|(path, _)| path)
    }

    /// Returns all changes in the format of `diff -u`.
    #[must_use]
    pub fn diff(&self) -> String {
        let mut diff = String::new();
        for (path, file) in self.changed() {
            let (old, new) = (format!("a/{}", path.display()), format!("b/{}", path.display()));
            let old = if file.before.is_some() { old } else { "/dev/null".to_owned() };
            let texts = TextDiff::from_lines(file.before.as_deref().unwrap_or_default(), &file.after);
            diff.push_str(&texts.unified_diff().header(&old, &new).to_string());
        }
        diff
    }

    /// Writes all changes: first to temporary files in the same folders, which then replace the originals.
    pub fn write(&self) -> Result<(), Error> {
        let beside = |path: &Path| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".unfinished");
            self.folder.join(path).with_file_name(name)
        };
        let written = self.changed().try_for_each(|(path, file)| {
            let place = beside(path);
            let failed = |doing| move |source| Error::File { doing, path: path.to_owned(), source };
            place.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed("making the folder of"))?;
            fs::write(&place, &file.after).map_err(failed("writing"))
        });
        if written.is_err() {
            for path in self.paths() {
                // Some of the files may not have been written.
                let _ = fs::remove_file(beside(path));
            }
            return written;
        }
        self.paths().try_for_each(|path| {
            let failed = |source| Error::File { doing: "writing", path: path.to_owned(), source };
            fs::rename(beside(path), self.folder.join(path)).map_err(failed)
        })
    }
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { doing: "reading", path: path.to_owned(), source }),
    }
}
