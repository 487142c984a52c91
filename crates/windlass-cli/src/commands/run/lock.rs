//! A lock that allows only one run at a time in a project.
//!
//! Two runs would build in the same folder, write the same CustomResourceDefinitions, and overwrite the same
//! kubeconfig. So the second one fails with an error that names the first. The lock is an operating system lock on an
//! open file. It is released when the process ends for any reason; the file remains.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
    process,
};

/// The path of the lock file, relative to the project.
const FILE: &str = "target/windlass/run.lock";

/// A held lock. Dropping it releases it.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Acquires the lock, or returns an error that names the process holding it.
    pub(super) fn take(project: &Path) -> Result<Self, String> {
        let path = project.join(FILE);
        let failed = |error: std::io::Error| format!("locking {}: {error}", path.display());
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The content is only informative; the lock decides.
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                return Err(format!(
                    "{holder} already runs the project in {}; it picks up your changes, and stops with Ctrl-C",
                    project.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "process {}, windlass run,", process::id()).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::Entropy;

    use super::*;

    #[test]
    fn second_run_fails_with_the_first_process_id() {
        let folder = std::env::temp_dir().join(format!("windlass-lock-{}", Entropy::os().uuid()));
        let first = Lock::take(&folder).unwrap();
        let error = Lock::take(&folder).unwrap_err();
        let expected =
            format!("process {}, windlass run, already runs the project in {}", process::id(), folder.display());
        assert!(error.starts_with(&expected), "{error}");
        drop(first);
        drop(Lock::take(&folder).unwrap());
        fs::remove_dir_all(folder).unwrap();
    }
}
