//! Patching: a change described by its difference.

use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_api::{FieldValidation, Status};

pub(crate) use crate::patch::PatchType;

use crate::codec::{self, Decoded};

use super::{
    Registry, Shape, Target, Tree, WriteParams, Written,
    field_manager::{self, Application},
    update::Edit,
};

impl Registry {
    /// Patches an object, or the part of it that a subresource is.
    pub(crate) async fn patch(
        &self,
        target: &Target,
        kind: PatchType,
        body: Bytes,
        params: WriteParams,
    ) -> Result<Written, Status> {
        let warnings = target.resource.deprecation.clone().into_iter().collect();
        self.edit(target, &Edit::Patch { kind, body }, &params, warnings).await
    }

    /// Applies a part of an object: what the manager of the request wants of it, and owns from now on.
    pub(crate) async fn apply(
        &self,
        target: &Target,
        body: &[u8],
        force: bool,
        params: WriteParams,
    ) -> Result<Written, Status> {
        let bad = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        let decoded =
            codec::decode_applied(body).map_err(|why| bad(format!("error converting YAML to JSON: {why}")))?;
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
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}"
            ))
        });
        let warnings = target.resource.deprecation.clone().into_iter().collect();
        if params.field_validation == FieldValidation::Warn {
            params.warnings.extend(duplicates);
        }
        let application = Application { patch, force, refusal: strict.map(Box::new) };
        self.edit(target, &Edit::Apply(application), &params, warnings).await
    }
}

/// What a patch makes of an object, in the normal form of its kind. Without managedFields the patch says nothing of them.
/// What there is to warn of is told whatever becomes of it.
pub(super) fn patched(
    kind: PatchType,
    body: &Bytes,
    current: &Value,
    shape: &Shape,
    params: &WriteParams,
) -> Result<Value, Status> {
    let patch = |current| patch_whole(kind, body, current, shape, params.field_validation);
    // They are often the larger part of an object, and seldom what a patch is about.
    let decoded = if kind == PatchType::Json || field_manager::mentions_managers(body) {
        patch(current)?
    } else {
        // A refusal may show the whole object.
        patch(&field_manager::clone_without(current)).or_else(|_| patch(current))?
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
            let mut decoded = shape.normalise(patched.value, validation)?;
            decoded.warnings.splice(..0, patched.warnings.drain(..));
            decoded
        }
    };
    // Go tells an empty list from none.
    if decoded.value.at(&["metadata", "managedFields"]).is_none()
        && field_manager::mentions_managers(body)
        && tree()?.value.at(&["metadata", "managedFields"]).is_some_and(field_manager::is_reset)
    {
        field_manager::mark_reset(&mut decoded.value);
    }
    Ok(decoded)
}
