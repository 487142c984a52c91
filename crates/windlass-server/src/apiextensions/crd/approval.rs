//! The approval of CRDs in the protected groups of Kubernetes.

use serde_json::Value;

use crate::{
    codec::go_quote,
    object::{Errors, Field, Tree},
};

/// The approval that a protected Kubernetes group requires.
#[derive(Debug)]
pub(in crate::apiextensions) enum Approval {
    Missing,
    Bypassed,
    Given,
    Unreadable,
}

impl Approval {
    const ANNOTATION: &str = "api-approved.kubernetes.io";

    /// Returns `None` if the group does not require approval.
    fn of(object: &Value) -> Option<Self> {
        let group = object.text(&["spec", "group"]);
        let ends_in = |end: &str| group.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        if !["k8s.io", "kubernetes.io"].into_iter().any(ends_in) {
            return None;
        }
        Some(match object.text(&["metadata", "annotations", Self::ANNOTATION]) {
            "" => Self::Missing,
            value if value.starts_with("unapproved") => Self::Bypassed,
            value if value.contains("://") => Self::Given,
            _ => Self::Unreadable,
        })
    }

    /// Returns the condition for the approval: status, reason and message.
    pub(in crate::apiextensions) fn condition(object: &Value) -> Option<(bool, &'static str, String)> {
        let value = object.text(&["metadata", "annotations", Self::ANNOTATION]);
        Some(match Self::of(object)? {
            Self::Missing => (false, "MissingAnnotation", Self::Missing.rule()),
            Self::Bypassed => (false, "UnapprovedAnnotation", format!("not approved: {}", go_quote(value))),
            Self::Given => (true, "ApprovedAnnotation", format!("approved in {value}")),
            Self::Unreadable => (false, "InvalidAnnotation", Self::Unreadable.rule()),
        })
    }

    /// Validates the approval of a CRD.
    pub(super) fn validate(object: &Value, errors: &mut Errors) {
        let definition = Field::object(object);
        let annotations = definition.child("metadata.annotations");
        let annotation = annotations.key(Self::ANNOTATION);
        match Self::of(object) {
            Some(Self::Missing) => annotation.required(&Self::Missing.rule(), errors),
            Some(Self::Unreadable) => annotation.invalid(&Self::Unreadable.rule(), errors),
            Some(Self::Bypassed | Self::Given) | None => {}
        }
    }

    fn rule(&self) -> String {
        let either = match self {
            Self::Unreadable => " with either a URL or a reason starting with \"unapproved\"",
            Self::Missing | Self::Bypassed | Self::Given => "",
        };
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        format!("protected groups must have approval annotation \"{}\"{either}, {see}", Self::ANNOTATION)
    }
}
