//! The load for informers of a real API server: uniform pods, and updates of their statuses at a rate.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Map, Value, json};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};
use windlass_api::BoxError;
use windlass_client::{Client, Config};

use crate::{
    median, rate,
    replay::workload::{Kind, Workload},
    request::send,
};

/// The flags of `windlass-bench updates`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The number of pods
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Create the pods and their namespaces first
    #[arg(long)]
    create: bool,
    /// The number of updates
    #[arg(long, default_value_t = 20_000)]
    updates: u64,
    /// Updates per second
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// The number of pods that are updated
    #[arg(long, default_value_t = 1_000)]
    over: usize,
    /// The number of the first update: statuses depend on it, and an unchanged status is no event
    #[arg(long, default_value_t = 1)]
    first: u64,
}

/// The number of concurrent creates.
const CREATES: usize = 16;

/// The maximum number of concurrent updates; a slow server gets fewer updates per second.
const UPDATES: usize = 32;

/// The metadata that only a server sets.
const SET_BY_SERVER: [&str; 5] = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"];

/// The pods of the workload, as a client sends them.
struct Pods(Workload);

/// A pod, and the path of its namespace's pods.
struct Sent {
    collection: String,
    name: String,
    body: Map<String, Value>,
}

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let client = Client::new(Config::from_file(&options.kubeconfig)?)?.without_rate_limit();
    let pods = Pods(Workload::new(Kind::Uniform, options.objects));
    if options.create {
        create(&client, &pods, options.objects).await?;
    }
    if options.updates > 0 {
        update(&client, &pods, &options).await?;
    }
    Ok(())
}

/// Creates the pods, and sets their first statuses.
async fn create(client: &Client, pods: &Pods, objects: usize) -> Result<(), BoxError> {
    for namespace in 0..Workload::NAMESPACES.min(objects as u64) {
        let body = json!({"metadata": {"name": Workload::namespace(namespace)}});
        send(client, Method::POST, "/api/v1/namespaces", &body).await?;
    }
    let one = async |at: usize| {
        let Sent { collection, name, body } = pods.at(at, 0)?;
        send(client, Method::POST, &collection, &body.clone().into()).await?;
        send(client, Method::PUT, &format!("{collection}/{name}/status"), &body.into()).await.map(drop)
    };
    stream::iter(0..objects).map(one).buffer_unordered(CREATES).try_collect::<()>().await
}

/// Updates the statuses at the rate.
async fn update(client: &Client, pods: &Pods, options: &Options) -> Result<(), BoxError> {
    let (open, mut running) = (Arc::new(Semaphore::new(UPDATES)), JoinSet::new());
    let (begun, mut took) = (Instant::now(), Vec::new());
    for number in 0..options.updates {
        let change = options.first + number;
        let at = usize::try_from(change % options.over.clamp(1, options.objects) as u64)?;
        // Everything but the status remains as it was created.
        let Sent { collection, name, mut body } = pods.at(at, 0)?;
        body.insert("status".to_owned(), pods.at(at, change)?.body.remove("status").unwrap_or_default());
        body.remove("spec");
        #[expect(clippy::cast_precision_loss, reason = "times of a day")]
        let due = Duration::from_secs_f64(number as f64 / options.rate.max(1) as f64);
        tokio::time::sleep_until(begun + due).await;
        let (client, permit) = (client.clone(), open.clone().acquire_owned().await?);
        running.spawn(async move {
            let started = Instant::now();
            let path = format!("{collection}/{name}/status");
            send(&client, Method::PUT, &path, &body.into()).await.map_err(|error| error.to_string())?;
            drop(permit);
            Ok::<_, String>(started.elapsed().as_secs_f64() * 1e3)
        });
        while let Some(ended) = running.try_join_next() {
            took.push(ended??);
        }
    }
    while let Some(ended) = running.join_next().await {
        took.push(ended??);
    }
    let elapsed = begun.elapsed();
    let p50 = median(&mut took);
    let p99 = took.get(took.len() * 99 / 100).copied();
    let figures = json!({
        "bench": "writer", "updates": took.len(), "seconds": elapsed.as_secs_f64(), "updates_per_second": rate(took.len(), elapsed),
        "p50_ms": p50, "p99_ms": p99,
    });
    println!("{figures}");
    Ok(())
}

impl Pods {
    /// Returns a pod after a change.
    fn at(&self, at: usize, change: u64) -> Result<Sent, BoxError> {
        let mut body: Map<String, Value> = serde_json::from_slice(&self.0.object(at, change))?;
        let metadata = body.get_mut("metadata").and_then(Value::as_object_mut).ok_or("a pod without metadata")?;
        metadata.retain(|field, _| !SET_BY_SERVER.contains(&field.as_str()));
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        // The replayed addresses are not valid: numbers of a fixed width have leading zeros.
        let status = body.get_mut("status").and_then(Value::as_object_mut).ok_or("a pod without a status")?;
        let (pod, host) = (format!("10.1.{}.{}", at / 250 % 250, at % 250), format!("10.0.0.{}", at % 250));
        status.insert("podIPs".to_owned(), json!([{"ip": pod}]));
        status.insert("hostIPs".to_owned(), json!([{"ip": host}]));
        status.extend([("podIP".to_owned(), pod.into()), ("hostIP".to_owned(), host.into())]);
        Ok(Sent { collection: format!("/api/v1/namespaces/{namespace}/pods"), name, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_has_another_status_and_the_same_metadata() {
        let pods = Pods(Workload::new(Kind::Uniform, 100));
        let [first, second] = [1, 1_001].map(|change| pods.at(7, change).unwrap());
        assert_ne!(first.body["status"], second.body["status"]);
        assert_eq!((first.name, first.collection), (second.name, second.collection));
        let metadata = first.body["metadata"].as_object().unwrap();
        assert!(SET_BY_SERVER.iter().all(|field| !metadata.contains_key(*field)), "{metadata:?}");
    }

    #[tokio::test]
    async fn embedded_server_accepts_the_pods_and_each_update_is_a_new_version() {
        let server = windlass_server::Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        let pods = Pods(Workload::new(Kind::Uniform, 100));
        create(&client, &pods, 3).await.unwrap();
        let version = async || {
            let answer = send(&client, Method::GET, "/api/v1/pods", &Value::Null).await.unwrap();
            let list: Value = serde_json::from_slice(&answer).unwrap();
            let version = |pod: &Value| pod["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            list["items"].as_array().unwrap().iter().map(version).collect::<Vec<_>>()
        };
        let before = version().await;
        let options = Options {
            kubeconfig: PathBuf::new(),
            objects: 3,
            create: false,
            updates: 3,
            rate: 10_000,
            over: 3,
            first: 1,
        };
        update(&client, &pods, &options).await.unwrap();
        let after = version().await;
        assert_eq!(before.len(), 3);
        assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?} {after:?}");
    }
}
