//! Somebody who uses it, and looks into the registry.

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

/// Far longer than anything here takes: it tells slow from broken.
const PATIENCE: Duration = Duration::from_mins(1);

/// Looks into a registry until it is as expected.
#[derive(Clone)]
pub struct Look(Arc<dyn Registry>);

impl Look {
    /// Into this one.
    #[must_use]
    pub fn into_registry(registry: Arc<dyn Registry>) -> Self {
        Self(registry)
    }

    /// Waits until something holds of what the registry has of a service. A registry that fails is asked again.
    ///
    /// # Errors
    /// When it does not hold within a minute, with what was seen last.
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

    /// Until so many answer.
    ///
    /// # Errors
    /// As [`Self::until`].
    pub async fn instances(&self, key: &ObjectKey, many: usize) -> Result<Entry, BoxError> {
        let entry = self.until(key, |entry| entry.is_some_and(|entry| entry.instances.len() == many)).await?;
        Ok(entry.unwrap_or_default())
    }
}

impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Look")
    }
}

/// What a cluster in this process needs, so that there are pods and they have addresses.
pub fn cluster(manager: &mut Manager) {
    use BuiltIn::{Deployment, EndpointSlice, GarbageCollector, Namespace, Nodes, ReplicaSet};
    Controllers::of([Deployment, ReplicaSet, EndpointSlice, Namespace, GarbageCollector, Nodes])
        .nodes(1)
        .add_to(manager);
}

/// Lives through the life of a service in a namespace of its own, and prints what is done, and what the registry has then.
///
/// # Errors
/// When something does not come to be.
pub async fn tour(client: &Client, registry: Arc<dyn Registry>) -> Result<(), BoxError> {
    let (look, key) = (Look::into_registry(Arc::clone(&registry)), ObjectKey::new("web").within("shop"));
    println!("you   make a namespace shop, a Deployment web with two pods, and a Service");
    client.create(&from_value::<Namespace>(json!({"metadata": {"name": "shop"}}))?).await?;
    client.create(&from_value::<Deployment>(deployment())?).await?;
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    client.create(&from_value::<Service>(service)?).await?;
    println!("seen  the registry has {key} at {}", look.instances(&key, 2).await?);

    println!("you   scale to three pods");
    let web = ObjectRef::<Deployment>::new("web").within("shop");
    client.patch(web, Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
    println!("seen  the registry has {key} at {}", look.instances(&key, 3).await?);

    println!("you   remove it from the registry, behind everybody's back");
    registry.remove(&key).await?;
    println!("seen  the registry has {key} at {}", look.instances(&key, 3).await?);

    println!("you   delete the Service");
    client.delete(ObjectRef::<Service>::new("web").within("shop")).await?;
    look.until(&key, |entry| entry.is_none()).await?;
    println!("seen  the registry does not have {key}");

    println!("you   delete the namespace");
    client.delete(ObjectRef::<Namespace>::new("shop")).await?;
    let deadline = Instant::now() + PATIENCE;
    while registry.namespaces().await?.contains("shop") {
        if Instant::now() > deadline {
            return Err("the namespace shop stays in the registry".into());
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
