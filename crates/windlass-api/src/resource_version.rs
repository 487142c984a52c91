//! Resource versions of objects and lists.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use thiserror::Error;

/// A resource version: an opaque text, to be sent back unchanged.
///
/// Since Kubernetes 1.35, versions of the same resource can be compared as numbers ([`Self::compare`]). Equality is
/// textual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(SmolStr);

/// The error of a version that is not a comparable number. The message is Go's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("resource version is not well formed: {0}")]
pub struct ResourceVersionError(pub ResourceVersion);

impl ResourceVersion {
    /// Creates a resource version from its text.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(SmolStr::new(text))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether the version is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the version as a comparable number, if it is one: decimal, without leading zeros, and not "0".
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        if self.is_number() { self.0.parse().ok() } else { None }
    }

    /// Compares two versions of the same resource as numbers of any length.
    pub fn compare(&self, other: &Self) -> Result<Ordering, ResourceVersionError> {
        for version in [self, other] {
            if !version.is_number() {
                return Err(ResourceVersionError(version.clone()));
            }
        }
        Ok(self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0)))
    }

    fn is_number(&self) -> bool {
        !self.0.is_empty() && !self.0.starts_with('0') && self.0.bytes().all(|byte| byte.is_ascii_digit())
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<u64> for ResourceVersion {
    fn from(version: u64) -> Self {
        Self::new(version.to_string())
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_numbers_compare() {
        assert_eq!(ResourceVersion::from("42").as_u64(), Some(42));
        for odd in ["", "0", "042", "+4", "4x", "18446744073709551616"] {
            assert_eq!(ResourceVersion::from(odd).as_u64(), None, "{odd}");
        }
    }

    #[test]
    fn versions_of_any_length_compare() {
        let compare = |a: &str, b: &str| ResourceVersion::from(a).compare(&ResourceVersion::from(b));
        assert_eq!(compare("9", "10"), Ok(Ordering::Less));
        assert_eq!(compare("18446744073709551617", "18446744073709551616"), Ok(Ordering::Greater));
        assert_eq!(compare("7", "7"), Ok(Ordering::Equal));
        assert_eq!(compare("7", "0").unwrap_err().to_string(), "resource version is not well formed: 0");
        assert_eq!(compare("x", "7").unwrap_err().to_string(), "resource version is not well formed: x");
    }
}
