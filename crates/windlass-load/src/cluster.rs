//! The cluster of a run: its resources, and the namespaces and objects that the run creates there.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_api::{
    ApiResource, DeleteOptions, GroupVersion, GroupVersionKind, ObjectRef, Preconditions, Resource as _,
    Scope as ResourceScope,
    k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount},
};
use windlass_client::Client;

use crate::{
    error::{Error, Result},
    template::Scope,
    tracker::Key,
    workload::{Scaled, Workload},
};

/// The label with the run on everything that a run creates.
pub(crate) const RUN: &str = "load.windlass.dev/run";
/// The label with the name of an object of the workload, also on its pods.
pub(crate) const OBJECT: &str = "load.windlass.dev/object";

/// The time to wait for the service account that pods need. A server without controllers has none.
const SERVICE_ACCOUNT: Duration = Duration::from_secs(10);
/// The time between two checks of the state.
pub(crate) const POLL: Duration = Duration::from_millis(200);

/// The resources of a workload on a server, and the names of a run.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) version: String,
    /// The ID of the run.
    pub(crate) run: String,
    pub(crate) namespaces: Vec<String>,
    /// The resources of the sets.
    pub(crate) resources: Vec<ApiResource>,
    names: HashMap<String, usize>,
    indices: HashMap<String, usize>,
}

impl Cluster {
    /// Finds the resources of a workload.
    pub(crate) async fn inspect(client: &Client, workload: &Workload, scaled: &Scaled, run: String) -> Result<Self> {
        let version = client.server_version().await.map_err(Error::cluster("read the version of the server"))?;
        let discovery = client.discovery().await.map_err(Error::cluster("discover the resources of the server"))?;
        let mut resources = Vec::new();
        for set in &scaled.sets {
            let (group, version) = set.api_version.split_once('/').unwrap_or(("", &set.api_version));
            let Some(found) = discovery.find_kind(group, version, &set.kind) else {
                let message =
                    format!("objects.{}: the server has no kind {} in {}", set.name, set.kind, set.api_version);
                return Err(workload.invalid(message));
            };
            resources.push(found.resource.clone());
        }
        let namespaces: Vec<String> =
            (0..scaled.namespaces).map(|index| format!("windlass-load-{run}-{index}")).collect();
        let names = scaled.sets.iter().enumerate().map(|(index, set)| (set.name.clone(), index)).collect();
        let indices = namespaces.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect();
        Ok(Self { version: version.git_version, run, namespaces, resources, names, indices })
    }

    /// Returns the selector of everything that the run creates.
    pub(crate) fn selector(&self) -> String {
        format!("{RUN}={}", self.run)
    }

    /// Returns the number of a resource, which is that of its first set. Pods without a set have the next number.
    pub(crate) fn number(&self, resource: &ApiResource) -> usize {
        self.resources.iter().position(|known| known == resource).unwrap_or(self.resources.len())
    }

    /// Returns the resources to watch: those of the sets, and pods.
    pub(crate) fn watched(&self) -> Vec<ApiResource> {
        let mut watched: Vec<ApiResource> = Vec::new();
        for resource in self.resources.iter().cloned().chain([pods()]) {
            if !watched.contains(&resource) {
                watched.push(resource);
            }
        }
        watched
    }

    pub(crate) fn is_namespaced(&self, set: usize) -> bool {
        self.resources[set].scope == ResourceScope::Namespaced
    }

    /// Returns the namespace of an object. `None` if it is cluster-scoped.
    pub(crate) fn namespace(&self, key: Key) -> Option<&str> {
        self.is_namespaced(key.set).then(|| self.namespaces[key.namespace].as_str())
    }

    /// Returns the name of an object.
    pub(crate) fn name(&self, scaled: &Scaled, key: Key) -> String {
        let name = label(scaled, key);
        // Cluster-scoped objects of several runs must not share names.
        if self.is_namespaced(key.set) { name } else { format!("windlass-load-{}-{name}", self.run) }
    }

    /// Returns the object of a label and a namespace.
    pub(crate) fn key(&self, label: &str, namespace: Option<&str>) -> Option<Key> {
        let (set, index) = label.rsplit_once('-')?;
        let namespace = match namespace {
            Some(namespace) => *self.indices.get(namespace)?,
            None => 0,
        };
        Some(Key { set: *self.names.get(set)?, namespace, index: index.parse().ok()? })
    }

    /// Returns an object as it is created, with the labels of the run on it and on its pods.
    pub(crate) fn object(&self, scaled: &Scaled, key: Key) -> Result<Value, String> {
        let set = &scaled.sets[key.set];
        let mut object = set.template.render(&self.scope(scaled, key, 0))?;
        let labels = json!({ RUN: self.run, OBJECT: label(scaled, key) });
        let metadata = &mut object["metadata"];
        merge(metadata, &json!({ "labels": labels, "name": self.name(scaled, key) }));
        if let Some(namespace) = self.namespace(key) {
            metadata["namespace"] = namespace.into();
        }
        if object.pointer("/spec/template/spec").is_some() {
            merge(&mut object["spec"]["template"]["metadata"], &json!({ "labels": labels }));
        }
        Ok(object)
    }

