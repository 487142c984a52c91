//! The demonstration: the steps of a user.

use std::{pin::pin, time::Duration};

use futures::TryStreamExt as _;
use serde_json::{Value, from_value, json};
use tokio::time::timeout;
use windlass::{
    Client, ObjectExt as _, Patch,
    api::BoxError,
    client::{WatchEvent, wait::is_gone},
    k8s::{
        core::v1::{Event, Service},
        networking::v1::Ingress,
    },
};

use crate::ANNOTATION;

/// The timeout of each wait, far longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Creates, changes and deletes a Service in the namespace `default`, and prints each step and its effect. A manager
/// with the [`controller`](crate::controller()) must be running.
///
/// # Errors
/// Returns an error if an expected effect does not occur.
pub async fn tour(client: &Client) -> Result<(), BoxError> {
    println!("you   create a Service web with port 80, annotated {ANNOTATION}: shop.example.com");
    let web = json!({
        "metadata": {"name": "web", "namespace": "default", "annotations": {ANNOTATION: "shop.example.com"}},
        "spec": {"ports": [{"port": 80}]},
    });
    client.create(&from_value::<Service>(web)?).await?;
    let first = seen(client, "shop.example.com to port 80").await?;

    println!("you   delete the Ingress");
    client.delete::<Ingress>("web").await?;
    let another = |ingress: Option<&Ingress>| ingress.is_some_and(|ingress| ingress.uid() != first.uid());
    client.wait_for::<Ingress>("web").timeout(PATIENCE).until(another).await?;
    println!("seen  it is there again");

    println!("you   change the host and the port");
    let annotations = json!({ANNOTATION: "www.example.com"});
    change(client, json!({"metadata": {"annotations": annotations}, "spec": {"ports": [{"port": 8080}]}})).await?;
    seen(client, "www.example.com to port 8080").await?;

    println!("you   remove the annotation");
    annotate(client, Value::Null).await?;
    gone(client).await?;

    println!("you   create an Ingress web by hand, and annotate the Service again");
    let by_hand = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"defaultBackend": {"service": {"name": "maintenance", "port": {"number": 80}}}},
    });
    client.create(&from_value::<Ingress>(by_hand)?).await?;
    annotate(client, json!("shop.example.com")).await?;
    println!("seen  event IngressTaken: {}", timeout(PATIENCE, told(client, "IngressTaken")).await??);

    println!("you   delete that Ingress");
    client.delete::<Ingress>("web").await?;
    seen(client, "shop.example.com to port 8080").await?;

    println!("you   delete the Service");
    client.delete::<Service>("web").await?;
    gone(client).await
}

async fn change(client: &Client, patch: Value) -> Result<(), BoxError> {
    client.patch::<Service>("web", Patch::Merge(patch)).await?;
    Ok(())
}

async fn annotate(client: &Client, value: Value) -> Result<(), BoxError> {
    change(client, json!({"metadata": {"annotations": {ANNOTATION: value}}})).await
}

/// Waits until the Ingress has this host and port.
async fn seen(client: &Client, way: &str) -> Result<Ingress, BoxError> {
    let leads = |ingress: Option<&Ingress>| ingress.and_then(way_of).as_deref() == Some(way);
    let ingress = client.wait_for::<Ingress>("web").timeout(PATIENCE).until(leads).await?;
    println!("seen  the Ingress web: {way}");
    Ok(ingress.ok_or("the Ingress does not exist")?)
}

fn way_of(ingress: &Ingress) -> Option<String> {
    let rule = ingress.spec.as_ref()?.rules.as_ref()?.first()?;
    let service = rule.http.as_ref()?.paths.first()?.backend.service.as_ref()?;
    Some(format!("{} to port {}", rule.host.as_deref()?, service.port.as_ref()?.number?))
}

async fn gone(client: &Client) -> Result<(), BoxError> {
    client.wait_for::<Ingress>("web").timeout(PATIENCE).until(is_gone()).await?;
    println!("seen  the Ingress is gone");
    Ok(())
}

/// Waits for an event with this reason, and returns its message.
async fn told(client: &Client, reason: &str) -> Result<String, BoxError> {
    let events = client.list::<Event>().within("default").await?;
    let mut told = events.items.into_iter().find(|event| event.reason.as_deref() == Some(reason));
    let version = events.metadata.resource_version;
    let mut changes = pin!(client.watch::<Event>().within("default").resource_version(version.as_str()).retrying());
    loop {
        if let Some(event) = told.filter(|event| event.reason.as_deref() == Some(reason)) {
            return Ok(event.message.unwrap_or_default());
        }
        told = match changes.try_next().await?.ok_or("the watch of events ended")? {
            WatchEvent::Added(event) | WatchEvent::Modified(event) => Some(event),
            _ => None,
        };
    }
}
