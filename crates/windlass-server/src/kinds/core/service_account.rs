//! `ServiceAccount`.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "ServiceAccount",
    rules: Rules { returns_deleted: true, ..Rules::COMMON },
    prepare_create: |object, _| reduce_secrets(object),
    prepare_update: |new, _| reduce_secrets(new),
    warnings,
    ..BASE
};

/// The annotation of accounts whose pods may use only the account's secrets.
pub(crate) const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Warns if an account starts to use the deprecated limit on mountable secrets.
fn warnings(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    let is_limited = |account: &Value| account.at(&["metadata", "annotations", ENFORCE_MOUNTABLE_SECRETS]).is_some();
    if is_limited(new) && !old.is_some_and(is_limited) {
        let remedy = "prefer separate namespaces to isolate access to mounted secrets";
        let text = format!("metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; {remedy}");
        warnings.push(text);
    }
}

/// Reduces references to secrets to their names.
fn reduce_secrets(account: &mut Value) {
    for secret in items_mut(account, "secrets") {
        *secret = json!({"name": secret.text(&["name"])});
    }
}
