//! What a command does to a folder: computed whole, shown or written.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use similar::TextDiff;

use crate::Error;

/// Whether files that are there may be overwritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// They are in the way.
    #[default]
    Never,
    /// They are written anew.
    Force,
}

/// Files of a folder as they will be.
#[derive(Debug)]
#[must_use = "nothing is written before `write`"]
pub struct Changes {
    folder: PathBuf,
    overwrite: Overwrite,
    files: BTreeMap<PathBuf, File>,
    in_the_way: Vec<PathBuf>,
}

#[derive(Debug)]
struct File {
    before: Option<String>,
    after: String,
}

impl Changes {
    pub(crate) fn of(folder: &Path, overwrite: Overwrite) -> Self {
        Self { folder: folder.to_owned(), overwrite, files: BTreeMap::new(), in_the_way: Vec::new() }
    }

    /// A file as it will be, if it will be.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        match self.files.get(path.as_ref()) {
            Some(file) => Ok(Some(file.after.clone())),
            None => read(&self.folder.join(path)),
        }
    }

    /// A file that is the command's own: it may be in the way.
    pub(crate) fn create(&mut self, path: impl Into<PathBuf>, after: String) -> Result<(), Error> {
        let path = path.into();
        let before = self.text(&path)?;
        if self.overwrite == Overwrite::Never && before.is_some_and(|before| before != after) {
            self.in_the_way.push(path);
            return Ok(());
        }
        self.set(path, after)
    }

    /// A file that is written once, and then the user's.
    pub(crate) fn create_or_keep(&mut self, path: impl Into<PathBuf>, after: String) -> Result<(), Error> {
        let path = path.into();
        if self.text(&path)?.is_some() { Ok(()) } else { self.set(path, after) }
    }

    /// A file as it will be, whatever it was.
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

    /// Something added to a file that has to be there.
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

    /// Unless something is in the way.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        if self.in_the_way.is_empty() { Ok(self) } else { Err(Error::InTheWay(self.in_the_way)) }
    }

    /// The folder that they are of.
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

    /// The files that will be other than they are, by name.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.changed().map(|(path, _)| path)
    }

    /// All of it, as `diff -u` shows it.
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

    /// Writes all of it: first beside the files, then in their places.
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
                // What was not written is not there.
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
