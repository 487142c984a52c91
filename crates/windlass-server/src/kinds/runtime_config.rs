//! The API versions that a server serves in addition, in the syntax of kube-apiserver's flag `--runtime-config`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::{
    discovery::catalog::catalog,
    kubernetes::{
        KubernetesVersion,
        removed::{self, REMOVED, RemovedVersion},
    },
};

/// The API versions that Kubernetes has removed and that a server serves for old clients.
///
/// It is parsed from the syntax of kube-apiserver's flag `--runtime-config`: `GROUP/VERSION=true`, separated by commas.
/// `GROUP/VERSION` means the same. The last value of a version counts. Versions that the server has by default, and
/// `api/all`, `api/ga`, `api/beta` and `api/alpha`, can be `true`, which has no effect.
///
/// ```
/// use windlass_server::RuntimeConfig;
///
/// let config: RuntimeConfig = "policy/v1beta1=true,apps/v1=true".parse()?;
/// assert_eq!(config.to_string(), "policy/v1beta1=true");
/// assert!("policy/v1alpha1=true".parse::<RuntimeConfig>().is_err());
/// # Ok::<(), windlass_server::RuntimeConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// Only versions of [`REMOVED`], by their apiVersion.
    values: BTreeMap<String, bool>,
}

/// The error for a text that is no [`RuntimeConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeConfigError {
    /// A key is neither a version nor a set of versions.
    #[error("runtime-config invalid key {0}: expected GROUP/VERSION, such as policy/v1beta1")]
    Key(String),
    /// A value is neither true nor false.
    #[error("invalid value of {key}: {value}: expected true or false")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// The group does not exist.
    #[error("unknown api groups {0}")]
    Group(String),
    /// The server cannot serve this version of the group.
    #[error("group version {version} that has not been registered: the removed versions are {}", .known.join(", "))]
    Version {
        /// The version.
        version: String,
        /// The versions that can be enabled.
        known: Vec<String>,
    },
    /// A version that the server has by default cannot be disabled.
    #[error("cannot disable {0}: only versions that Kubernetes has removed can be disabled")]
    Disabled(String),
    /// Single resources of a version cannot be enabled or disabled.
    #[error("runtime-config invalid key {0}: single resources cannot be selected, only all of GROUP/VERSION")]
    Resource(String),
}

/// The keys that stand for a set of versions.
const SETS: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// One entry of a configuration.
enum Entry {
    Removed { version: &'static RemovedVersion, is_enabled: bool },
    NoEffect,
}

// === impl RuntimeConfig ===

impl RuntimeConfig {
    /// Reads the entries about removed versions, and ignores all others.
    #[must_use]
    pub fn lenient(text: &str) -> Self {
        let entries = entries(text).filter_map(|(key, value)| entry(key, value).ok());
        Self::of(entries)
    }

    /// Returns the removed versions that a server can serve, such as `policy/v1beta1`.
    pub fn versions() -> impl Iterator<Item = String> {
        REMOVED.iter().map(RemovedVersion::api_version)
    }

    /// Returns the enabled versions.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = &'static RemovedVersion> {
        REMOVED.iter().filter(|version| self.values.get(&version.api_version()) == Some(&true))
    }

    fn of(entries: impl Iterator<Item = Entry>) -> Self {
        let removed = entries.filter_map(|entry| match entry {
            Entry::Removed { version, is_enabled } => Some((version.api_version(), is_enabled)),
            Entry::NoEffect => None,
        });
        Self { values: removed.collect() }
    }
}

impl FromStr for RuntimeConfig {
    type Err = RuntimeConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entries: Vec<Entry> = entries(text).map(|(key, value)| entry(key, value)).collect::<Result<_, _>>()?;
        Ok(Self::of(entries.into_iter()))
    }
}

/// Joins the configurations of several flags. Later values replace earlier ones.
impl FromIterator<Self> for RuntimeConfig {
    fn from_iter<I: IntoIterator<Item = Self>>(configs: I) -> Self {
        Self { values: configs.into_iter().flat_map(|config| config.values).collect() }
    }
}

