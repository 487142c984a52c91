//! The disk cache, in files that can be shared with kubectl.
//!
//! `servergroups.json` lists groups and versions. `GROUP/VERSION/serverresources.json` contains the resources of one
//! version. Files are written to a temporary name and then renamed, so a reader never sees an incomplete file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use http::Uri;
use serde::{Serialize, de::DeserializeOwned};
use windlass_api::{Clock, GroupVersion};

use super::{
    Discovery,
    legacy::{
        self,
        documents::{GroupList, ResourceList},
    },
};
use crate::Client;

const GROUPS: &str = "servergroups.json";
const RESOURCES: &str = "serverresources.json";

#[derive(Clone, Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    time_to_live: Duration,
    clock: Clock,
}

/// Returns the folder in which kubectl caches the discovery of a server, for example below `~/.kube/cache`.
#[must_use]
pub fn cache_folder(parent: &Path, server: &Uri) -> PathBuf {
    let text = server.to_string();
    let host = text.split_once("://").map_or(&*text, |(_, host)| host).trim_end_matches('/');
    let legal = |c: char| if c.is_ascii_alphanumeric() || "(_/.)".contains(c) { c } else { '_' };
    // Replace all characters that could lead out of the folder.
    let host: Vec<String> = host
        .split('/')
        .filter(|part| !matches!(*part, "." | ".."))
        .map(|part| part.chars().map(legal).collect())
        .collect();
    parent.join("discovery").join(host.join("/"))
}

impl Disk {
    pub(super) const fn new(folder: PathBuf, time_to_live: Duration, clock: Clock) -> Self {
        Self { folder, time_to_live, clock }
    }

    /// Reads the files and returns their discovery with the age of the oldest file. Versions without a valid file are
    /// requested from the server.
    pub(super) async fn read(&self, client: &Client) -> Option<(Discovery, Duration)> {
        let (groups, mut oldest) = self.read_file::<GroupList>(&self.folder.join(GROUPS))?;
        let mut discovery = Discovery::default();
        for group_version in groups.into_group_versions() {
            let answer = match self.read_file::<ResourceList>(&self.file_of(&group_version)) {
                Some((resources, age)) => {
                    oldest = oldest.max(age);
                    Ok(resources.into_version(&group_version))
                }
                None => legacy::ask(client, &group_version).await,
            };
            discovery.add(group_version, answer);
        }
        Some((discovery, oldest))
    }

    /// Writes the result. The files of versions whose discovery failed are not updated.
    pub(super) fn write(&self, discovery: &Discovery) {
        if let Err(error) = self.try_write(discovery) {
            tracing::debug!(folder = %self.folder.display(), %error, "discovery is not cached on disk");
        }
    }

    fn try_write(&self, discovery: &Discovery) -> io::Result<()> {
        for group in &discovery.groups {
            for version in &group.versions {
                // A version that the server reports as stale has no resources and must be requested again.
                if !version.resources.is_empty() {
                    let group_version = GroupVersion::new(group.name.clone(), version.version.clone());
                    write_file(&self.file_of(&group_version), &ResourceList::of(&group.name, version))?;
                }
            }
        }
        // Written last: if it exists, so do the other files.
        write_file(&self.folder.join(GROUPS), &GroupList::of(&discovery.groups))
    }

    fn file_of(&self, group_version: &GroupVersion) -> PathBuf {
        // Names come from a server or a file and must not lead out of the folder.
        let safe = |name: &str| name.replace(['/', '\\'], "_").replace("..", "_");
        self.folder.join(safe(&group_version.group)).join(safe(&group_version.version)).join(RESOURCES)
    }

    fn read_file<T: DeserializeOwned>(&self, path: &Path) -> Option<(T, Duration)> {
        let written = jiff::Timestamp::try_from(fs::metadata(path).ok()?.modified().ok()?).ok()?;
        // A file with a modification time in the future counts as new.
        let age = Duration::try_from(self.clock.now().duration_since(written)).unwrap_or_default();
        if age >= self.time_to_live {
            return None;
        }
        Some((serde_json::from_slice(&fs::read(path).ok()?).ok()?, age))
    }
}

fn write_file(path: &Path, document: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
    builder.create(folder)?;
    let mut temporary = tempfile::Builder::new();
    // As in kubectl, which may share the cache within a user group.
    #[cfg(unix)]
    temporary.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o660));
    let mut temporary = temporary.tempfile_in(folder)?;
    io::Write::write_all(&mut temporary, &serde_json::to_vec(document)?)?;
    temporary.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_server_is_the_one_that_kubectl_takes() {
        for (server, folder) in [
            ("https://127.0.0.1:6443", "c/discovery/127.0.0.1_6443"),
            ("https://k8s.example.com/", "c/discovery/k8s.example.com"),
            ("https://h:1/k8s/clusters/c-1", "c/discovery/h_1/k8s/clusters/c_1"),
            ("https://h/../../etc", "c/discovery/h/etc"),
        ] {
            assert_eq!(cache_folder(Path::new("c"), &server.parse().unwrap()), Path::new(folder), "{server}");
        }
    }
}
