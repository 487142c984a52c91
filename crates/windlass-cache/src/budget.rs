//! The default memory budget of a cache: 512 MiB, or less if the memory of the process is limited.

use std::{fs, path::Path, sync::OnceLock};

/// The budget if memory is not limited.
const LARGEST: usize = 512 << 20;

/// The divisor of the process' memory limit for one cache. A manager has several caches, and needs memory for other
/// things.
const SHARE: u64 = 8;

/// Limits from this value on mean "unlimited": cgroup v1 reports no limit as a very large number.
const UNLIMITED: u64 = 1 << 60;

/// Returns the default budget of a cache: an eighth of the memory limit of the process' cgroup, at most 512 MiB.
pub(crate) fn usual() -> usize {
    static USUAL: OnceLock<usize> = OnceLock::new();
    *USUAL.get_or_init(|| {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        within(memory_limit(Path::new("/sys/fs/cgroup"), &membership))
    })
}

fn within(limit: Option<u64>) -> usize {
    let share = limit.and_then(|limit| usize::try_from(limit / SHARE).ok());
    share.map_or(LARGEST, |share| share.min(LARGEST))
}

/// Returns the lowest memory limit of the cgroups of a process, version 2 or 1. `membership` is the content of
/// `/proc/self/cgroup`.
///
/// In a container, the mount usually shows the container's own group as its root, independent of the path in
/// `membership`.
fn memory_limit(root: &Path, membership: &str) -> Option<u64> {
    let path_of = |is_memory: fn(&str) -> bool| {
        membership.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is_memory(controllers).then_some(path)
        })
    };
    let version_2 = lowest(root, path_of(str::is_empty), "memory.max");
    let is_memory = |controllers: &str| controllers.split(',').any(|controller| controller == "memory");
    version_2.or_else(|| lowest(&root.join("memory"), path_of(is_memory), "memory.limit_in_bytes"))
}

/// Returns the lowest limit of a group and its ancestors.
fn lowest(root: &Path, group: Option<&str>, file: &str) -> Option<u64> {
    let group = Path::new(group.unwrap_or_default().trim_start_matches('/'));
    let limits = group.ancestors().filter_map(|group| {
        let text = fs::read_to_string(root.join(group).join(file)).ok()?;
        text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A temporary directory with files, deleted on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("windlass-budget-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn budget_is_an_eighth_of_a_small_limit() {
        assert_eq!(within(Some(128 << 20)), 16 << 20);
        assert_eq!((within(Some(64 << 30)), within(None)), (512 << 20, 512 << 20));
    }

    #[test]
    fn limit_of_cgroup_v2_is_the_lowest_on_the_way_to_the_root() {
        let files = [
            ("memory.max", "max\n"),
            ("kubepods/memory.max", "4096\n"),
            ("kubepods/pod1/memory.max", "2048\n"),
            ("kubepods/pod1/manager/memory.max", "max\n"),
        ];
        let folder = Folder::new("v2", &files);
        assert_eq!(memory_limit(&folder.0, "0::/kubepods/pod1/manager\n"), Some(2048));
        assert_eq!(memory_limit(&folder.0, "0::/\n"), None, "no limit at the root");
        let container = Folder::new("container", &[("memory.max", "134217728\n")]);
        assert_eq!(memory_limit(&container.0, "0::/../elsewhere\n"), Some(128 << 20));
    }

    #[test]
    fn cgroup_v1_limit_is_read_without_v2() {
        let membership = "12:cpu,cpuacct:/a\n5:memory:/docker/abc\n1:name=systemd:/a\n";
        let folder = Folder::new(
            "v1",
            &[
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/docker/abc/memory.limit_in_bytes", "1048576\n"),
            ],
        );
        assert_eq!(memory_limit(&folder.0, membership), Some(1 << 20));
        assert_eq!(memory_limit(&folder.0, "5:memory:/\n"), None);
        assert_eq!(memory_limit(Path::new("/nowhere"), membership), None);
    }
}
