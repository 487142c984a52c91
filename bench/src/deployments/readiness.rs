//! Tracks the ready Deployments with a watch.

use std::collections::HashSet;

use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::api::apps::v1::Deployment;
use serde::Deserialize;
use tokio::time::Instant;
use windlass_api::{BoxError, EventType, ListWatch as _, ListWatchError, RawEvent, Resource as _, WatchOptions};
use windlass_client::{Client, ResourceListWatch};

/// Follows the Deployments of a namespace.
pub(super) struct Readiness {
    list_watch: ResourceListWatch,
    events: BoxStream<'static, Result<RawEvent, ListWatchError>>,
    /// The version of the last event.
    version: Option<String>,
    replicas: i32,
    ready: HashSet<String>,
}

/// The decoded fields of a Deployment.
#[derive(Deserialize)]
struct Seen {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: String,
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    ready_replicas: i32,
}

impl Readiness {
    /// Starts a watch. No Deployments exist yet.
    pub(super) async fn watch(client: &Client, namespace: &str, replicas: i32) -> Result<Self, BoxError> {
        let list_watch = client.list_watch(&Deployment::api_resource(), Some(namespace));
        let events = list_watch.watch(WatchOptions::default()).await?;
        Ok(Self { list_watch, events, version: None, replicas, ready: HashSet::new() })
    }

    /// Waits until this many are ready, and returns the time.
    pub(super) async fn all(&mut self, deployments: usize) -> Result<Instant, BoxError> {
        while self.ready.len() < deployments {
            if let Some(Ok(event)) = self.events.next().await {
                self.see(&event)?;
            } else {
                // A connection error is handled like the end of the watch.
                let options = WatchOptions { resource_version: self.version.clone(), ..WatchOptions::default() };
                self.events = self.list_watch.watch(options).await?;
            }
        }
        Ok(Instant::now())
    }

    fn see(&mut self, event: &RawEvent) -> Result<(), BoxError> {
        if event.event_type == EventType::Error {
            return Err(format!("the watch of Deployments failed: {}", String::from_utf8_lossy(&event.body)).into());
        }
        let Seen { metadata, status } = serde_json::from_slice(&event.body)?;
        if event.event_type != EventType::Bookmark {
            if status.ready_replicas == self.replicas {
                self.ready.insert(metadata.name);
            } else {
                self.ready.remove(&metadata.name);
            }
        }
        self.version = Some(metadata.resource_version);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_api::ObjectExt as _;
    use windlass_server::Server;

    use super::*;

    #[tokio::test]
    async fn deployment_is_ready_if_all_replicas_are_available() {
        let server = Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        let mut readiness = Readiness::watch(&client, "default", 3).await.unwrap();
        let deployment = serde_json::from_value::<Deployment>(super::super::deployment("web", 3)).unwrap();
        let mut deployment = client.create(&deployment).await.unwrap();
        for ready in [2, 3] {
            let status = json!({"replicas": 3, "readyReplicas": ready, "availableReplicas": ready});
            deployment.status = serde_json::from_value(status).unwrap();
            deployment = client.update_status(&deployment).await.unwrap();
        }
        readiness.all(1).await.unwrap();
        assert_eq!(readiness.version.as_deref(), deployment.resource_version(), "not before the last of them");
    }
}
