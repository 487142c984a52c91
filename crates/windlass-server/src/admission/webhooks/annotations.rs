//! The annotations of webhooks in the audit log.

use serde::Serialize;
use serde_json::Value;

use super::hook::Hook;
use crate::{audit::AuditContext, encoded::push_json};

/// The annotations of one call of a mutating webhook.
pub(super) struct MutationAnnotations<'h> {
    pub(super) audit: AuditContext,
    pub(super) hook: &'h Hook,
    pub(super) round: usize,
    /// The index among all configured webhooks.
    pub(super) index: usize,
}

#[derive(Serialize)]
struct Mutation<'h> {
    configuration: &'h str,
    webhook: &'h str,
    mutated: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Patch<'h> {
    configuration: &'h str,
    webhook: &'h str,
    patch: &'h Value,
    patch_type: &'static str,
}

impl MutationAnnotations<'_> {
    /// Records whether the webhook changed the object.
    pub(super) fn mutated(&self, mutated: bool) {
        let (configuration, webhook) = (self.hook.configuration(), self.hook.name());
        self.annotate("mutation.webhook", || encode(&Mutation { configuration, webhook, mutated }));
    }

    /// Records the webhook's patch, if the event contains the object of the request.
    pub(super) fn patched(&self, patch: &[u8]) {
        let (configuration, webhook) = (self.hook.configuration(), self.hook.name());
        if self.audit.wants_request()
            && let Ok(patch) = serde_json::from_slice::<Value>(patch)
        {
            let patch_type = "JSONPatch";
            self.annotate("patch.webhook", || {
                encode(&Patch { configuration, webhook, patch: &sorted(patch.clone()), patch_type })
            });
        }
    }

    /// Records that the call failed and was ignored.
    pub(super) fn failed_open(&self) {
        self.annotate("failed-open.mutation.webhook", || self.hook.name().to_owned());
    }

    fn annotate(&self, prefix: &str, value: impl FnOnce() -> String) {
        if self.audit.is_enabled() {
            let key = format!("{prefix}.admission.k8s.io/round_{}_index_{}", self.round, self.index);
            self.audit.annotate_admission(key, value());
        }
    }
}

/// Records that the call of a validating webhook failed and was ignored. `index` counts the webhooks that are called.
pub(super) fn failed_open_validating(audit: &AuditContext, hook: &Hook, index: usize) {
    if audit.is_enabled() {
        let key = format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}");
        audit.annotate_admission(key, hook.name().to_owned());
    }
}

fn encode(value: &impl Serialize) -> String {
    let mut json = Vec::new();
    push_json(value, &mut json);
    String::from_utf8(json).unwrap_or_default()
}

/// Sorts the fields of the operations. In Go, an operation is a map.
fn sorted(mut patch: Value) -> Value {
    for operation in patch.as_array_mut().into_iter().flatten() {
        if let Some(fields) = operation.as_object_mut() {
            fields.sort_keys();
        }
    }
    patch
}
