//! Patching: a change described by its difference.

use bytes::Bytes;
use serde_json::Value;
use windlass_api::{FieldValidation, Status};

pub(crate) use crate::patch::PatchType;

use super::{Registry, Shape, Target, WriteParams, Written, update::Edit};

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
}

/// What a patch makes of an object, in the normal form of its kind.
pub(super) fn patched(
    kind: PatchType,
    body: &Bytes,
    current: &Value,
    shape: &Shape,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let decoded = match shape {
        Shape::BuiltIn(plan) => crate::patch::patch_object(kind, body, current, plan, validation)?,
        Shape::Custom(shape) => {
            let mut patched = crate::patch::apply_patch(kind, body, current, None, validation)?;
            let mut decoded = shape.normalise(patched.value, validation)?;
            decoded.warnings.splice(..0, patched.warnings.drain(..));
            decoded
        }
    };
    warnings.extend(decoded.warnings);
    Ok(decoded.value)
}
