//! Keeps a ConfigMap with the connection of each bucket.

mod api;

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, CustomResourceExt, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        finalizer::{Event as Finalizer, finalizer},
        watcher::Config,
    },
};

use crate::api::{Bucket, BucketStatus, Phase};

const FINALIZER: &str = "storage.example.com/bucket";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("a request to the API server failed")]
    Kube(#[from] kube::Error),
    #[error("the finalizer failed")]
    Finalizer(#[source] Box<kube::runtime::finalizer::Error<Self>>),
    #[error("the bucket has no namespace")]
    NoNamespace,
}

struct State {
    client: Client,
    endpoint: String,
}

async fn reconcile(bucket: Arc<Bucket>, state: Arc<State>) -> Result<Action, Error> {
    let namespace = bucket.namespace().ok_or(Error::NoNamespace)?;
    let buckets = Api::<Bucket>::namespaced(state.client.clone(), &namespace);
    finalizer(&buckets, FINALIZER, bucket, |event| async {
        match event {
            Finalizer::Apply(bucket) => apply(&bucket, &state, &namespace).await,
            Finalizer::Cleanup(bucket) => {
                tracing::info!(name = bucket.name_any(), "deleting the bucket");
                Ok(Action::await_change())
            }
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn apply(bucket: &Bucket, state: &State, namespace: &str) -> Result<Action, Error> {
    let name = bucket.name_any();
    let mut connection = ConfigMap::default();
    connection.metadata.name = Some(format!("{name}-connection"));
    connection.metadata.owner_references = bucket.controller_owner_ref(&()).map(|owner| vec![owner]);
    connection.data = Some([("endpoint".to_owned(), state.endpoint.clone())].into());
    let maps = Api::<ConfigMap>::namespaced(state.client.clone(), namespace);
    let params = PatchParams::apply("bucket-operator").force();
    maps.patch(&connection.name_any(), &params, &Patch::Apply(&connection)).await?;

    let status = BucketStatus { phase: Phase::Ready, objects: 0 };
    let buckets = Api::<Bucket>::namespaced(state.client.clone(), namespace);
    let patch = Patch::Merge(serde_json::json!({ "status": status }));
    buckets.patch_status(&name, &PatchParams::default(), &patch).await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

fn error_policy(bucket: Arc<Bucket>, error: &Error, _: Arc<State>) -> Action {
    tracing::warn!(name = bucket.name_any(), %error, "the reconcile failed");
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|argument| argument == "--crd") {
        println!("{}", serde_json::to_string_pretty(&Bucket::crd())?);
        return Ok(());
    }
    let client = Client::try_default().await?;
    let buckets = Api::<Bucket>::all(client.clone());
    let state = Arc::new(State { client: client.clone(), endpoint: "http://storage.example.com".to_owned() });
    Controller::new(buckets, Config::default().any_semantic())
        .owns(Api::<ConfigMap>::all(client.clone()), Config::default())
        .owns(Api::<Secret>::namespaced(client, "storage"), Config::default().labels("app=bucket"))
        .shutdown_on_signal()
        .run(reconcile, error_policy, state)
        .for_each(|outcome| async move { tracing::debug!(?outcome, "reconciled") })
        .await;
    Ok(())
}
