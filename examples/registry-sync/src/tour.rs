//! The demonstration: the steps of a user, with the resulting entries of the registry.

use std::{sync::Arc, time::Duration};

use serde_json::{from_value, json};
use tokio::time::{Instant, sleep};
use windlass::{
    Client, Manager, ObjectKey, ObjectRef, Patch,
    api::BoxError,
    k8s::{
        apps::v1::Deployment,
        core::v1::{Namespace, Service},
    },
};
use windlass_controllers::{BuiltIn, Controllers};

use crate::{Entry, Registry};

/// The timeout of each wait, far longer than any step takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Reads a registry until it has an expected state.
#[derive(Clone)]
pub struct RegistryReader(Arc<dyn Registry>);

impl RegistryReader {
    /// Creates a reader of this registry.
    #[must_use]
    pub fn new(registry: Arc<dyn Registry>) -> Self {
        Self(registry)
    }

    /// Waits until a condition holds for a service's entry. Failed reads are retried.
    ///
    /// # Errors
    /// Returns an error with the last result if the condition does not hold within a minute.
    pub async fn until(
        &self,
        key: &ObjectKey,
        holds: impl Fn(Option<&Entry>) -> bool,
    ) -> Result<Option<Entry>, BoxError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.0.entries().await.map(|mut entries| entries.remove(key));
            match seen {
                Ok(entry) if holds(entry.as_ref()) => return Ok(entry),
                seen if Instant::now() > deadline => {
                    return Err(format!("{key} in the registry is not as expected: {seen:?}").into());
                }
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Waits until a service has this number of instances.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::until`].
    pub async fn instances(&self, key: &ObjectKey, many: usize) -> Result<Entry, BoxError> {
        let entry = self.until(key, |entry| entry.is_some_and(|entry| entry.instances.len() == many)).await?;
        Ok(entry.unwrap_or_default())
    }
}

impl std::fmt::Debug for RegistryReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RegistryReader")
    }
}

/// Adds the controllers and nodes that an in-process cluster needs to run pods with addresses.
pub fn cluster(manager: &mut Manager) {
    use BuiltIn::{Deployment, EndpointSlice, GarbageCollector, Namespace, Nodes, ReplicaSet};
    Controllers::of([Deployment, ReplicaSet, EndpointSlice, Namespace, GarbageCollector, Nodes])
        .nodes(1)
        .add_to(manager);
}

/// Creates, changes and deletes a service in a new namespace, and prints each step with the registry's entry.
///
/// # Errors
/// Returns an error if an expected effect does not occur.
pub async fn tour(client: &Client, registry: Arc<dyn Registry>) -> Result<(), BoxError> {
    let (reader, key) = (RegistryReader::new(Arc::clone(&registry)), ObjectKey::new("web").within("shop"));
    println!("you   create a namespace shop, a Deployment web with two pods, and a Service");
    client.create(&from_value::<Namespace>(json!({"metadata": {"name": "shop"}}))?).await?;
    client.create(&from_value::<Deployment>(deployment())?).await?;
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    client.create(&from_value::<Service>(service)?).await?;
    println!("seen  the registry has {key} at {}", reader.instances(&key, 2).await?);

    println!("you   scale to three pods");
    let web = ObjectRef::<Deployment>::new("web").within("shop");
    client.patch(web, Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
    println!("seen  the registry has {key} at {}", reader.instances(&key, 3).await?);

    println!("you   remove it from the registry directly");
    registry.remove(&key).await?;
    println!("seen  the registry has {key} at {}", reader.instances(&key, 3).await?);

    println!("you   delete the Service");
    client.delete(ObjectRef::<Service>::new("web").within("shop")).await?;
    reader.until(&key, |entry| entry.is_none()).await?;
    println!("seen  the registry does not have {key}");

    println!("you   delete the namespace");
    client.delete(ObjectRef::<Namespace>::new("shop")).await?;
    let deadline = Instant::now() + PATIENCE;
    while registry.namespaces().await?.contains("shop") {
        if Instant::now() > deadline {
            return Err("the namespace shop is still in the registry".into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    println!("seen  the registry does not have the namespace");
    Ok(())
}

fn deployment() -> serde_json::Value {
    let labels = json!({"app": "web", "version": "v1"});
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}},
        },
    })
}