    /// Returns the variables of an object.
    pub(crate) fn scope(&self, scaled: &Scaled, key: Key, sequence: usize) -> Scope {
        let mut numbers = scaled.variables.clone();
        let mut number = |name: &str, value: f64| numbers.insert(name.to_owned(), value);
        number("index", crate::number::float(key.index));
        number("sequence", crate::number::float(sequence));
        number("replicas", scaled.sets[key.set].replicas.unwrap_or(1.0).floor());
        let namespace = self.namespace(key).unwrap_or_default().to_owned();
        let name = self.name(scaled, key);
        let set = scaled.sets[key.set].name.clone();
        Scope {
            numbers,
            texts: [("name", name), ("namespace", namespace), ("run", self.run.clone()), ("set", set)].into(),
        }
    }

    /// Creates the namespaces, and waits for their service accounts.
    pub(crate) async fn create_namespaces(&self, client: &Client) -> Result<()> {
        for name in &self.namespaces {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.clone());
            namespace.metadata.labels = Some([(RUN.to_owned(), self.run.clone())].into());
            client.create(&namespace).await.map_err(Error::cluster("create the namespaces of the run"))?;
        }
        let deadline = Instant::now() + SERVICE_ACCOUNT;
        for name in &self.namespaces {
            let key = ObjectRef::<ServiceAccount>::new("default").within(name.as_str());
            while let Ok(None) = client.get_opt::<ServiceAccount>(key.clone()).await {
                if Instant::now() > deadline {
                    tracing::warn!(namespace = name, "there is no service account for pods");
                    return Ok(());
                }
                sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// Deletes everything with the label of this run, and waits until the namespaces are gone. Returns the objects that
    /// remain.
    pub(crate) async fn clean_up(&self, client: &Client, timeout: Duration) -> Vec<String> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut remaining = Vec::new();
            for resource in self.owned_resources() {
                match self.delete_all(client, &resource).await {
                    Ok(names) => remaining.extend(names.into_iter().map(|name| format!("{}/{name}", resource.plural))),
                    Err(error) => remaining.push(format!("{} ({})", resource.plural, error.chain())),
                }
            }
            if remaining.is_empty() || Instant::now() > deadline {
                return remaining;
            }
            sleep(POLL).await;
        }
    }

    /// Returns the resources whose objects the run deletes one by one: the rest is in its namespaces.
    fn owned_resources(&self) -> Vec<ApiResource> {
        let mut owned = vec![Namespace::api_resource()];
        for resource in &self.resources {
            if resource.scope == ResourceScope::Cluster && !owned.contains(resource) {
                owned.push(resource.clone());
            }
        }
        owned
    }

    /// Deletes the objects of this run that are not being deleted yet. Returns the names of all that exist.
    async fn delete_all(&self, client: &Client, resource: &ApiResource) -> windlass_client::Result<Vec<String>> {
        let objects = client.metadata(resource);
        let mut names = Vec::new();
        for object in objects.list().labels(self.selector()).await? {
            let name = object.metadata.name.unwrap_or_default();
            if object.metadata.deletion_timestamp.is_none() {
                let uid = object.metadata.uid.unwrap_or_default();
                // With the UID, an object that replaced this one in the meantime is not deleted.
                let options = DeleteOptions {
                    preconditions: Some(Preconditions { uid: Some(uid), ..Preconditions::default() }),
                    ..DeleteOptions::default()
                };
                let deleted = objects.delete(name.as_str()).options(options).await;
                if let Err(error) = deleted
                    && !error.is_not_found()
                    && !error.is_conflict()
                {
                    return Err(error);
                }
            }
            names.push(name);
        }
        Ok(names)
    }
}

/// Returns the number of nodes.
pub(crate) async fn count_nodes(client: &Client) -> Result<usize> {
    let nodes = client.metadata(&Node::api_resource());
    let list = nodes.list().await.map_err(Error::cluster("count the nodes of the cluster"))?;
    Ok(list.into_iter().count())
}

/// Returns the group and version of a resource.
pub(crate) fn group_version(resource: &ApiResource) -> GroupVersion {
    GroupVersion::new(resource.group.clone(), resource.version.clone())
}

/// Returns the resource of pods.
pub(crate) fn pods() -> ApiResource {
    Pod::api_resource()
}

/// Reports whether a resource is that of pods.
pub(crate) fn is_pods(resource: &ApiResource) -> bool {
    let GroupVersionKind { group, kind, .. } = resource.gvk();
    group.is_empty() && kind == "Pod"
}

/// Returns the value of the label of an object.
fn label(scaled: &Scaled, key: Key) -> String {
    format!("{}-{}", scaled.sets[key.set].name, key.index)
}

/// Adds the fields of `other`, which replace those of the same name.
fn merge(value: &mut Value, other: &Value) {
    match (value, other) {
        (Value::Object(fields), Value::Object(others)) => {
            for (name, other) in others {
                merge(fields.entry(name.clone()).or_insert(Value::Null), other);
            }
        }
        (value, other) => *value = other.clone(),
    }
}
