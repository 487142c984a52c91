//! Playing a scenario in a cluster.

use std::{cell::RefCell, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_api::{DynamicObject, ObjectRef, Patch, Propagation};
use windlass_client::{Client, Error, Resources};

use super::{
    kinds::{Kind, Place},
    scenario::{PodChange, PodFilter, PodSelection, Scenario, Step},
    transcript::{self, Hashes},
};

/// The time without changes after which the cluster counts as idle. Some controllers of the real cluster batch events
/// for a second.
const REST: Duration = Duration::from_millis(3500);
const LOOK: Duration = Duration::from_millis(500);
/// The timeout for the cluster to become idle.
const PATIENCE: Duration = Duration::from_mins(2);

/// Plays a scenario in a namespace, which is created for it and deleted at the end. Returns the transcript.
///
/// # Panics
///
/// If the server rejects a step, or the cluster does not become idle.
pub async fn play(client: &Client, namespace: &str, scenario: &Scenario) -> String {
    let stage = Stage { client, namespace, scenario, hashes: RefCell::default() };
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    stage.of("Namespace").create(&object(made)).await.expect("a namespace can be made");
    // The default objects of a namespace must exist before the first step.
    stage.settled().await;
    let mut told = String::new();
    for step in &scenario.steps {
        if let Step::Show(title) = step {
            told.push_str(&format!("--- {title}\n{}", stage.settled().await));
            continue;
        }
        match (step, stage.act(step).await) {
            (_, Ok(StepOutcome::Something)) => {}
            (_, Ok(StepOutcome::Nothing)) => told.push_str(&format!("--- nothing to do: {step:?}\n")),
            (Step::Refused(_), Err(error)) => {
                let why = error.status().map_or_else(|| error.chain(), |status| format!("{} {}", status.code, status));
                told.push_str(&format!("--- refused: {}\n", why.replace(namespace, "NAMESPACE")));
            }
            (_, Err(error)) => panic!("{}: {step:?}: {}", scenario.title, error.chain()),
        }
        stage.settled().await;
    }
    stage.clear().await;
    told
}

/// The result of a step: whether it found an object to act on.
#[derive(Clone, Copy, Debug)]
enum StepOutcome {
    Something,
    Nothing,
}

struct Stage<'s> {
    client: &'s Client,
    namespace: &'s str,
    scenario: &'s Scenario,
    hashes: RefCell<Hashes>,
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object is one")
}

