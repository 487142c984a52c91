//! The variables of match conditions and admission policies.
//!
//! They are `object`, `oldObject`, `request`, `namespaceObject`, and optionally `params` and `authorizer`. During the
//! evaluation, all are JSON without a schema.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::{
    program::{Environment, Presence},
    schema::Schema,
};

/// The variables that an expression of admission may use besides the ones that all have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a set of flags")]
pub struct AdmissionVariables {
    /// The expression may use `params`.
    pub params: bool,
    /// The expression may use `authorizer`.
    pub authorizer: bool,
    /// The expression may construct objects and patches.
    pub patches: bool,
}

static REQUEST: LazyLock<Arc<Schema>> = LazyLock::new(request_schema);
static NAMESPACE: LazyLock<Arc<Schema>> = LazyLock::new(namespace_schema);

impl AdmissionVariables {
    /// Returns the environment of an expression. The types of objects and parameters are not known.
    #[must_use]
    pub fn environment(self) -> Environment {
        self.typed_environment(&Schema::any(), &Schema::any())
    }

    /// Returns the environment of an expression for objects and parameters with these schemas, for a type check.
    #[must_use]
    pub fn typed_environment(self, object: &Arc<Schema>, params: &Arc<Schema>) -> Environment {
        let mut environment = Environment::new()
            .with("object", object, Presence::Certain)
            .with("oldObject", object, Presence::Certain)
            .with("namespaceObject", &NAMESPACE, Presence::Certain)
            .with("request", &REQUEST, Presence::Certain);
        if self.params {
            environment = environment.with("params", params, Presence::Certain);
        }
        if self.authorizer {
            environment = environment.with_authorizer();
        }
        if self.patches { environment.with_patches() } else { environment }
    }
}

fn of(schema: &Value) -> Arc<Schema> {
    Schema::of_value(schema).unwrap_or_else(Schema::any)
}

fn text() -> Arc<Schema> {
    of(&json!({"type": "string"}))
}

fn texts() -> Arc<Schema> {
    of(&json!({"type": "array", "items": {"type": "string"}}))
}

fn text_map() -> Arc<Schema> {
    of(&json!({"type": "object", "additionalProperties": {"type": "string"}}))
}

/// Returns an object schema whose fields are all texts.
fn object_of_texts<const N: usize>(name: &str, fields: [&'static str; N]) -> Arc<Schema> {
    Schema::object(name, fields.map(|field| (field, text())))
}

fn request_schema() -> Arc<Schema> {
    let kind = object_of_texts("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let resource = object_of_texts("kubernetes.GroupVersionResource", ["group", "version", "resource"]);
    let extra = json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}});
    let user = [("username", text()), ("uid", text()), ("groups", texts()), ("extra", of(&extra))];
    let request = [
        ("kind", Arc::clone(&kind)),
        ("resource", Arc::clone(&resource)),
        ("subResource", text()),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", Schema::object("kubernetes.UserInfo", user)),
        ("dryRun", of(&json!({"type": "boolean"}))),
        ("options", Schema::any()),
    ];
    Schema::object("kubernetes.AdmissionRequest", request)
}

/// Returns the schema of a namespace. It omits some fields, as kube-apiserver does.
fn namespace_schema() -> Arc<Schema> {
    let time = || of(&json!({"type": "string", "format": "date-time"}));
    let number = || of(&json!({"type": "integer"}));
    let metadata = [
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", text_map()),
        ("annotations", text_map()),
        ("UID", text()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("generation", number()),
        ("resourceVersion", text()),
        ("finalizers", texts()),
    ];
    let condition =
        [("status", text()), ("type", text()), ("lastTransitionTime", time()), ("message", text()), ("reason", text())];
    let conditions = Schema::list(&Schema::object("kubernetes.NamespaceCondition", condition));
    let status = [("conditions", conditions), ("phase", text())];
    let namespace = [
        ("metadata", Schema::object("kubernetes.NamespaceMetadata", metadata)),
        ("spec", Schema::object("kubernetes.NamespaceSpec", [("finalizers", texts())])),
        ("status", Schema::object("kubernetes.NamespaceStatus", status)),
    ];
    Schema::object("kubernetes.Namespace", namespace)
}
