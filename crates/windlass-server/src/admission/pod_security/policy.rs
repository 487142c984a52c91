//! Policies: a level and a version for each mode, from the labels of a namespace.

use std::fmt;

use crate::object::{Errors, Path};

/// The prefix of the labels, and of the annotations in the audit log.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// A level of the Pod Security Standards, from the least to the most restrictive one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// A version of the standards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// The minor version, as in `v1.25`.
    Minor(u64),
    /// The version of the server.
    #[default]
    Latest,
}

/// A level in a version, as in `baseline:v1.25`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standard {
    pub(crate) level: Level,
    pub(crate) version: Version,
}

/// The standards that pods of a namespace are checked against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Pods that violate it are rejected.
    pub(crate) enforce: Standard,
    /// Violations are recorded in the audit log.
    pub(crate) audit: Standard,
    /// Violations cause a warning.
    pub(crate) warn: Standard,
}

impl Level {
    /// Parses a level. The error is the one of kube-apiserver.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

impl Version {
    /// Parses a version. The error is the one of kube-apiserver.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let minor = text.strip_prefix("v1.").filter(|minor| {
            minor.bytes().all(|byte| byte.is_ascii_digit()) && (*minor == "0" || !minor.starts_with('0'))
        });
        // Go's integers are signed.
        let minor = minor.and_then(|minor| minor.parse::<i64>().ok()).and_then(|minor| u64::try_from(minor).ok());
        minor.map(Self::Minor).ok_or("must be \"latest\" or \"v1.x\"")
    }

    /// Returns the minor version to check in a server of the version `latest`.
    pub(super) fn minor(self, latest: u32) -> u32 {
        match self {
            Self::Minor(minor) => u32::try_from(minor).unwrap_or(latest).min(latest),
            Self::Latest => latest,
        }
    }
}

impl Standard {
    fn is_equivalent(self, other: Self) -> bool {
        self == other || (self.level == Level::Privileged && other.level == Level::Privileged)
    }
}

impl Policy {
    /// Reads the policy of a namespace from its labels, and reports invalid ones. A missing label has its default.
    ///
    /// An invalid level is as strict as possible for `enforce`, and has no effect in the other modes.
    pub(super) fn of<'l>(label: impl Fn(&str) -> Option<&'l str>, defaults: Self, errors: &mut Errors) -> Self {
        let mut policy = defaults;
        let mut labels = Labels { label, errors };
        let enforced = labels.read("enforce", Level::parse);
        if let Some(level) = enforced {
            policy.enforce.level = level.unwrap_or(Level::Restricted);
        }
        if let Some(version) = labels.read("enforce-version", Version::parse) {
            policy.enforce.version = version.unwrap_or_default();
        }
        if let Some(level) = labels.read("audit", Level::parse) {
            policy.audit.level = level.unwrap_or_default();
        }
        if let Some(version) = labels.read("audit-version", Version::parse) {
            policy.audit.version = version.unwrap_or_default();
        }
        let warned = labels.read("warn", Level::parse);
        if let Some(level) = warned {
            policy.warn.level = level.unwrap_or_default();
        }
        let warned_version = labels.read("warn-version", Version::parse);
        if let Some(version) = warned_version {
            policy.warn.version = version.unwrap_or_default();
        }
        // A namespace that enforces a level warns of the same violations, for example in deployments.
        if warned.is_none() && matches!(enforced, Some(Ok(_))) && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if warned_version.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        policy
    }

    /// Returns the standard of each mode, with the name of the mode.
    pub(super) fn modes(&self) -> [(&'static str, Standard); 3] {
        [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)]
    }

    /// Reports whether pods may do everything, and cause no warnings.
    pub(super) fn is_privileged(&self) -> bool {
        self.modes().iter().all(|(_, standard)| standard.level == Level::Privileged)
    }

    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.modes().iter().zip(other.modes()).all(|((_, one), (_, other))| one.is_equivalent(other))
    }
}

/// The label is invalid. Its error has been added.
#[derive(Clone, Copy, Debug)]
struct Invalid;

/// The labels of a namespace, and the errors in them.
struct Labels<'e, F> {
    label: F,
    errors: &'e mut Errors,
}

impl<'l, F: Fn(&str) -> Option<&'l str>> Labels<'_, F> {
    /// Reads a label. Returns `None` if it is missing.
    fn read<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, &'static str>) -> Option<Result<T, Invalid>> {
        let name = format!("{PREFIX}{name}");
        let text = (self.label)(&name)?;
        match parse(text) {
            Ok(value) => Some(Ok(value)),
            Err(detail) => {
                self.errors.invalid(&Path::new("metadata.labels").key(&name), text, detail);
                Some(Err(Invalid))
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(labels: &[(&str, &'static str)]) -> (Policy, usize) {
        let mut errors = Errors::default();
        let label = |name: &str| {
            let name = name.strip_prefix(PREFIX)?;
            labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value)
        };
        let policy = Policy::of(label, Policy::default(), &mut errors);
        (policy, errors.len())
    }

    fn texts(policy: &Policy) -> [String; 3] {
        policy.modes().map(|(_, standard)| standard.to_string())
    }

    #[test]
    fn versions_are_latest_or_a_minor_version() {
        for (text, expected) in
            [("latest", Version::Latest), ("v1.0", Version::Minor(0)), ("v1.36", Version::Minor(36))]
        {
            assert_eq!(Version::parse(text), Ok(expected));
            assert_eq!(expected.to_string(), text);
        }
        for text in ["", "v1", "v1.", "1.2", "v2.0", "v1.01", "v1.-1", "v1.+1", "Latest", "v1.9999999999999999999"] {
            assert!(Version::parse(text).is_err(), "{text}");
        }
        assert_eq!(Version::Minor(20).minor(36), 20);
        assert_eq!(Version::Minor(u64::MAX).minor(36), 36);
        assert_eq!(Version::Latest.minor(36), 36);
    }

    #[test]
    fn enforced_level_is_the_default_of_warnings() {
        let (enforced, _) = policy(&[("enforce", "baseline"), ("enforce-version", "v1.25")]);
        assert_eq!(texts(&enforced), ["baseline:v1.25", "privileged:latest", "baseline:v1.25"]);
        let (versioned, _) =
            policy(&[("enforce", "restricted"), ("enforce-version", "v1.25"), ("warn-version", "v1.3")]);
        assert_eq!(texts(&versioned)[2], "restricted:v1.3");
        let (relaxed, _) = policy(&[("enforce", "restricted"), ("warn", "privileged")]);
        assert_eq!(texts(&relaxed)[2], "privileged:latest");
    }

    #[test]
    fn invalid_labels_are_strict_for_enforce_only() {
        let (invalid, errors) = policy(&[("enforce", "x"), ("audit", "x"), ("warn", "x"), ("audit-version", "x")]);
        assert_eq!(texts(&invalid), ["restricted:latest", "privileged:latest", "privileged:latest"]);
        assert_eq!(errors, 4);
        let (unset, errors) = policy(&[("other", "x")]);
        assert!(unset.is_privileged() && errors == 0);
    }

    #[test]
    fn privileged_standards_of_all_versions_are_equivalent() {
        let (old, _) = policy(&[("enforce-version", "v1.1")]);
        assert!(old.is_equivalent(&Policy::default()));
        let (baseline, _) = policy(&[("audit", "baseline")]);
        assert!(!baseline.is_equivalent(&Policy::default()) && !baseline.is_privileged());
    }
}
