//! The body of a DELETE request: a `DeleteOptions` of `v1` or of any group's version.

use serde_json::{Value, json};
use windlass_api::{FieldValidation, Status};

use crate::{
    codec::{Format, check_json, plan, scheme_name},
    kubernetes::KubernetesVersion,
};

/// The struct into which Go decodes kind and version, as Go prints it.
const FIND_KIND: &str = concat!(
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; "#,
    r#"Kind string "json:\"kind,omitempty\"" }"#
);

/// Decodes the body of a DELETE request.
pub(super) fn decode(body: &[u8], format: Format, kubernetes: KubernetesVersion) -> Result<Value, Status> {
    decode_body(body, format, kubernetes).map_err(|status| {
        // Before 1.35, invalid options are internal errors.
        if kubernetes < KubernetesVersion::V1_35 { Status::unclassified(status.message) } else { status }
    })
}

/// Returns decoded options in JSON, as the audit log contains them: in Go's internal version.
pub(super) fn audited(options: &Value) -> Vec<u8> {
    let mut object = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal"});
    if let (Some(object), Some(fields)) = (object.as_object_mut(), options.as_object()) {
        let fields = fields.iter().filter(|(field, _)| !matches!(field.as_str(), "kind" | "apiVersion"));
        object.extend(fields.map(|(field, value)| (field.clone(), value.clone())));
    }
    super::json::encode(&object)
}

fn decode_body(body: &[u8], format: Format, kubernetes: KubernetesVersion) -> Result<Value, Status> {
    let plan = plan("meta.k8s.io", "v1", "DeleteOptions").expect("the type table contains the options of meta/v1");
    if format != Format::Json {
        return Ok(plan.decode(body, format, FieldValidation::Ignore)?.value);
    }
    check_json(body)
        .map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))?;
    let mut value: Value = serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?;
    if !value.is_object() && !value.is_null() {
        let found = match value {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        return Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type {FIND_KIND}"
        )));
    }
    if let Some(object) = value.as_object_mut() {
        let text = |value: Option<Value>| value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text(object.shift_remove("kind"));
        let version = text(object.shift_remove("apiVersion"));
        if !matches!(kind.as_str(), "" | "DeleteOptions") {
            let scheme = scheme_name(kubernetes);
            let message = format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}");
            return Err(Status::bad_request(message));
        }
    }
    Ok(plan.normalize(value, FieldValidation::Ignore).map_err(Status::bad_request)?.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(body: &str) -> String {
        decode(body.as_bytes(), Format::Json, KubernetesVersion::default()).unwrap_err().message
    }

    #[test]
    fn delete_options_of_any_group_are_decoded() {
        for head in ["", r#""kind":"DeleteOptions","apiVersion":"apps/v1","#] {
            let body = format!("{{{head}\"propagationPolicy\":\"Orphan\",\"bogus\":1}}");
            assert_eq!(
                decode(body.as_bytes(), Format::Json, KubernetesVersion::default()).unwrap()["propagationPolicy"],
                "Orphan",
                "{body}"
            );
        }
        assert_eq!(
            decode(b"gracePeriodSeconds: 5", Format::Yaml, KubernetesVersion::default()).unwrap()["gracePeriodSeconds"],
            5
        );
    }

    #[test]
    fn invalid_delete_options_have_kube_apiservers_messages() {
        assert_eq!(
            wrong(r#"{"kind":"Foo","apiVersion":"v1"}"#),
            r#"no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#
        );
        assert_eq!(
            wrong(r#"{"gracePeriodSeconds":"x"}"#),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        );
        assert_eq!(
            wrong("{x"),
            "couldn't get version/kind; json parse error: invalid character 'x' looking for beginning of object key string"
        );
    }
}
