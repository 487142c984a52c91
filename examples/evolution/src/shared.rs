//! The third program: one shared informer per kind.
//!
//! A further controller of pods causes no additional requests for pods, and no further copy of them in memory.

use std::sync::Arc;

use windlass::{
    Client,
    api::BoxError,
    cache::{InformerFactory, InformerOptions},
    k8s::apps::v1::{Deployment, StatefulSet},
};

use crate::controller;

/// Runs both controllers.
pub(crate) async fn run(client: &Client) -> Result<(), BoxError> {
    let source = client.clone();
    let factory = InformerFactory::new(
        move |resource, namespace| Arc::new(source.list_watch(resource, namespace)),
        InformerOptions::default(),
    );
    let pods = factory.informer();
    let (deployments, sets) = (factory.informer::<Deployment>(), factory.informer::<StatefulSet>());
    factory.start();
    tokio::try_join!(controller::run(client, &deployments, &pods), controller::run(client, &sets, &pods))?;
    Ok(())
}
