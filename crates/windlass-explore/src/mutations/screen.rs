//! A server without the program, which rejects invalid values and reports those without an effect.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::{DynamicObject, ErrorChain, GroupKind, ObjectBuilder as _, k8s_openapi::api::core::v1::Namespace};
use windlass_client::{CachedDiscovery, Client, DeferredRestMapper, Resources, Tolerate as _};
use windlass_server::Server;

use crate::{
    cluster::establish,
    error::{Error, Result},
    plan::Mutation,
    record::ObjectName,
    run::Scenario,
    steps::Applied,
};

/// A server with the objects at the end of a run.
pub(super) struct Screen {
    server: Server,
    /// The resources and the states of the objects that the server accepts without the program.
    objects: BTreeMap<ObjectName, (Resources<DynamicObject>, Value)>,
}

/// The answer to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    /// The stored object would be the same.
    NoEffect,
    Rejected(String),
}

impl Screen {
    /// Starts a server with the CRDs of a scenario.
    pub(super) async fn start(scenario: &Scenario) -> Result<Self> {
        let server = Server::builder().runtime_config(scenario.runtime.clone()).build();
        let failed = |error: &dyn std::fmt::Display| Error::Cluster(format!("starting a server: {error}"));
        server.start().await.map_err(|error| failed(&error))?;
        let screen = Self { server, objects: BTreeMap::new() };
        for crd in &scenario.crds {
            establish(&screen.client(), crd).await?;
        }
        Ok(screen)
    }

    fn client(&self) -> Client {
        Client::from_service(self.server.service(), "default")
    }

    /// Creates an object as at the end of a run.
    pub(super) async fn create(&mut self, name: &ObjectName, object: &Applied, live: &Value) {
        if let Some(created) = create(&self.client(), object, live).await {
            self.objects.insert(name.clone(), created);
        }
    }

    /// Returns the answer of the server to a change. All changes of an object are accepted if the server has not accepted
    /// the object.
    pub(super) async fn check(&self, object: &ObjectName, mutation: &Mutation) -> Verdict {
        let Some((objects, current)) = self.objects.get(object) else { return Verdict::Accepted };
        let mut wanted = current.clone();
        if let Err(error) = mutation.apply(&mut wanted) {
            return Verdict::Rejected(error);
        }
        let wanted = match serde_json::from_value::<DynamicObject>(wanted) {
            Ok(wanted) => wanted,
            Err(error) => return Verdict::Rejected(error.to_string()),
        };
        match objects.update(&wanted).dry_run().await {
            Ok(stored) => {
                let stored = serde_json::to_value(&stored).unwrap_or_default();
                if without_metadata(stored) == without_metadata(current.clone()) {
                    Verdict::NoEffect
                } else {
                    Verdict::Accepted
                }
            }
            Err(error) => {
                let message = error.status().map(|status| status.message.clone());
                Verdict::Rejected(message.unwrap_or_else(|| ErrorChain(&error).to_string()))
            }
        }
    }
}

/// Creates the object, and returns its resource and its state.
async fn create(client: &Client, object: &Applied, live: &Value) -> Option<(Resources<DynamicObject>, Value)> {
    let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone()));
    let kind = GroupKind::new(object.kind().group.clone(), object.kind().kind.clone());
    let mapping = mapper.mapping(&kind, &[&object.kind().version]).await.ok()?;
    if mapping.is_namespaced() {
        // The default namespace exists already.
        client.create(&Namespace::named(object.namespace())).await.ignore_already_exists().ok()?;
    }
    // In another version, the fields of the object may be others.
    let same_version = live["apiVersion"] == object.manifest()["apiVersion"];
    let mut new = if same_version { live.clone() } else { object.manifest().clone() };
    let metadata = &object.manifest()["metadata"];
    new["metadata"] = serde_json::json!({"name": object.name(), "labels": metadata["labels"]});
    if mapping.is_namespaced() {
        new["metadata"]["namespace"] = object.namespace().into();
    }
    if let Value::Object(fields) = &mut new {
        fields.remove("status");
    }
    let objects = client.dynamic(&mapping.resource);
    let created = objects.create(&serde_json::from_value(new).ok()?).await.ok()?;
    Some((objects, serde_json::to_value(&created).ok()?))
}

fn without_metadata(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.remove("metadata");
    }
    object
}
