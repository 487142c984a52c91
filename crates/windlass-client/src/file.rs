//! Files that are written as a whole or not at all.

use std::{fs, io, path::Path};

/// Puts bytes in place of what a file holds. Who may read it stays as it is; of a new file, that is nobody else. Folders
/// are made.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;

    if let Some(folder) = folder(path) {
        fs::create_dir_all(folder)?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let folder = folder(path).unwrap_or_else(|| Path::new("."));
    // A new file of a random name, which only its owner can read: no link that is there already is followed.
    let mut temporary =
        tempfile::Builder::new().prefix(&format!(".{}.", name.to_string_lossy())).tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    if let Ok(old) = fs::metadata(path) {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path).map(drop).map_err(|error| error.error)
}

/// The folder that a file is in, where its path names one.
pub(crate) fn folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn new_file_is_private_and_links_of_others_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("config"), folder.path().join("target"));
        // The name that a process of this id would have taken.
        symlink(&target, folder.path().join(format!(".config.{}", std::process::id()))).unwrap();
        replace(&path, b"token").unwrap();
        assert!(!target.exists());
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"another").unwrap();
        assert_eq!((mode(), fs::read(&path).unwrap()), (0o640, b"another".to_vec()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left lying about");
    }
}