impl Stage<'_> {
    fn of(&self, kind: &str) -> Resources<DynamicObject> {
        self.client.dynamic(&Kind::find(kind).resource(self.namespace))
    }

    /// Returns the namespace and the name for a name in a step.
    fn place(&self, name: &str) -> (String, String) {
        let name = name.replace("NAMESPACE", self.namespace);
        match name.split_once(':') {
            Some((place, name)) => (format!("{}-{place}", self.namespace), name.to_owned()),
            None => (self.namespace.to_owned(), name),
        }
    }

    /// Adds the namespace to the name of a cluster-scoped object.
    fn of_cluster(&self, name: String) -> String {
        if name.contains(self.namespace) { name } else { format!("{}-{name}", self.namespace) }
    }

    fn key(&self, kind: &str, name: &str) -> ObjectRef<DynamicObject> {
        let (namespace, name) = self.place(name);
        match Kind::find(kind).place {
            Place::Namespace => ObjectRef::new(name).within(namespace),
            Place::Cluster => ObjectRef::new(self.of_cluster(name)),
        }
    }

    async fn act(&self, step: &Step) -> Result<StepOutcome, Error> {
        match step {
            Step::Create { kind, name, object: given } => {
                let (namespace, name) = self.place(name);
                let known = Kind::find(kind);
                let mut made = self.with_uids(given).await;
                made["apiVersion"] = json!(known.resource(self.namespace).api_version());
                made["kind"] = json!(kind);
                match known.place {
                    Place::Namespace => {
                        made["metadata"]["name"] = json!(name);
                        made["metadata"]["namespace"] = json!(namespace);
                    }
                    Place::Cluster => {
                        if !name.contains(self.namespace) {
                            // Pods select the nodes of their scenario by this label.
                            made["metadata"]["labels"]["of"] = json!(self.namespace);
                        }
                        made["metadata"]["name"] = json!(self.of_cluster(name));
                    }
                }
                self.of(kind).create(&object(made)).await?;
            }
            Step::Patch { kind, subresource, name, patch } => {
                let patch = Patch::Merge(self.with_uids(patch).await);
                let patch = self.of(kind).patch(self.key(kind, name), patch);
                match subresource {
                    Some(subresource) => patch.subresource(subresource.clone()).await?,
                    None => patch.await?,
                };
            }
            Step::Delete { kind, name, how } => {
                let deletion = self.of(kind).delete(self.key(kind, name));
                match how.as_deref() {
                    Some("foreground") => deletion.propagation(Propagation::Foreground).await?,
                    Some("orphan") => deletion.propagation(Propagation::Orphan).await?,
                    Some("at-once") => deletion.grace_period(Duration::ZERO).await?,
                    _ => deletion.propagation(Propagation::Background).await?,
                };
            }
            Step::Finalize { name } => {
                let found = self.of("Namespace").get(self.key("Namespace", name)).await?;
                let mut found = serde_json::to_value(found).expect("an object is JSON");
                found["spec"]["finalizers"] = json!([]);
                self.of("Namespace").update(&object(found)).subresource("finalize").await?;
            }
            Step::Pods { selection, change } => {
                let pods = self.pods(selection, *change).await;
                for pod in &pods {
                    match self.apply_change(pod, *change).await {
                        // A controller has deleted the pod in the meantime.
                        Err(error) if error.is_not_found() => {}
                        outcome => outcome?,
                    }
                }
                return Ok(if pods.is_empty() { StepOutcome::Nothing } else { StepOutcome::Something });
            }
            Step::Refused(step) => return Box::pin(self.act(step)).await,
            Step::Until(kind) => {
                let start = Instant::now();
                while self.list(kind, self.namespace).await.is_empty() {
                    assert!(start.elapsed() < PATIENCE, "no {kind} comes in {}", self.namespace);
                    sleep(LOOK).await;
                }
            }
            Step::Drop(kind) => {
                for object in self.list(kind, self.namespace).await {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    self.of(kind).delete(self.key(kind, name)).propagation(Propagation::Background).await?;
                }
            }
            Step::Wait(seconds) => sleep(Duration::from_secs(*seconds)).await,
            Step::Show(_) => {}
        }
        Ok(StepOutcome::Something)
    }

    /// Replaces UIDs that the scenario cannot know.
    async fn with_uids(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix("uid of ").and_then(|named| named.split_once(' ')) {
                Some((kind, name)) => {
                    let found = self.of(kind).get(self.key(kind, name)).await.expect("what is named is there");
                    serde_json::to_value(found).expect("an object is JSON")["metadata"]["uid"].clone()
                }
                None => json!(text.replace("NAMESPACE", self.namespace)),
            },
            Value::Array(items) => {
                let mut known = Vec::with_capacity(items.len());
                for item in items {
                    known.push(Box::pin(self.with_uids(item)).await);
                }
                Value::Array(known)
            }
            Value::Object(fields) => {
                let mut known = serde_json::Map::new();
                for (key, value) in fields {
                    known.insert(key.replace("NAMESPACE", self.namespace), Box::pin(self.with_uids(value)).await);
                }
                Value::Object(known)
            }
            other => other.clone(),
        }
    }

    /// Returns the selected pods that have not ended, and are not in deletion unless they are selected by that. If a
    /// limited number is set to Running, other pods come first.
    async fn pods(&self, selection: &PodSelection, change: PodChange) -> Vec<Value> {
        let mut pods = self.list("Pod", self.namespace).await;
        pods.retain(|pod| {
            let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            let meant = match &selection.filter {
                PodFilter::All | PodFilter::Ending => true,
                PodFilter::Index(index) => {
                    pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == **index
                }
                PodFilter::Name(name) => pod["metadata"]["name"] == **name,
                PodFilter::Image(image) => pod["spec"]["containers"][0]["image"] == **image,
            };
            let is_ending = matches!(selection.filter, PodFilter::Ending);
            meant && !ended && pod["metadata"]["deletionTimestamp"].is_null() != is_ending
        });
        pods.sort_by_key(|pod| {
            let runs = matches!(change, PodChange::Run) && pod["status"]["phase"] == "Running";
            (runs, pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned))
        });
        pods.truncate(selection.at_most.unwrap_or(usize::MAX));
        pods
    }

    async fn apply_change(&self, pod: &Value, change: PodChange) -> Result<(), Error> {
        let name = pod["metadata"]["name"].as_str().expect("a pod has a name");
        let now = pod["metadata"]["creationTimestamp"].clone();
        let container = |state: Value| json!([{"name": "c", "image": "one", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        let ready = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": now}]);
        let ended = |code: i32| container(json!({"terminated": {"exitCode": code, "finishedAt": now}}));
        let status = match change {
            PodChange::Delete => {
                return self.of("Pod").delete(self.key("Pod", name)).await.map(drop);
            }
            PodChange::Go => {
                return self.of("Pod").delete(self.key("Pod", name)).grace_period(Duration::ZERO).await.map(drop);
            }
            PodChange::Evict => {
                return self.of("Pod").evict(self.key("Pod", name)).await.map(drop);
            }
            PodChange::Run => json!({"phase": "Running", "conditions": ready("True")}),
            PodChange::Falter => json!({"phase": "Running", "conditions": ready("False")}),
            PodChange::Succeed => {
                json!({"phase": "Succeeded", "conditions": ready("False"), "containerStatuses": ended(0)})
            }
            PodChange::Exit(code) => {
                json!({"phase": "Failed", "conditions": ready("False"), "containerStatuses": ended(code)})
            }
        };
        let patch = Patch::Merge(json!({"status": status}));
        self.of("Pod").patch(self.key("Pod", name), patch).subresource("status").await.map(drop)
    }

    async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let objects = match Kind::find(kind).place {
            Place::Namespace => self.of(kind).list().within(namespace).await,
            Place::Cluster => self.of(kind).list().await,
        };
        let objects = match objects {
            Ok(objects) => objects.items,
            // The kind is not defined yet, or was removed.
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => panic!("{}: a list of {kind}: {}", self.scenario.title, error.chain()),
        };
        objects.iter().map(|object| serde_json::to_value(object).expect("an object is JSON")).collect()
    }

    /// Returns the namespaces of the scenario.
    fn places(&self) -> Vec<String> {
        let made = self.scenario.steps.iter().filter_map(|step| match step {
            Step::Create { kind, name, .. } if kind == "Namespace" => Some(self.place(name).1),
            _ => None,
        });
        let mut places: Vec<_> = std::iter::once(self.namespace.to_owned()).chain(made).collect();
        places.dedup();
        places
    }

    /// Returns all objects of a kind.
    async fn all(&self, kind: &str) -> Vec<Value> {
        let mut found = Vec::new();
        let is_ours = |name: &Value| name.as_str().is_some_and(|name| name.contains(self.namespace));
        if Kind::find(kind).place == Place::Cluster {
            found.extend(self.list(kind, "").await.into_iter().filter(|object| is_ours(&object["metadata"]["name"])));
            return found;
        }
        for place in self.places() {
            found.extend(self.list(kind, &place).await);
        }
        if kind == "Event" {
            // Events about cluster-scoped objects are in the default namespace. They are included with their objects.
            let is_looked_at = |about: &Value| {
                is_ours(&about["name"]) && self.scenario.kinds.iter().any(|kind| about["kind"] == **kind)
            };
            let events = self.list(kind, "default").await;
            found.extend(events.into_iter().filter(|event| is_looked_at(&event["involvedObject"])));
        }
        found
    }

    /// Returns the current state when the cluster is idle.
    async fn settled(&self) -> String {
        let start = Instant::now();
        let (mut last, mut since) = (Vec::new(), Instant::now());
        loop {
            let mut objects = Vec::new();
            for kind in &self.scenario.kinds {
                objects.extend(self.all(kind).await.into_iter().map(|object| (kind.clone(), object)));
            }
            if objects != last {
                (last, since) = (objects, Instant::now());
            } else if since.elapsed() >= REST {
                let text = transcript::write(&self.scenario.kinds, &last, &mut self.hashes.borrow_mut());
                return text.replace(self.namespace, "NAMESPACE");
            }
            assert!(start.elapsed() < PATIENCE, "{}: nothing comes to rest", self.scenario.title);
            sleep(LOOK).await;
        }
    }

    /// Deletes the scenario's objects, without waiting.
    async fn clear(&self) {
        let made = self.scenario.steps.iter().filter_map(|step| match step {
            Step::Create { kind, name, .. } if Kind::find(kind).place == Place::Cluster => {
                Some((kind.as_str(), name.as_str()))
            }
            _ => None,
        });
        for (kind, name) in made.chain([("Namespace", "NAMESPACE")]) {
            let gone = self.of(kind).delete(self.key(kind, name)).await;
            if let Err(error) = gone {
                assert!(error.is_not_found() || error.is_conflict(), "{}: {}", self.scenario.title, error.chain());
            }
        }
    }
}
