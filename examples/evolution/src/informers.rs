//! The second program: each controller has its own informers.
//!
//! No requests are sent while nothing changes. But two controllers that need the pods both watch and cache them.

use std::sync::Arc;

use windlass::{Client, Resource, SharedInformer, api::BoxError, cache::InformerOptions, k8s::core::v1::Pod};

use crate::{controller, work::Workload};

/// Runs a controller with its informers.
pub(crate) async fn run<K: Workload>(client: &Client) -> Result<(), BoxError> {
    let (asking, pods) = (informer::<K>(client), informer::<Pod>(client));
    tokio::select! {
        () = asking.clone().run(std::future::pending()) => Ok(()),
        () = pods.clone().run(std::future::pending()) => Ok(()),
        ended = controller::run(client, &asking, &pods) => ended,
    }
}

fn informer<K: Resource>(client: &Client) -> SharedInformer<K> {
    let list_watch = client.list_watch(&K::api_resource(), None);
    SharedInformer::new(Arc::new(list_watch), InformerOptions::default())
}
