//! Files and directories of the mount namespace.
//!
//! A user without permissions cannot create a directory such as `/run/secrets` to mount something on. So the directory
//! `/run` is replaced by one in memory, with all entries of the original and the new one.

use std::{
    collections::BTreeSet,
    ffi::{CStr, OsString},
    fs::{self, File},
    io,
    os::{fd::AsRawFd as _, unix::fs::symlink},
    path::{Path, PathBuf},
};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};

use super::sandbox::{Binding, Sandbox, TEMPORARY, named};

/// Prepares the mount namespace.
pub(super) fn prepare(sandbox: &Sandbox) -> io::Result<()> {
    named("separating mounts", mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC))?;
    for binding in &sandbox.bindings {
        named(&format!("mounting {}", binding.target.display()), bind(binding))?;
    }
    if let Some(visible) = &sandbox.visible {
        named(&format!("replacing {TEMPORARY}"), replace_temporary(visible))?;
    }
    // Containers forbid this if parts of their own /proc are hidden. Most programs need only /proc/self, which is
    // correct in the original, too.
    let _ = mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None::<&CStr>);
    Ok(())
}

/// Mounts a file or a directory at its target, which is created if it does not exist.
fn bind(binding: &Binding) -> io::Result<()> {
    let Binding { source, target } = binding;
    if !target.exists() {
        let existing = target.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        let rest = target.strip_prefix(existing).map_err(io::Error::other)?;
        let existing = existing.canonicalize()?;
        let entries = fs::read_dir(&existing)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        replace(&existing, c"mode=755", entries)?;
        fs::create_dir_all(existing.join(rest))?;
    }
    Ok(mount_bind_recursive(source, target)?)
}

/// Replaces the directory for temporary files by an empty one with some entries of the original.
fn replace_temporary(visible: &BTreeSet<String>) -> io::Result<()> {
    let directory = Path::new(TEMPORARY);
    let mut entries: BTreeSet<OsString> = visible.iter().map(OsString::from).collect();
    // The files to which the entries link.
    for name in visible {
        let file = directory.join(name).canonicalize();
        let file = file.as_deref().ok().and_then(|file| file.strip_prefix(directory).ok());
        entries.extend(file.and_then(|file| file.iter().next()).map(OsString::from));
    }
    replace(directory, c"mode=1777", entries)
}

/// Replaces a directory by an empty one in memory with some entries of the original. Entries that do not exist are
/// ignored.
fn replace(directory: &Path, options: &CStr, entries: impl IntoIterator<Item = OsString>) -> io::Result<()> {
    let original = File::open(directory)?;
    // The path of the original after it is covered.
    let covered = PathBuf::from(format!("/proc/self/fd/{}", original.as_raw_fd()));
    mount("tmpfs", directory, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?;
    for name in entries {
        let (source, target) = (covered.join(&name), directory.join(&name));
        let Ok(metadata) = source.symlink_metadata() else { continue };
        if metadata.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
            continue;
        }
        if metadata.is_dir() {
            fs::create_dir(&target)?;
        } else {
            File::create(&target)?;
        }
        // Fails for a directory that this user cannot enter. It stays empty then.
        let _ = mount_bind_recursive(&source, &target);
    }
    Ok(())
}
