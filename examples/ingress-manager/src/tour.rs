//! Somebody who uses it.

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

/// Far longer than anything here takes: it tells slow from broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lives through the life of a Service in the namespace `default`, and prints what is done and seen. A manager with the
/// [`controller`](crate::controller()) must be running.
///
/// # Errors
/// When something does not come to be.
pub async fn tour(client: &Client) -> Result<(), BoxError> {
    println!("you   make a Service web with port 80, annotated {ANNOTATION}: shop.example.com");
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

    println!("you   take the annotation away");
    annotate(client, Value::Null).await?;
    gone(client).await?;

    println!("you   make an Ingress web by hand, and annotate the Service again");
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

/// Waits until the Ingress leads there.
async fn seen(client: &Client, way: &str) -> Result<Ingress, BoxError> {
    let leads = |ingress: Option<&Ingress>| ingress.and_then(way_of).as_deref() == Some(way);
    let ingress = client.wait_for::<Ingress>("web").timeout(PATIENCE).until(leads).await?;
    println!("seen  the Ingress web: {way}");
    Ok(ingress.ok_or("an Ingress that leads somewhere is there")?)
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

/// What an event for this reason says, as soon as there is one.
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
