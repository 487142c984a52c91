//! The Kubernetes versions that a server can serve, and the recorded tables of each.
//!
//! A [`KubernetesVersion`] selects [`Tables`]: the Go types, schemas, resources, columns and roles of that version. The
//! binary contains the tables of the default version in full, and for each other version the differences from them
//! (`data/minors`). The tables of a version are built when a server of that version first needs them, and are never
//! freed.
//!
//! [`removed`] lists API versions that none of these versions has, and that a server can serve again.

mod difference;
pub(crate) mod removed;
mod tables;

use std::{error::Error, fmt, str::FromStr};

pub(crate) use self::tables::Tables;

/// A Kubernetes version that a server can serve.
///
/// The default is the version with which everything else in Windlass is tested. For other versions, a server has the
/// resources, fields, documents, columns and roles of kube-apiserver of that version.
///
/// ```
/// use windlass_server::KubernetesVersion;
///
/// let version: KubernetesVersion = "v1.35".parse()?;
/// assert_eq!((version, version.to_string()), (KubernetesVersion::V1_35, "1.35".to_owned()));
/// assert_eq!(KubernetesVersion::default(), KubernetesVersion::V1_36);
/// # Ok::<(), windlass_server::UnknownKubernetesVersion>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum KubernetesVersion {
    /// Kubernetes 1.33.
    V1_33,
    /// Kubernetes 1.34.
    V1_34,
    /// Kubernetes 1.35.
    V1_35,
    /// Kubernetes 1.36.
    #[default]
    V1_36,
    /// Kubernetes 1.37.
    V1_37,
}

/// The error for a text that names no [`KubernetesVersion`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKubernetesVersion {
    text: String,
}

// === impl KubernetesVersion ===

impl KubernetesVersion {
    /// All versions, in ascending order.
    pub const ALL: &[Self] = &[Self::V1_33, Self::V1_34, Self::V1_35, Self::V1_36, Self::V1_37];

    /// Returns the minor version, such as 36.
    #[must_use]
    pub const fn minor(self) -> u32 {
        match self {
            Self::V1_33 => 33,
            Self::V1_34 => 34,
            Self::V1_35 => 35,
            Self::V1_36 => 36,
            Self::V1_37 => 37,
        }
    }

    /// Returns the release whose kube-apiserver was recorded, such as `v1.36.3`.
    #[must_use]
    pub const fn release(self) -> &'static str {
        match self {
            Self::V1_33 => "v1.33.13",
            Self::V1_34 => "v1.34.4",
            Self::V1_35 => "v1.35.4",
            Self::V1_36 => "v1.36.3",
            Self::V1_37 => "v1.37.2",
        }
    }

    /// Returns the position in [`Self::ALL`], for tables that have an entry for each version.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the recorded tables of this version.
    pub(crate) fn tables(self) -> &'static Tables {
        tables::of(self)
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor())
    }
}

impl FromStr for KubernetesVersion {
    type Err = UnknownKubernetesVersion;

    /// Parses a text such as `1.36` or `v1.36`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let minor = text.strip_prefix('v').unwrap_or(text);
        let found = Self::ALL.iter().find(|version| version.to_string() == minor).copied();
        found.ok_or_else(|| UnknownKubernetesVersion { text: text.to_owned() })
    }
}

// === impl UnknownKubernetesVersion ===

impl fmt::Display for UnknownKubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<String> = KubernetesVersion::ALL.iter().map(ToString::to_string).collect();
        write!(f, "unknown Kubernetes version {:?}; the embedded server has {}", self.text, known.join(", "))
    }
}

impl Error for UnknownKubernetesVersion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_with_and_without_v() {
        for version in KubernetesVersion::ALL {
            assert_eq!(version.to_string().parse(), Ok(*version));
            assert_eq!(format!("v{version}").parse(), Ok(*version));
            assert_eq!(KubernetesVersion::ALL[version.index()], *version);
            assert!(version.release().starts_with(&format!("v{version}.")));
        }
    }

    #[test]
    fn unknown_versions_are_reported_with_the_known_ones() {
        let error = "1.20".parse::<KubernetesVersion>().unwrap_err().to_string();
        assert!(error.starts_with("unknown Kubernetes version \"1.20\"; the embedded server has 1."), "{error}");
        assert!(error.ends_with(", 1.36, 1.37"), "{error}");
    }
}
