//! A cluster for tests, and a program that sends single requests through the gateway.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time};
use windlass_client::{Body, Client, Config, Kubeconfig, config::Selection};

use super::{Cluster, ClusterOptions, Command, Observed};
use crate::{Plan, record::Change};

/// The collection of the ConfigMaps of the tests.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The time limit of everything that a test waits for.
pub(crate) const PATIENCE: time::Duration = time::Duration::from_secs(20);

/// A cluster with the faults of a plan.
pub(crate) struct Fixture {
    pub(crate) cluster: Cluster,
    commands: mpsc::UnboundedReceiver<Command>,
}

/// A watch of the program.
pub(crate) struct TestWatch {
    body: Body,
    read: Vec<u8>,
}

/// A connection of a process. Requests are not repeated.
#[derive(Clone)]
pub(crate) struct Sender(pub(crate) Client);

impl Fixture {
    pub(crate) async fn start(plan: &str) -> Self {
        Self::start_with(plan, &ClusterOptions::default()).await
    }

    pub(crate) async fn start_with(plan: &str, options: &ClusterOptions) -> Self {
        let plan: Plan = plan.parse().unwrap();
        let (cluster, commands) = Cluster::start(options, &plan).await.unwrap();
        Self { cluster, commands }
    }

    /// Returns a connection of a process.
    pub(crate) fn process(&self, number: usize) -> Sender {
        Sender::new(&self.cluster.access(number).kubeconfig)
    }

    /// Returns the administrator's connection in this process.
    pub(crate) fn administrator(&self) -> Sender {
        Sender(self.cluster.client().clone())
    }

    pub(crate) async fn command(&mut self) -> Command {
        time::timeout(PATIENCE, self.commands.recv()).await.expect("a command").unwrap()
    }

    /// Waits until the activity meets a condition.
    pub(crate) async fn until(&self, condition: impl Fn(&Cluster) -> bool) {
        let met = async {
            while !condition(&self.cluster) {
                self.cluster.changed().await;
            }
        };
        time::timeout(PATIENCE, met).await.expect("the condition holds");
    }

    pub(crate) async fn finish(self) -> Observed {
        self.cluster.finish().await
    }
}

impl Observed {
    /// Returns the changes of ConfigMaps in the tests' namespace.
    pub(crate) fn of_config_maps(&self) -> impl Iterator<Item = &Change> {
        let is_ours = |change: &&Change| change.object.resource == "configmaps" && change.object.namespace == "default";
        self.changes.iter().filter(is_ours)
    }
}

impl Sender {
    pub(crate) fn new(kubeconfig: &str) -> Self {
        let kubeconfig = Kubeconfig::parse(kubeconfig).unwrap();
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).unwrap();
        Self(Client::new(config).unwrap().with_retries(0))
    }

    /// Sends a request. Returns the status code and the body, or an error if there is no response.
    pub(crate) async fn send(&self, method: Method, target: &str, body: Value) -> Result<(u16, Value), String> {
        let media_type = match method {
            Method::PATCH if target.contains("fieldManager") => "application/apply-patch+yaml",
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder().method(method).uri(target).header(header::CONTENT_TYPE, media_type).body(body);
        let sent = async {
            let response = self.0.request(request.unwrap()).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
        };
        time::timeout(PATIENCE, sent).await.expect("an answer")
    }

    /// Sends a request that must succeed.
    pub(crate) async fn succeed(&self, method: Method, target: &str, body: Value) -> Value {
        let (status, value) = self.send(method.clone(), target, body).await.unwrap();
        assert!((200..300).contains(&status), "{method} {target}: {status} {value}");
        value
    }

    pub(crate) async fn get(&self, target: &str) -> (u16, Value) {
        self.send(Method::GET, target, Value::Null).await.unwrap()
    }

    pub(crate) async fn create(&self, name: &str) -> Value {
        self.succeed(Method::POST, CONFIG_MAPS, config_map(name)).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Value {
        self.succeed(Method::DELETE, &format!("{CONFIG_MAPS}/{name}"), Value::Null).await
    }

    /// Sets a value of a ConfigMap.
    pub(crate) async fn set(&self, name: &str, value: &str) -> Value {
        let patch = json!({"data": {"color": value}});
        self.succeed(Method::PATCH, &format!("{CONFIG_MAPS}/{name}"), patch).await
    }

    /// Opens a watch of ConfigMaps.
    pub(crate) async fn watch(&self, query: &str) -> TestWatch {
        let request = Request::get(format!("{CONFIG_MAPS}?watch=true&{query}")).body(Bytes::new()).unwrap();
        TestWatch { body: self.0.request_stream(request).await.unwrap(), read: Vec::new() }
    }
}

impl TestWatch {
    /// Returns the next event as its type and the name of its object.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        time::timeout(PATIENCE, self.read_event()).await.expect("an event")
    }

    /// Returns the type of the next event, and the name of its object.
    pub(crate) async fn name(&mut self) -> String {
        let (kind, object) = self.next().await.expect("an event");
        format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default())
    }

    async fn read_event(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.read.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].take()));
            }
            self.read.extend_from_slice(&self.body.frame().await?.unwrap().into_data().unwrap());
        }
    }

    /// Reports whether no event arrives within a moment.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        time::timeout(time::Duration::from_millis(300), self.read_event()).await.is_err()
    }
}

/// Returns a ConfigMap.
pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"color": "red"}})
}
