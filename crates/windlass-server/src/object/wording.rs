//! The wording of validation errors in older Kubernetes versions.

use windlass_api::Cause;

use super::go_syntax;
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

/// Returns a start with the rule for label keys.
macro_rules! label_key {
    ($start:literal) => {
        concat!(
            $start,
            " must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyName')"
        )
    };
}

const WORDINGS: &[Wording] = &[
    since(V1_35, "", label_key!("a valid label key"), label_key!("a qualified name")),
    since(
        V1_35,
        ".valueFrom",
        "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        "`configMapKeyRef` or `secretKeyRef`",
    ),
    since(V1_35, "", "must be no more than 253 bytes", "must be no more than 253 characters"),
    since(V1_35, "", "must be no more than 63 bytes", "must be no more than 63 characters"),
    // The message about subdomains with underscores.
    since(
        V1_34,
        "",
        r"'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
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
    since(V1_34, "lientConfig.service.name", "Required value", "Required value: service name is required"),
    since(V1_34, "lientConfig.service.namespace", "Required value", "Required value: service namespace is required"),
    since(V1_34, "ownerReferences.kind", "must not be empty", "kind must not be empty"),
    since(V1_34, "ownerReferences.name", "must not be empty", "name must not be empty"),
    since(V1_34, "ownerReferences.uid", "must not be empty", "uid must not be empty"),
];

/// Texts in errors of custom objects.
const UNTYPED_WORDINGS: &[Wording] =
    &[since(V1_34, "", "at most 1 item", "at most 1 items"), since(V1_34, "", "more than 1 byte", "more than 1 bytes")];

/// Brings the message of an error into the wording of a version.
pub(crate) fn adjust(kubernetes: KubernetesVersion, cause: &mut Cause) {
    if kubernetes < V1_34 {
        go_syntax::rewrite(cause);
    }
    replace_end(WORDINGS, kubernetes, cause);
}

/// Brings the message of an error of a custom object into the wording of a version.
pub(super) fn adjust_untyped(kubernetes: KubernetesVersion, cause: &mut Cause) {
    if kubernetes < V1_34 {
        go_syntax::rewrite_untyped(cause);
    }
    replace_end(UNTYPED_WORDINGS, kubernetes, cause);
}

fn replace_end(wordings: &[Wording], kubernetes: KubernetesVersion, cause: &mut Cause) {
    for wording in wordings.iter().filter(|wording| kubernetes < wording.since) {
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

    fn cause(field: &str, message: &str) -> Cause {
        Cause { reason: String::new(), message: message.to_owned(), field: field.to_owned() }
    }

    fn adjusted(kubernetes: KubernetesVersion, field: &str, message: &str) -> String {
        let mut cause = cause(field, message);
        adjust(kubernetes, &mut cause);
        cause.message
    }

    #[test]
    fn errors_have_the_wording_of_their_version() {
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
                "Invalid value: 5: field is immutable",
                "Invalid value: 5: completionTime cannot be mutated",
            ),
        ] {
            for kubernetes in [V1_33, V1_34, V1_35, V1_36] {
                let expected = if kubernetes < since { old } else { new };
                assert_eq!(adjusted(kubernetes, field, new), expected, "{kubernetes}: {field}");
            }
        }
        assert_eq!(adjusted(V1_33, "spec.template.spec.kind", "Required value"), "Required value");
    }

    #[test]
    fn older_versions_have_their_wording_and_go_syntax() {
        let (field, message) = ("metadata.ownerReferences.uid", "Invalid value: \"\": must not be empty");
        assert_eq!(adjusted(V1_33, field, message), "Invalid value: \"\": uid must not be empty");
        assert_eq!(adjusted(V1_34, field, message), message);
        let message = "Unsupported value: [\"x\"]: supported values: \"All\"";
        assert_eq!(adjusted(V1_33, "dryRun", message), "Unsupported value: []string{\"x\"}: supported values: \"All\"");
        assert_eq!(adjusted(V1_34, "dryRun", message), message);
        let message = format!("Invalid value: \"a/b/c\": {}", label_key!("a valid label key"));
        let before = message.replace("a valid label key", "a qualified name");
        assert_eq!(adjusted(V1_34, "metadata.labels", &message), before);
        assert_eq!(adjusted(V1_36, "metadata.labels", &message), message);
    }

    #[test]
    fn custom_objects_have_their_own_wording() {
        let adjusted = |kubernetes, field: &str, message: &str| {
            let mut cause = cause(field, message);
            adjust_untyped(kubernetes, &mut cause);
            cause.message
        };
        let message = "Too long: may not be more than 1 byte";
        assert_eq!(adjusted(V1_33, "spec.a", message), "Too long: may not be more than 1 bytes");
        assert_eq!(adjusted(V1_34, "spec.a", message), message);
        assert_eq!(adjusted(V1_33, "spec.a.kind", "Required value"), "Required value");
        assert_eq!(adjusted(V1_33, "spec.a.name", "Required value"), "Required value");
    }
}
