//! Errors in the manifests of a project.

use std::fmt;

/// An error that a cluster would report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place: `Website v1: spec.replicas`.
    pub place: String,
    /// The reason.
    pub why: String,
    /// The invalid CEL rule, if the error is in one.
    pub rule: Option<String>,
}

/// All errors in the manifests of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    pub(crate) fn new(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), why: why.into(), rule: None }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
