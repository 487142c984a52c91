//! Archives and checksums with reproducible content.

use std::{fs, path::Path, process::Command};

use sha2::{Digest as _, Sha256};

use crate::Result;

/// Writes a folder as `.tar.gz`. The bytes depend only on the names, contents and executable bits of its files, and on
/// the time.
pub(super) fn write(folder: &Path, archive: &Path, seconds: u64) -> Result {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(format!("{} is no folder in a folder", folder.display()).into());
    };
    let mut tar = Command::new("tar");
    tar.args(["--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{seconds}")).args(["--use-compress-program", "gzip -n -9"]);
    tar.arg("-cf").arg(archive).arg("-C").arg(parent).arg(name);
    let status = tar.status().map_err(|error| format!("starting tar: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{}: tar failed", archive.display()).into()) }
}

/// Returns the SHA-256 checksum of a file in hexadecimal digits.
pub(super) fn checksum(file: &Path) -> Result<String> {
    let bytes = fs::read(file).map_err(|error| format!("reading {}: {error}", file.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn equal_folders_become_equal_archives() {
        let root = std::env::temp_dir().join(format!("windlass-archive-{}", std::process::id()));
        let mut checksums = Vec::new();
        for (attempt, (order, mode)) in [(["b", "a"], 0o700), (["a", "b"], 0o755)].into_iter().enumerate() {
            let folder = root.join(attempt.to_string()).join("windlass");
            fs::create_dir_all(&folder).unwrap();
            for file in order {
                fs::write(folder.join(file), file).unwrap();
                fs::set_permissions(folder.join(file), fs::Permissions::from_mode(mode)).unwrap();
            }
            let archive = root.join(format!("{attempt}.tar.gz"));
            write(&folder, &archive, 1_700_000_000).unwrap();
            checksums.push(checksum(&archive).unwrap());
        }
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(checksums[0], checksums[1]);
    }

    #[test]
    fn checksum_equals_that_of_sha256sum() {
        let file = std::env::temp_dir().join(format!("windlass-checksum-{}", std::process::id()));
        fs::write(&file, "abc").unwrap();
        let sum = checksum(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
