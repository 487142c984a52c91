//! Atomic replacement of files.

use std::{fs, io, path::Path};

/// Replaces the content of a file atomically. Existing permissions are retained; a new file is readable only by its
/// owner. Missing folders are created.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;

    if let Some(folder) = folder(path) {
        fs::create_dir_all(folder)?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let folder = folder(path).unwrap_or_else(|| Path::new("."));
    // A new file with a random name that only its owner can read, so no existing symbolic link is followed.
    let mut temporary =
        tempfile::Builder::new().prefix(&format!(".{}.", name.to_string_lossy())).tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    if let Ok(old) = fs::metadata(path) {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path).map(drop).map_err(|error| error.error)
}

/// Returns the parent folder of a file, if its path contains one.
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
        // The temporary name that an implementation based on the process ID would use.
        symlink(&target, folder.path().join(format!(".config.{}", std::process::id()))).unwrap();
        replace(&path, b"token").unwrap();
        assert!(!target.exists());
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"another").unwrap();
        assert_eq!((mode(), fs::read(&path).unwrap()), (0o640, b"another".to_vec()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no files are left");
    }
}
