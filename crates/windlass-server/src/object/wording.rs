//! The wording of validation errors in older Kubernetes versions.

use windlass_api::Cause;

use crate::kubernetes::KubernetesVersion::{self, V1_34, V1_35};

/// A text that a version has changed.
struct Wording {
    since: KubernetesVersion,
    /// The end of the field's path; empty for all fields.
    field: &'static str,
    /// The end of the message.
    text: &'static str,
    /// The end of the message in older versions.
    before: &'static str,
}

const fn since(since: KubernetesVersion, field: &'static str, text: &'static str, before: &'static str) -> Wording {
    Wording { since, field, text, before }
}

const WORDINGS: &[Wording] = &[
    since(
        V1_35,
        ".valueFrom",
        "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        "`configMapKeyRef` or `secretKeyRef`",
    ),
    since(V1_35, "", "must be no more than 253 bytes", "must be no more than 253 characters"),
    since(V1_35, "", "must be no more than 63 bytes", "must be no more than 63 characters"),
    since(V1_34, "", "when `hostUsers` is false", "when `pod.Spec.HostUsers` is false"),
    since(V1_34, "", "must be a valid CEL identifier", "name is not a valid CEL identifier"),
    since(V1_34, ".message", "must be non-empty if specified", "message must be non-empty if specified"),
    since(V1_34, ".message", "must not contain line breaks", "message must not contain line breaks"),
    since(V1_34, "", "must be equal to or after `startTime`", "completionTime cannot be set before startTime"),
    since(V1_34, "", "must be empty for finished job", "uncountedTerminatedPods needs to be empty for finished job"),
    since(
        V1_34,
        "spec.type",
        "must be 'Exempt' if and only if `name` is 'exempt'",
        "type must be 'Exempt' if and only if name is 'exempt'",
    ),
    since(V1_34, "completionTime", "field is immutable", "completionTime cannot be mutated"),
    since(V1_34, ".fieldPath", "must be non-empty if specified", "fieldPath must be non-empty if specified"),
    since(V1_34, ".fieldPath", "must not contain line breaks", "fieldPath must not contain line breaks"),
    since(V1_34, ".fieldPath", "must be a valid path", "fieldPath must be a valid path"),
    since(V1_34, "schema.openAPIV3Schema", "Required value", "Required value: schemas are required"),
    since(V1_34, "spec.os.name", "Required value", "Required value: cannot be empty"),
    since(V1_34, "spec.parameters.kind", "Required value", "Required value: kind is required"),
    since(V1_34, "spec.parameters.name", "Required value", "Required value: name is required"),
    since(V1_34, ".resource.kind", "Required value", "Required value: kind is required"),
    since(V1_34, ".resource.name", "Required value", "Required value: name is required"),
];

/// Brings the message of an error into the wording of a version.
pub(super) fn adjust(kubernetes: KubernetesVersion, cause: &mut Cause) {
    for wording in WORDINGS.iter().filter(|wording| kubernetes < wording.since) {
        if cause.field.ends_with(wording.field)
            && let Some(start) = cause.message.strip_suffix(wording.text)
        {
            cause.message = format!("{start}{}", wording.before);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::KubernetesVersion::{V1_33, V1_36};

    #[test]
    fn errors_have_the_words_of_their_version() {
        for (since, field, new, old) in [
            (
                V1_35,
                "metadata.labels",
                "Invalid value: \"x\": name part must be no more than 63 bytes",
                "Invalid value: \"x\": name part must be no more than 63 characters",
            ),
            (V1_34, "spec.parameters.kind", "Required value", "Required value: kind is required"),
            (
                V1_34,
                "status.completionTime",
                "Invalid value: null: field is immutable",
                "Invalid value: null: completionTime cannot be mutated",
            ),
        ] {
            for kubernetes in [V1_33, V1_34, V1_35, V1_36] {
                let mut cause = Cause { reason: String::new(), message: new.to_owned(), field: field.to_owned() };
                adjust(kubernetes, &mut cause);
                assert_eq!(cause.message, if kubernetes < since { old } else { new }, "{kubernetes}: {field}");
            }
        }
    }

    #[test]
    fn words_of_other_fields_are_not_changed() {
        let mut cause = Cause {
            reason: String::new(),
            message: "Required value".to_owned(),
            field: "spec.template.spec.kind".to_owned(),
        };
        adjust(V1_33, &mut cause);
        assert_eq!(cause.message, "Required value");
    }
}
