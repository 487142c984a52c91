//! The preference order of API versions: `v2` before `v1` before `v1beta2` before `v1alpha1`, and these before all
//! other texts.

use std::{cmp::Ordering, fmt};

/// An API version that is ordered by preference: the greatest is the most stable and newest one.
///
/// ```
/// use windlass_api::ApiVersion;
///
/// let mut versions = ["v1alpha1", "v1", "v2beta1", "foo1", "v10", "v1beta2"].map(ApiVersion::new);
/// versions.sort_by(|a, b| b.cmp(a));
/// let sorted: Vec<String> = versions.iter().map(ToString::to_string).collect();
/// assert_eq!(sorted, ["v10", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo1"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiVersion {
    text: Box<str>,
    /// `None` for texts that are not Kubernetes version numbers.
    parts: Option<(Stability, u64, u64)>,
}

/// The stability level of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stability {
    /// Alpha, such as `v1alpha1`.
    Alpha,
    /// Beta, such as `v1beta1`.
    Beta,
    /// Stable, such as `v1`.
    Stable,
}

impl ApiVersion {
    /// Creates a version from any text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.into(), parts: parse(text) }
    }

    /// Returns the stability level; `None` if the text is not a Kubernetes version number.
    #[must_use]
    pub fn stability(&self) -> Option<Stability> {
        self.parts.map(|(stability, _, _)| stability)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Ord for ApiVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.parts, other.parts) {
            // Other texts are ordered alphabetically.
            (None, None) => other.text.cmp(&self.text),
            (ours, theirs) => ours.cmp(&theirs),
        }
    }
}

impl PartialOrd for ApiVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses the stability level, major and minor number. Numbers have no leading zeros.
fn parse(text: &str) -> Option<(Stability, u64, u64)> {
    let rest = text.strip_prefix('v')?;
    let split = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(split);
    let major = number(major)?;
    if rest.is_empty() {
        return Some((Stability::Stable, major, 0));
    }
    let (stability, minor) = rest
        .strip_prefix("alpha")
        .map(|minor| (Stability::Alpha, minor))
        .or_else(|| rest.strip_prefix("beta").map(|minor| (Stability::Beta, minor)))?;
    Some((stability, major, number(minor)?))
}

fn number(text: &str) -> Option<u64> {
    if text.starts_with('0') || text.bytes().any(|byte| !byte.is_ascii_digit()) { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_versions_have_a_stability() {
        assert_eq!(ApiVersion::new("v1beta2").stability(), Some(Stability::Beta));
        for odd in ["1", "v", "v01", "v1gamma1", "v1beta", "v1beta01", "v1beta1x", "V1", "v-1", "v+1"] {
            assert_eq!(ApiVersion::new(odd).stability(), None, "{odd}");
        }
    }

    #[test]
    fn versions_are_ordered_by_priority() {
        let ordered = ["v11", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        for pair in ordered.windows(2) {
            assert!(ApiVersion::new(pair[0]) > ApiVersion::new(pair[1]), "{pair:?}");
        }
    }
}
