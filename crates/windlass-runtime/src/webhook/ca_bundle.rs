//! The objects that contain a `caBundle`.

use std::fmt;

use serde_json::{Value, json};
use windlass_api::{ApiResource, DynamicObject, GroupVersionKind, ObjectExt as _, Patch};
use windlass_client::{Client, Result};

/// An object that configures webhooks on an API server, with the authority that it trusts. Every webhook in the object
/// gets the same `caBundle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaBundleTarget {
    kind: Kind,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mutating,
    Validating,
    Conversion,
}

impl CaBundleTarget {
    /// Selects a MutatingWebhookConfiguration.
    pub fn mutating(name: impl Into<String>) -> Self {
        Self { kind: Kind::Mutating, name: name.into() }
    }

    /// Selects a ValidatingWebhookConfiguration.
    pub fn validating(name: impl Into<String>) -> Self {
        Self { kind: Kind::Validating, name: name.into() }
    }

    /// Selects a CustomResourceDefinition with a conversion webhook, for example `websites.shop.example.com`.
    pub fn conversion(name: impl Into<String>) -> Self {
        Self { kind: Kind::Conversion, name: name.into() }
    }

    /// Writes the `caBundle` if it differs. An object that does not exist is skipped; a later pass updates it.
    pub(super) async fn inject(&self, client: &Client, bundle: &str) -> Result<()> {
        let objects = client.dynamic(&self.kind.resource());
        let Some(object) = objects.get_opt(self.name.as_str()).await? else { return Ok(()) };
        if let Some(patch) = self.kind.patch(&object, bundle) {
            objects.patch(self.name.as_str(), patch).await?;
            tracing::info!(object = %self, "injected the certificate authority of the webhooks");
        }
        Ok(())
    }
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = match self {
            Self::Mutating => {
                ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
            }
            Self::Validating => (
                "admissionregistration.k8s.io",
                "v1",
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
            Self::Conversion => ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
        };
        ApiResource::namespaced(GroupVersionKind::new(group, version, kind), plural).cluster_scoped()
    }

    /// Returns the JSON pointers to the webhook client configurations in an object.
    fn places(self, object: &DynamicObject) -> Vec<String> {
        match self {
            Self::Mutating | Self::Validating => {
                let webhooks = object.data.get("webhooks").and_then(Value::as_array).map_or(0, Vec::len);
                (0..webhooks).map(|place| format!("/webhooks/{place}/clientConfig")).collect()
            }
            Self::Conversion => vec!["/spec/conversion/webhook/clientConfig".to_owned()],
        }
    }

    /// Returns the patch that an object needs, or `None` if it is up to date. The patch changes no other field and
    /// carries the resource version.
    fn patch(self, object: &DynamicObject, bundle: &str) -> Option<Patch> {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        let bundle = BASE64_STANDARD.encode(bundle);
        let mut operations = Vec::new();
        for place in self.places(object) {
            let mut path = place[1..].split('/');
            let field = path.next().and_then(|field| object.data.get(field));
            let found = path.try_fold(field?, |value, token| match value {
                Value::Array(items) => items.get(token.parse::<usize>().ok()?),
                other => other.get(token),
            });
            match found {
                Some(config) if config.get("caBundle").and_then(Value::as_str) != Some(&*bundle) => {
                    operations.push(json!({"op": "add", "path": format!("{place}/caBundle"), "value": bundle}));
                }
                // The object is up to date, or has no webhook.
                _ => {}
            }
        }
        let version = object.resource_version()?;
        (!operations.is_empty()).then(|| {
            operations.insert(0, json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
            Patch::Json(operations.into())
        })
    }
}

impl fmt::Display for CaBundleTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.resource().kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(kind: Kind, object: Value) -> Option<Value> {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        kind.patch(&object, "new").map(|patch| patch.body().clone())
    }

    #[test]
    fn ca_bundle_patch_covers_outdated_webhooks_with_version() {
        let told = json!({"name": "a", "clientConfig": {"caBundle": "bmV3"}});
        let others =
            [json!({"name": "b", "clientConfig": {"caBundle": "b2xk"}}), json!({"name": "c", "clientConfig": {}})];
        let object =
            |webhooks: &[&Value]| json!({"metadata": {"name": "x", "resourceVersion": "7"}, "webhooks": webhooks});
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "bmV3"},
            {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "bmV3"},
        ]);
        assert_eq!(patch(Kind::Mutating, object(&[&told, &others[0], &others[1]])), Some(expected));
        assert_eq!(patch(Kind::Validating, object(&[&told])), None);
        assert_eq!(patch(Kind::Validating, object(&[])), None);
    }

    #[test]
    fn crd_is_reported_if_it_converts_by_webhook() {
        let object = |conversion: Value| json!({"metadata": {"name": "x", "resourceVersion": "7"}, "spec": {"conversion": conversion}});
        let webhook = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}}});
        let path = "/spec/conversion/webhook/clientConfig/caBundle";
        assert_eq!(patch(Kind::Conversion, object(webhook)).unwrap()[1]["path"], path);
        assert_eq!(patch(Kind::Conversion, object(json!({"strategy": "None"}))), None);
    }
}
