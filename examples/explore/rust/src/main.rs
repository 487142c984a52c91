//! An operator of websites with kube-rs. Each has a Deployment, a Secret and a route.
//!
//! The environment variable `BUG=lost-update` plants a bug: see the README of the examples.

mod api;
mod children;

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{
        controller::{Action, Controller},
        finalizer::{Event, finalizer},
        watcher,
    },
};
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::{
    api::{Website, WebsiteStatus},
    children::ROUTES,
};

const FINALIZER: &str = "example.dev/route";
const MANAGER: &str = "website-operator";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("a request failed: {0}")]
    Kube(#[from] kube::Error),
    #[error("the finalizer failed: {0}")]
    Finalizer(#[source] Box<kube::runtime::finalizer::Error<Self>>),
}

struct Context {
    client: Client,
    has_bug: bool,
}

async fn reconcile(cached: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = cached.namespace().unwrap_or_default();
    let websites = Api::<Website>::namespaced(context.client.clone(), &namespace);
    // The store may still have a deleted website, whose route belongs to a newer one with the same name.
    let Some(website) = websites.get_opt(&cached.name_any()).await? else {
        return Ok(Action::await_change());
    };
    finalizer(&websites, FINALIZER, Arc::new(website), |event| async {
        match event {
            Event::Apply(website) => apply(&website, &websites, &context).await,
            Event::Cleanup(website) => withdraw(&website, &context).await,
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

/// Makes the children match the spec.
async fn apply(website: &Website, websites: &Api<Website>, context: &Context) -> Result<Action, Error> {
    let namespace = website.namespace().unwrap_or_default();
    deploy(website, &Api::namespaced(context.client.clone(), &namespace), context.has_bug).await?;

    let key = children::key(website);
    let secrets = Api::<Secret>::namespaced(context.client.clone(), &namespace);
    if secrets.get_metadata_opt(&key.name_any()).await?.is_none() {
        secrets.create(&PostParams::default(), &key).await?;
    }

    let route = children::route(website);
    let routes = Api::<ConfigMap>::namespaced(context.client.clone(), ROUTES);
    routes.patch(&route.name_any(), &PatchParams::apply(MANAGER).force(), &Patch::Apply(&route)).await?;

    let status = WebsiteStatus { replicas: website.spec.replicas, key: key.name_any() };
    if website.status.as_ref() != Some(&status) {
        let patch = Patch::Merge(json!({ "status": status }));
        websites.patch_status(&website.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

/// Writes the Deployment.
async fn deploy(website: &Website, deployments: &Api<Deployment>, has_bug: bool) -> Result<(), Error> {
    let desired = children::deployment(website);
    let name = desired.name_any();
    if has_bug && let Some(current) = deployments.get_opt(&name).await? {
        let replicas = |deployment: &Deployment| deployment.spec.as_ref().and_then(|spec| spec.replicas);
        if replicas(&current) != replicas(&desired) {
            // The object has no resource version, so this undoes whatever another client has changed.
            deployments.replace(&name, &PostParams::default(), &desired).await?;
        }
        return Ok(());
    }
    deployments.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&desired)).await?;
    Ok(())
}

/// Deletes the route of a website that is being deleted.
async fn withdraw(website: &Website, context: &Context) -> Result<Action, Error> {
    let routes = Api::<ConfigMap>::namespaced(context.client.clone(), ROUTES);
    match routes.delete(&children::route(website).name_any(), &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        deleted => drop(deleted?),
    }
    Ok(Action::await_change())
}

fn retry(website: Arc<Website>, error: &Error, _: Arc<Context>) -> Action {
    tracing::warn!(website = website.name_any(), %error, "the reconcile failed");
    Action::requeue(Duration::from_millis(500))
}

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_ansi(false).with_env_filter(filter).init();

    let client = Client::try_default().await?;
    let has_bug = std::env::var("BUG").is_ok_and(|bug| bug == "lost-update");
    // Lists may come from the cache of the API server, like those of client-go. Pages would not.
    let any = watcher::Config { page_size: None, ..watcher::Config::default().any_semantic() };
    Controller::new(Api::<Website>::all(client.clone()), any.clone())
        .owns(Api::<Deployment>::all(client.clone()), any)
        .shutdown_on_signal()
        .run(reconcile, retry, Arc::new(Context { client, has_bug }))
        .for_each(|_| async {})
        .await;
    Ok(())
}
