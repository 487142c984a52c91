//! The files of simulated containers, written by their commands.
//!
//! Files of `emptyDir` volumes belong to the pod, those of `hostPath` volumes to the node. All others belong to the
//! container and are deleted when it ends. They are kept in memory: a restarted simulator has empty disks.

use std::{collections::BTreeMap, ops::Bound};

use k8s_openapi::api::core::v1::{Container, Pod};
use windlass_api::ObjectExt;

/// The maximum total size of all files in bytes, including their names.
const CAPACITY: usize = 16 * 1024 * 1024;

/// The files of all simulated nodes, by volume and path.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    entries: BTreeMap<String, Entry>,
    size: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    File(String),
    Directory,
}

/// The files that a container sees.
#[derive(Debug)]
pub(crate) struct View<'d> {
    disk: &'d mut Disk,
    own: Disk,
    /// The mount paths of volumes with the prefixes of their files on the disk; the longest path first.
    mounts: Vec<(String, String)>,
}

impl Disk {
    /// Deletes the files of a pod.
    pub(crate) fn forget(&mut self, uid: &str) {
        let from = of_pod(uid);
        let ours = self.entries.range::<str, _>((Bound::Included(&*from), Bound::Unbounded));
        let gone: Vec<_> = ours.map(|(path, _)| path).take_while(|path| path.starts_with(&from)).cloned().collect();
        for path in gone {
            self.remove(&path);
        }
    }

    fn insert(&mut self, path: String, entry: Entry) -> bool {
        self.remove(&path);
        let size = size(&path, &entry);
        if self.size + size > CAPACITY {
            return false;
        }
        self.size += size;
        self.entries.insert(path, entry);
        true
    }

    fn remove(&mut self, path: &str) -> bool {
        let Some(entry) = self.entries.remove(path) else { return false };
        self.size -= size(path, &entry);
        true
    }
}

impl<'d> View<'d> {
    /// Opens the files that a container of a pod sees.
    pub(crate) fn new(disk: &'d mut Disk, pod: &Pod, container: &Container) -> Self {
        let uid = pod.uid().unwrap_or_default();
        let node = crate::pods::node_name(pod);
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let beginning = |name: &str| {
            let volume = volumes.clone().find(|volume| volume.name == name)?;
            match (&volume.empty_dir, &volume.host_path) {
                (Some(_), _) => Some(format!("{}{name}", of_pod(uid))),
                (_, Some(host)) => Some(format!("node/{node}/{}", normal(&host.path))),
                _ => None,
            }
        };
        let mounts = container.volume_mounts.iter().flatten();
        let mut mounts: Vec<_> = mounts
            .filter_map(|mount| {
                let below = mount.sub_path.as_deref().unwrap_or_default();
                Some((normal(&mount.mount_path), format!("{}{}", beginning(&mount.name)?, normal(below))))
            })
            .collect();
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self { disk, own: Disk::default(), mounts }
    }

    pub(crate) fn read(&self, path: &str) -> Option<&str> {
        match self.entry(&normal(path))? {
            Entry::File(text) => Some(text),
            Entry::Directory => None,
        }
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = normal(path);
        let is_root = ["", "/tmp", "/var", "/var/tmp", "/etc", "/dev"].contains(&&*path);
        is_root || self.mounts.iter().any(|(mount, _)| *mount == path) || self.entry(&path).is_some()
    }

    pub(crate) fn write(&mut self, path: &str, text: String) -> bool {
        self.insert(path, Entry::File(text))
    }

    pub(crate) fn touch(&mut self, path: &str) -> bool {
        self.exists(path) || self.write(path, String::new())
    }

    pub(crate) fn make_directory(&mut self, path: &str) -> bool {
        self.exists(path) || self.insert(path, Entry::Directory)
    }

    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let path = normal(path);
        match self.place(&path) {
            Some(shared) => self.disk.remove(&shared),
            None => self.own.remove(&path),
        }
    }

    fn insert(&mut self, path: &str, entry: Entry) -> bool {
        let path = normal(path);
        match self.place(&path) {
            Some(shared) => self.disk.insert(shared, entry),
            None => self.own.insert(path, entry),
        }
    }

    fn entry(&self, path: &str) -> Option<&Entry> {
        match self.place(path) {
            Some(shared) => self.disk.entries.get(&shared),
            None => self.own.entries.get(path),
        }
    }

    /// Returns the location of a file on the disk, if it is in a volume.
    fn place(&self, path: &str) -> Option<String> {
        self.mounts.iter().find_map(|(mount, beginning)| {
            let below = path.strip_prefix(mount.as_str())?;
            (below.is_empty() || below.starts_with('/')).then(|| format!("{beginning}{below}"))
        })
    }
}

fn of_pod(uid: &str) -> String {
    format!("pod/{uid}/")
}

fn size(path: &str, entry: &Entry) -> usize {
    let text = if let Entry::File(text) = entry { text.len() } else { 0 };
    path.len() + text + 64
}

/// Returns an absolute path without a trailing slash; the root is empty.
fn normal(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.fold(String::new(), |path, part| path + "/" + part)
}
