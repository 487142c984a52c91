//! The minor versions of Kubernetes that k8s-openapi has types for, and the kinds of each.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{Result, cargo::metadata};

/// The minor versions that contain a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    /// The first one; `None` if it is the first one of k8s-openapi.
    pub(crate) since: Option<u32>,
    /// The last one; `None` if it is the last one of k8s-openapi.
    pub(crate) until: Option<u32>,
}

/// The sources of k8s-openapi: the folder of each minor version.
#[derive(Debug)]
pub(crate) struct Minors(BTreeMap<u32, PathBuf>);

impl Minors {
    /// Reads the list of minor versions from the sources of the workspace's k8s-openapi. There may be several versions of
    /// it; the others are those of kube-rs.
    pub(crate) fn of_workspace() -> Result<Self> {
        let metadata = metadata(&[])?;
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let packages = packages.iter().filter(|package| package["name"] == "k8s-openapi");
        let mut folders = BTreeMap::new();
        for manifest in packages.filter_map(|package| package["manifest_path"].as_str()) {
            folders.extend(minors(&PathBuf::from(manifest).with_file_name("src"))?);
        }
        if folders.is_empty() {
            return Err("the workspace does not depend on k8s-openapi with minor versions".into());
        }
        Ok(Self(folders))
    }

    /// Returns each minor version with the folder of its types.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (u32, &Path)> {
        self.0.iter().map(|(minor, folder)| (*minor, folder.as_path()))
    }

    /// Returns the first minor version whose types contain a kind, or `None` if all do.
    pub(crate) fn since(&self, module: &str, kind: &str) -> Result<Option<u32>> {
        match self.span(module, kind)? {
            Span { since, until: None } => Ok(since),
            Span { until: Some(last), .. } => Err(format!("{module}::{kind} is removed after 1.{last}").into()),
        }
    }

    /// Returns the minor versions whose types contain a kind.
    pub(crate) fn span(&self, module: &str, kind: &str) -> Result<Span> {
        let has = |minor: &&u32| self.has(**minor, module, kind);
        let mut minors = self.0.keys();
        let (Some(first), last) = (minors.find(has), minors.rfind(has)) else {
            return Err(format!("{module}::{kind} is in no minor version of k8s-openapi").into());
        };
        let last = last.unwrap_or(first);
        if let Some((gap, _)) = self.0.range(first..=last).find(|(minor, _)| !has(minor)) {
            return Err(format!("{module}::{kind} is removed in 1.{gap}").into());
        }
        let since = Some(*first).filter(|_| Some(first) != self.0.keys().next());
        let until = Some(*last).filter(|_| Some(last) != self.0.keys().next_back());
        Ok(Span { since, until })
    }

    fn has(&self, minor: u32, module: &str, kind: &str) -> bool {
        let file = self.0.get(&minor).map(|folder| folder.join(module.replace("::", "/")).join("mod.rs"));
        // A minor version without the module has no such file.
        let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        text.lines().any(|line| line.starts_with("pub use ") && line.ends_with(&format!("::{kind};")))
    }
}

/// Returns the folders of the minor versions in the sources of one k8s-openapi.
fn minors(source: &Path) -> Result<BTreeMap<u32, PathBuf>> {
    let mut folders = BTreeMap::new();
    for entry in fs::read_dir(source).map_err(|error| format!("reading {}: {error}", source.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let minor = name.to_str().and_then(|name| name.strip_prefix("v1_"));
        folders.extend(minor.and_then(|minor| minor.parse::<u32>().ok()).map(|minor| (minor, entry.path())));
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_gated_by_their_first_minor_version() {
        let minors = Minors::of_workspace().unwrap();
        assert_eq!(minors.since("api::core::v1", "Pod").unwrap(), None);
        assert_eq!(minors.since("api::resource::v1", "ResourceClaim").unwrap(), Some(34));
        assert_eq!(minors.since("api::admissionregistration::v1", "MutatingAdmissionPolicy").unwrap(), Some(36));
        let mapping = minors.span("api::resource::v1", "NodeAllocatableResourceMapping").unwrap();
        assert_eq!(mapping, Span { since: Some(36), until: Some(36) });
        let error = minors.since("api::core::v1", "Po").unwrap_err().to_string();
        assert_eq!(error, "api::core::v1::Po is in no minor version of k8s-openapi");
    }
}
