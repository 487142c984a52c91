//! The `patch` verb, including server-side apply.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use windlass_api::{FieldValidation, Status};

pub(crate) use crate::patch::PatchType;

use crate::codec::{self, Decoded};

use super::{
    Registry, WriteParams, Written,
    field_manager::{self, Application},
    update::Edit,
};
use crate::{
    kubernetes::KubernetesVersion,
    object::Tree,
    resource::{Shape, Target},
};

impl Registry {
    /// Patches an object, or the part of it that a subresource covers.
    pub(crate) async fn patch(
        &self,
        target: &Target,
        kind: PatchType,
        body: Bytes,
        params: WriteParams,
    ) -> Result<Written, Status> {
        // Since 1.37, the real server checks the syntax for its audit log.
        if self.is_since_1_37() && serde_json::from_slice::<IgnoredAny>(&body).is_err() {
            return Err(Status::bad_request("invalid JSON patch"));
        }
        self.edit(target, &Edit::Patch { kind, body }, &params).await
    }

    /// Performs a server-side apply. The body contains the fields that the request's manager sets and owns.
    pub(crate) async fn apply(
        &self,
        target: &Target,
        body: &[u8],
        force: bool,
        params: WriteParams,
    ) -> Result<Written, Status> {
        let is_newer = self.is_since_1_37();
        let name = if is_newer { "patch" } else { "YAML" };
        let bad = |why: String| Status::bad_request(format!("error decoding {name}: {why}"));
        let decoded = codec::decode_applied(body).map_err(|why| {
            if is_newer {
                Status::bad_request(format!("error encoding patch: {why}"))
            } else {
                bad(format!("error converting YAML to JSON: {why}"))
            }
        })?;
        let patch = match decoded.value {
            Value::Object(_) => decoded.value,
            Value::Null => Value::Object(Map::new()),
            other => {
                let found = match other {
                    Value::Array(_) => "array",
                    Value::Bool(_) => "bool",
                    Value::Number(_) => "number",
                    _ => "string",
                };
                return Err(bad(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
                     map[string]interface {{}}"
                )));
            }
        };
        let duplicates = decoded.warnings;
        let strict = (params.field_validation == FieldValidation::Strict && !duplicates.is_empty()).then(|| {
            let lines = duplicates.join("\n  ");
            Status::bad_request(format!(
                "error strict decoding {name}: error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}"
            ))
        });
        if params.field_validation == FieldValidation::Warn {
            params.warnings.extend(duplicates);
        }
        let application = Application { patch, force, refusal: strict.map(Box::new) };
        self.edit(target, &Edit::Apply(application), &params).await
    }

    /// Reports whether the server serves Kubernetes 1.37 or a newer version.
    fn is_since_1_37(&self) -> bool {
        self.resources().kubernetes() >= KubernetesVersion::V1_37
    }
}

/// Returns the patched object in the normal form of its kind. If the result has no managedFields, the patch does not
/// change them. Warnings are collected even if the patch fails.
pub(super) fn patched(
    kind: PatchType,
    body: &Bytes,
    current: &Value,
    shape: &Shape,
    params: &WriteParams,
) -> Result<Value, Status> {
    let patch = |current| patch_whole(kind, body, current, shape, params.field_validation);
    // managedFields are often the larger part of an object, and patches rarely change them.
    let decoded = if kind == PatchType::Json || field_manager::mentions_managers(body) {
        patch(current)?
    } else {
        // An error message may show the whole object, so the patch is repeated on it.
        patch(&field_manager::clone_without_managed_fields(current)).or_else(|_| patch(current))?
    };
    params.warnings.extend(decoded.warnings);
    Ok(decoded.value)
}

fn patch_whole(
    kind: PatchType,
    body: &Bytes,
    current: &Value,
    shape: &Shape,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let plan = match shape {
        Shape::BuiltIn(plan) => Some(*plan),
        Shape::Custom(_) => None,
    };
    let tree = || crate::patch::apply_patch(kind, body, current, plan, validation);
    let mut decoded = match shape {
        Shape::BuiltIn(plan) => crate::patch::patch_object(kind, body, current, plan, validation)?,
        Shape::Custom(shape) => {
            let mut patched = tree()?;
            let mut decoded = shape.normalize(patched.value, validation)?;
            decoded.warnings.splice(..0, patched.warnings.drain(..));
            decoded
        }
    };
    // Go distinguishes an empty list from a missing one.
    if decoded.value.at(&["metadata", "managedFields"]).is_none()
        && field_manager::mentions_managers(body)
        && tree()?.value.at(&["metadata", "managedFields"]).is_some_and(field_manager::is_reset)
    {
        field_manager::mark_reset(&mut decoded.value);
    }
    Ok(decoded)
}
