//! Keeps a ConfigMap with the connection of each bucket.

mod api;

use std::time::Duration;

use serde_json::json;
use windlass::{
    Error, ObjectBuilder as _, Patch, Watch,
    k8s::core::v1::{ConfigMap, Secret},
    prelude::*,
    runtime::finalizers::{Finalized, Finalizers},
};

use crate::api::{Bucket, BucketStatus, Phase};

const FINALIZER: &str = "storage.example.com/bucket";
const ENDPOINT: &str = "http://storage.example.com";

async fn reconcile(bucket: Arc<Bucket>, cx: Context) -> windlass::Result<Action> {
    let finalizers = Finalizers::new().then(FINALIZER, delete_bucket);
    let Finalized::Live(bucket) = finalizers.finalize(bucket, &cx).await? else {
        return Ok(Action::await_change());
    };
    let connection = ConfigMap::named(format!("{}-connection", bucket.name()))
        .in_namespace(bucket.namespace().unwrap_or_default())
        .controlled_by(&*bucket)
        .with(|map| map.data = Some([("endpoint".to_owned(), ENDPOINT.to_owned())].into()));
    cx.client().apply(&connection).await?;

    let status = BucketStatus { phase: Phase::Ready, objects: 0 };
    let patch = Patch::Merge(json!({ "status": status }));
    cx.client().patch(bucket.object_ref(), patch).subresource("status").await?;
    Ok(Action::requeue_after(Duration::from_mins(5)))
}

async fn delete_bucket(bucket: Arc<Bucket>, _: Context) -> windlass::Result<()> {
    tracing::info!(name = bucket.name(), "deleting the bucket");
    Ok(())
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    if std::env::args().any(|argument| argument == "--crd") {
        let definition = <Bucket as windlass::CustomResource>::definition();
        println!("{}", serde_json::to_string_pretty(&definition).map_err(Error::other)?);
        return Ok(());
    }
    let mut manager = Manager::try_default().await?;
    let buckets = Controller::<Bucket>::new()
        .owns::<ConfigMap>()
        .owns_with(Watch::<Secret>::all().in_namespace("storage").labels("app=bucket"));
    manager.add(buckets.reconcile(reconcile));
    manager.run(shutdown::signal()).await
}
