//! The load for informers of a real API server: uniform pods, and updates of them at a rate.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};
use windlass_api::BoxError;
use windlass_client::{Client, Config};

use crate::{
    rate,
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
    /// The address of the server's etcd, for updates
    #[arg(long, value_name = "URL")]
    etcd: Option<http::Uri>,
    /// The number of updates
    #[arg(long, default_value_t = 20_000)]
    updates: u64,
    /// Updates per second
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// The number of pods that are updated
    #[arg(long, default_value_t = 1_000)]
    over: usize,
    /// The number of the first update, which the pods show
    #[arg(long, default_value_t = 1)]
    first: u64,
}

/// The number of concurrent creates.
const CREATES: usize = 16;

/// The maximum number of concurrent updates; a slow server gets fewer updates per second.
const UPDATES: usize = 32;

/// The metadata that only a server sets.
const SET_BY_SERVER: [&str; 5] = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"];

/// The pods of the workload.
struct Pods(Workload);

/// A pod as a client sends it.
struct Sent {
    namespace: String,
    name: String,
    body: Map<String, Value>,
}

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let client = Client::new(Config::from_file(&options.kubeconfig)?)?.without_rate_limit();
    let pods = Pods(Workload::new(Kind::Uniform, options.objects));
    if options.create {
        create(&client, &pods, options.objects).await?;
    }
    if let Some(etcd) = &options.etcd {
        let etcd = Client::new(Config::new(etcd.clone()))?.without_rate_limit();
        update(&etcd, &pods, &options).await?;
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
        let Sent { namespace, name, body } = pods.at(at)?;
        let collection = format!("/api/v1/namespaces/{namespace}/pods");
        send(client, Method::POST, &collection, &body.clone().into()).await?;
        send(client, Method::PUT, &format!("{collection}/{name}/status"), &body.into()).await.map(drop)
    };
    stream::iter(0..objects).map(one).buffer_unordered(CREATES).try_collect::<()>().await
}

/// Updates the pods in etcd at the rate, as another API server would. kube-apiserver takes milliseconds of CPU time for an
/// update of such a pod: it would not reach the rate, and the cost of the informers would be small beside that of the writes.
async fn update(etcd: &Client, pods: &Pods, options: &Options) -> Result<(), BoxError> {
    let mut stored = Vec::new();
    for at in 0..options.over.clamp(1, options.objects) {
        stored.push(Stored::read(etcd, &pods.at(at)?).await?);
    }
    let (open, mut running) = (Arc::new(Semaphore::new(UPDATES)), JoinSet::new());
    let begun = Instant::now();
    for number in 0..options.updates {
        let change = options.first + number;
        let at = usize::try_from(change % stored.len() as u64)?;
        stored[at].change(change);
        let body = json!({"key": stored[at].key, "value": BASE64.encode(&stored[at].value)});
        #[expect(clippy::cast_precision_loss, reason = "times of a day")]
        let due = Duration::from_secs_f64(number as f64 / options.rate.max(1) as f64);
        tokio::time::sleep_until(begun + due).await;
        let (etcd, permit) = (etcd.clone(), open.clone().acquire_owned().await?);
        running.spawn(async move {
            let sent = send(&etcd, Method::POST, "/v3/kv/put", &body).await;
            drop(permit);
            sent.map(drop).map_err(|error| error.to_string())
        });
        while let Some(ended) = running.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let elapsed = begun.elapsed();
    let count = usize::try_from(options.updates)?;
    let figures = json!({
        "bench": "writer", "updates": count, "seconds": elapsed.as_secs_f64(), "updates_per_second": rate(count, elapsed),
    });
    println!("{figures}");
    Ok(())
}

/// A pod in etcd.
#[derive(Debug)]
struct Stored {
    /// In base64.
    key: String,
    value: Vec<u8>,
    /// The position of the digits of the annotation.
    digits: usize,
}

/// The annotation whose value changes, as encoded in an entry of a map: its key, and the head of a value of 16 bytes.
const ANNOTATION: &[u8] = b"\x0a\x0fchecksum/config\x12\x10";

/// The number of its digits.
const DIGITS: usize = 16;

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    value: String,
}

impl Stored {
    async fn read(etcd: &Client, pod: &Sent) -> Result<Self, BoxError> {
        let key = BASE64.encode(format!("/registry/pods/{}/{}", pod.namespace, pod.name));
        let answer = send(etcd, Method::POST, "/v3/kv/range", &json!({"key": key})).await?;
        let range: Range = serde_json::from_slice(&answer)?;
        let value = range.kvs.first().ok_or_else(|| format!("the pod {} is not in etcd", pod.name))?;
        Self::new(key, BASE64.decode(&value.value)?)
    }

    fn new(key: String, value: Vec<u8>) -> Result<Self, BoxError> {
        let found = value.windows(ANNOTATION.len()).position(|window| window == ANNOTATION);
        let digits = found.ok_or("a stored pod without its annotation")? + ANNOTATION.len();
        if value.len() < digits + DIGITS {
            return Err("a stored pod is cut off".into());
        }
        Ok(Self { key, value, digits })
    }

    /// Sets the annotation.
    fn change(&mut self, change: u64) {
        self.value[self.digits..self.digits + DIGITS].copy_from_slice(format!("{change:016x}").as_bytes());
    }
}

impl Pods {
    fn at(&self, at: usize) -> Result<Sent, BoxError> {
        let mut body: Map<String, Value> = serde_json::from_slice(&self.0.object(at))?;
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
        Ok(Sent { namespace, name, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_a_stored_pod_is_in_its_annotation_only() {
        let value = [&b"k8s\0 f:checksum/config"[..], ANNOTATION, b"0123456789abcdef", b" rest"].concat();
        let mut stored = Stored::new(String::new(), value).unwrap();
        stored.change(0xbeef);
        let expected = [&b"k8s\0 f:checksum/config"[..], ANNOTATION, b"000000000000beef", b" rest"].concat();
        assert_eq!(stored.value, expected);
        assert!(Stored::new(String::new(), ANNOTATION.to_vec()).is_err());
    }

    #[tokio::test]
    async fn server_accepts_the_pods_and_their_statuses() {
        let server = windlass_server::Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        let pods = Pods(Workload::new(Kind::Uniform, 100));
        create(&client, &pods, 3).await.unwrap();
        let Sent { namespace, name, .. } = pods.at(2).unwrap();
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let answer = send(&client, Method::GET, &path, &Value::Null).await.unwrap();
        let pod: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["metadata"]["annotations"]["checksum/config"].as_str().unwrap().len(), DIGITS);
    }
}
