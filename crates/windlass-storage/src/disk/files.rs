//! Files and directories of the storage: what happens to them is on disk when a function returns.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use super::OpenError;

/// Locks a directory until the returned file is closed.
pub(super) fn lock_directory(directory: &Path) -> Result<File, OpenError> {
    let failed = |source: io::Error| OpenError::Directory { directory: directory.to_owned(), source };
    let file = File::options().create(true).truncate(false).write(true).open(directory.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { directory: directory.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Renames a complete file durably.
pub(super) fn rename(directory: &Path, from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    fs::rename(from, to)?;
    sync(directory)
}

/// Removes a database with its logs.
pub(super) fn remove_database(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = OsString::from(path);
        name.push(suffix);
        remove(Path::new(&name))?;
    }
    Ok(())
}

/// Creates an empty file that only its owner can read: it will contain Secrets. SQLite gives its logs the same mode.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Creates a directory that only its owner can enter, unless it exists. It survives a power failure.
pub(super) fn create_directory(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    for created in missing.into_iter().filter(|created| !created.as_os_str().is_empty()) {
        sync(parent(created))?;
    }
    Ok(())
}

/// Returns the directory of a file.
pub(super) fn parent(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns a path as SQLite needs it.
pub(super) fn utf8(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the path is not UTF-8"))
}

pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
