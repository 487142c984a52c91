//! The object of a request in the audit log: as the client sent it, with defaults, in the requested version.

use serde_json::Value;
use windlass_api::FieldValidation;

use crate::{
    audit::AuditContext,
    codec::sort_keys,
    encoded::{Style, push_json},
    object::Tree,
    resource::{ResourceInfo, Shape},
};

impl ResourceInfo {
    /// Records the decoded object of a request for the resource itself.
    pub(super) fn record_request(&self, audit: &AuditContext, decoded: &Value) {
        record(audit, &self.shape, decoded, |object| {
            let mut object = self.to_hub(object);
            self.strategy.default(&mut object);
            self.hub_to_requested(&object).into_owned()
        });
    }
}

/// Records the decoded object of a request for a subresource with its own kind, or of a review.
pub(crate) fn record_request(audit: &AuditContext, shape: &Shape, decoded: &Value) {
    record(audit, shape, decoded, |object| object);
}

fn record(audit: &AuditContext, shape: &Shape, decoded: &Value, complete: impl FnOnce(Value) -> Value) {
    if !audit.is_enabled() {
        return;
    }
    let fields = ["name", "namespace", "uid", "resourceVersion"];
    audit.record_metadata(fields.map(|field| decoded.text(&["metadata", field])));
    if !audit.wants_request() {
        return;
    }
    // An object that cannot be brought into form is rejected later.
    let Ok(normal) = shape.normalize(complete(decoded.clone()), FieldValidation::Ignore) else { return };
    let mut object = normal.value;
    if shape.style() == Style::Custom {
        sort_keys(&mut object);
    }
    let mut json = Vec::new();
    push_json(&object, &mut json);
    audit.record_request(json);
}