impl fmt::Display for RuntimeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().map(|(version, value)| format!("{version}={value}")).collect();
        f.write_str(&values.join(","))
    }
}

/// Returns the keys and values of a text. A key without a value has the value "".
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| entry.split_once('=').map_or((entry, ""), |(key, value)| (key.trim(), value.trim())))
}

fn entry(key: &str, value: &str) -> Result<Entry, RuntimeConfigError> {
    let is_enabled = match value {
        "" | "true" | "True" | "TRUE" | "t" | "T" | "1" => true,
        "false" | "False" | "FALSE" | "f" | "F" | "0" => false,
        _ => return Err(RuntimeConfigError::Value { key: key.to_owned(), value: value.to_owned() }),
    };
    let no_effect = || if is_enabled { Ok(Entry::NoEffect) } else { Err(RuntimeConfigError::Disabled(key.to_owned())) };
    if SETS.contains(&key) {
        return no_effect();
    }
    let mut parts = key.split('/');
    let (Some(group), Some(version)) = (parts.next(), parts.next()) else {
        return Err(RuntimeConfigError::Key(key.to_owned()));
    };
    let (resource, rest) = (parts.next(), parts.next());
    if rest.is_some() {
        return Err(RuntimeConfigError::Key(key.to_owned()));
    }
    let served = || KubernetesVersion::ALL.iter().flat_map(|kubernetes| catalog(*kubernetes));
    let removed = removed::of_version(group, version);
    if removed.is_none() && !served().any(|known| known.group == group) {
        return Err(RuntimeConfigError::Group(key.to_owned()));
    }
    if removed.is_none() && !served().any(|known| (known.group, known.version) == (group, version)) {
        let version = format!("{group}/{version}");
        return Err(RuntimeConfigError::Version { version, known: RuntimeConfig::versions().collect() });
    }
    if resource.is_some() {
        return Err(RuntimeConfigError::Resource(key.to_owned()));
    }
    removed.map_or_else(no_effect, |version| Ok(Entry::Removed { version, is_enabled }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<RuntimeConfig>().unwrap_err().to_string()
    }

    #[test]
    fn last_value_of_a_version_counts() {
        let config: RuntimeConfig = " policy/v1beta1 , api/beta=true,policy/v1=1".parse().unwrap();
        assert_eq!(config.to_string(), "policy/v1beta1=true");
        let disabled: RuntimeConfig = "policy/v1beta1=true,policy/v1beta1=false".parse().unwrap();
        assert_eq!(disabled.enabled().count(), 0);
        let joined: RuntimeConfig = [disabled, config].into_iter().collect();
        assert_eq!(joined.enabled().map(RemovedVersion::api_version).collect::<Vec<_>>(), ["policy/v1beta1"]);
        assert_eq!("".parse(), Ok(RuntimeConfig::default()));
    }

    #[test]
    fn unknown_versions_are_errors() {
        assert_eq!(error("api/legacy=true"), "unknown api groups api/legacy");
        assert!(error("v1").starts_with("runtime-config invalid key v1: expected GROUP/VERSION"));
        let unknown = error("policy/v1alpha1=true");
        assert!(unknown.starts_with("group version policy/v1alpha1 that has not been registered"), "{unknown}");
        assert!(unknown.contains("policy/v1beta1"), "{unknown}");
        assert_eq!(error("policy/v1beta1=yes"), "invalid value of policy/v1beta1: yes: expected true or false");
        assert!(error("api/all=false").starts_with("cannot disable api/all"));
        assert!(error("apps/v1=false").starts_with("cannot disable apps/v1"));
        assert!(error("policy/v1beta1/evictions=true").contains("single resources"));
    }

    #[test]
    fn other_entries_are_ignored_in_a_stand_in() {
        let config =
            RuntimeConfig::lenient("api/all=false,policy/v1beta1=true,storagemigration.k8s.io/v1alpha1=true,x");
        assert_eq!(config.to_string(), "policy/v1beta1=true");
    }
}
