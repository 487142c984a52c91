//! The version of an object or of a list.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A resourceVersion: opaque text, to be sent back as it came.
///
/// Since Kubernetes 1.35 versions of one resource may be compared as numbers ([`Self::as_u64`]). Equality is textual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(Arc<str>);

impl ResourceVersion {
    /// Takes the text as it came.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether no version was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The version as a number that can be compared, if it is one: decimal, no leading zero, not "0".
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        let first = self.0.bytes().next()?;
        if !first.is_ascii_digit() || first == b'0' { None } else { self.0.parse().ok() }
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
}
