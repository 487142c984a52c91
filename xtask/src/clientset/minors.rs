//! The minor versions of Kubernetes that k8s-openapi has types for, and the kinds of each.

use std::{fs, path::PathBuf};

use crate::{Result, cargo::metadata};

/// The sources of k8s-openapi.
#[derive(Debug)]
pub(crate) struct Minors {
    source: PathBuf,
    /// In ascending order.
    minors: Vec<u32>,
}

impl Minors {
    /// Reads the list of minor versions from the sources of the workspace's k8s-openapi.
    pub(crate) fn of_workspace() -> Result<Self> {
        let metadata = metadata(&[])?;
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let manifest = packages.iter().find(|package| package["name"] == "k8s-openapi");
        let manifest = manifest.and_then(|package| package["manifest_path"].as_str());
        Self::at(PathBuf::from(manifest.ok_or("the workspace does not depend on k8s-openapi")?).with_file_name("src"))
    }

    fn at(source: PathBuf) -> Result<Self> {
        let mut minors = Vec::new();
        for entry in fs::read_dir(&source).map_err(|error| format!("reading {}: {error}", source.display()))? {
            let name = entry?.file_name();
            let minor = name.to_str().and_then(|name| name.strip_prefix("v1_"));
            minors.extend(minor.and_then(|minor| minor.parse::<u32>().ok()));
        }
        minors.sort_unstable();
        if minors.is_empty() {
            return Err(format!("{}: no folders of minor versions", source.display()).into());
        }
        Ok(Self { source, minors })
    }

    /// Returns the first minor version whose types contain a kind, or `None` if all do.
    pub(crate) fn since(&self, module: &str, kind: &str) -> Result<Option<u32>> {
        let mut since = None;
        let mut is_missing = true;
        for minor in &self.minors {
            match (self.has(*minor, module, kind), is_missing) {
                (true, true) => {
                    since = Some(*minor);
                    is_missing = false;
                }
                (false, false) => return Err(format!("{module}::{kind} is removed in 1.{minor}").into()),
                _ => {}
            }
        }
        match since {
            None => Err(format!("{module}::{kind} is in no minor version of k8s-openapi").into()),
            Some(first) if Some(&first) == self.minors.first() => Ok(None),
            later => Ok(later),
        }
    }

    fn has(&self, minor: u32, module: &str, kind: &str) -> bool {
        let file = self.source.join(format!("v1_{minor}")).join(module.replace("::", "/")).join("mod.rs");
        // A minor version without the module has no such file.
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().any(|line| line.starts_with("pub use ") && line.ends_with(&format!("::{kind};")))
    }
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
        let error = minors.since("api::core::v1", "Po").unwrap_err().to_string();
        assert_eq!(error, "api::core::v1::Po is in no minor version of k8s-openapi");
    }
}
