//! Server-side applies, and the fields that they own.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod generated;
mod types;

use serde_json::Value;
use windlass_api::Object;
use windlass_client::Client;
use windlass_envtest::Environment;

/// Returns the fields that a manager owns by applies.
pub(crate) fn owned<K: Object>(object: &K, manager: &str) -> Value {
    let entries = object.metadata().managed_fields.iter().flatten();
    let mut applied = entries.filter(|entry| entry.operation.as_deref() == Some("Apply"));
    let entry = applied.find(|entry| entry.manager.as_deref() == Some(manager)).unwrap();
    entry.fields_v1.clone().unwrap().0
}

/// Returns the clients of two field managers.
pub(crate) fn clients(env: &Environment) -> (Client, Client) {
    (env.client().with_field_owner("one"), env.client().with_field_owner("other"))
}
