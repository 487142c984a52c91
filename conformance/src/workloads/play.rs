//! Playing a scenario on a cluster.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_api::{ApiResource, DynamicObject, GroupVersionKind, ObjectRef, Patch, Propagation};
use windlass_client::{Client, Error, Resources};

use super::{
    scenario::{Fate, Scenario, Step, Which},
    transcript,
};

/// What is watched: kind, group, version, resource.
const KINDS: [(&str, &str, &str, &str); 12] = [
    ("Pod", "", "v1", "pods"),
    ("Job", "batch", "v1", "jobs"),
    ("CronJob", "batch", "v1", "cronjobs"),
    ("StatefulSet", "apps", "v1", "statefulsets"),
    ("DaemonSet", "apps", "v1", "daemonsets"),
    ("ReplicaSet", "apps", "v1", "replicasets"),
    ("ReplicationController", "", "v1", "replicationcontrollers"),
    ("ControllerRevision", "apps", "v1", "controllerrevisions"),
    ("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    ("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    ("Namespace", "", "v1", "namespaces"),
    ("Event", "", "v1", "events"),
];

/// In no namespace, and not shown: the API server and its controllers write much to it.
const NODE: &str = "Node";

/// How long nothing may change before all is taken to have come to rest: controllers of the real cluster gather for a second.
const REST: Duration = Duration::from_millis(3500);
const LOOK: Duration = Duration::from_millis(250);
/// How long that may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Plays it in a namespace, which is made for it and deleted in the end, and gives what has been shown.
///
/// # Panics
/// When the server refuses a step, or nothing comes to rest.
pub async fn play(client: &Client, namespace: &str, scenario: &Scenario) -> String {
    let stage = Stage { client, namespace };
    let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    stage.of("Namespace").create(&object(made)).await.expect("a namespace can be made");
    let mut told = String::new();
    let mut nodes = Vec::new();
    for step in &scenario.steps {
        if let Step::Show(title) = step {
            told.push_str(&format!("--- {title}\n{}", stage.settled().await));
            continue;
        }
        if let Step::Create { kind, name, .. } = step
            && kind == NODE
        {
            nodes.push(stage.key(kind, name));
        }
        match stage.act(step).await {
            Ok(Done::Something) => {}
            Ok(Done::Nothing) => told.push_str(&format!("--- nothing to do: {step:?}\n")),
            Err(error) => panic!("{}: {step:?}: {}", scenario.title, error.chain()),
        }
        stage.settled().await;
    }
    stage.of("Namespace").delete(ObjectRef::new(namespace)).await.expect("a namespace can be deleted");
    for node in nodes {
        // The scenario may have deleted it itself.
        let _ = stage.of(NODE).delete(node).await;
    }
    told
}

/// Whether a step found anything to act on.
#[derive(Clone, Copy, Debug)]
enum Done {
    Something,
    Nothing,
}

struct Stage<'s> {
    client: &'s Client,
    namespace: &'s str,
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("an object is one")
}

impl Stage<'_> {
    fn of(&self, kind: &str) -> Resources<DynamicObject> {
        if kind == NODE {
            let resource = ApiResource::namespaced(GroupVersionKind::new("", "v1", NODE), "nodes").cluster_scoped();
            return self.client.dynamic(&resource);
        }
        let known = KINDS.iter().find(|known| known.0 == kind);
        let &(kind, group, version, plural) = known.unwrap_or_else(|| panic!("no scenario has {kind}"));
        let kind = GroupVersionKind::new(group, version, kind);
        let resource = ApiResource::namespaced(kind, plural);
        let resource = if plural == "namespaces" { resource.cluster_scoped() } else { resource };
        self.client.dynamic(&resource)
    }

    /// Nodes are in no namespace: they have its name in theirs.
    fn key(&self, kind: &str, name: &str) -> ObjectRef<DynamicObject> {
        if kind == NODE {
            return ObjectRef::new(format!("{}-{name}", self.namespace));
        }
        ObjectRef::new(name).within(self.namespace)
    }

    /// What a step says of the namespace that it is played in.
    fn here(&self, value: &Value) -> Value {
        let text = value.to_string().replace("NAMESPACE", self.namespace);
        serde_json::from_str(&text).expect("a name is no syntax")
    }

    async fn act(&self, step: &Step) -> Result<Done, Error> {
        match step {
            Step::Create { kind, name, spec } if kind == NODE => {
                let name = format!("{}-{name}", self.namespace);
                let metadata = json!({"name": name, "labels": {"of": self.namespace}});
                let made = json!({"apiVersion": "v1", "kind": NODE, "metadata": metadata, "spec": self.here(spec)});
                self.of(kind).create(&object(made)).await?;
            }
            Step::Create { kind, name, spec } => {
                let &(_, group, version, _) = KINDS.iter().find(|known| known.0 == kind).expect("a kind that is known");
                let api = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
                let metadata = json!({"name": name, "namespace": self.namespace});
                let made = json!({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": self.here(spec)});
                self.of(kind).create(&object(made)).await?;
            }
            Step::Patch { kind, name, patch } => {
                self.of(kind).patch(self.key(kind, name), Patch::Merge(self.here(patch))).await?;
            }
            Step::Delete { kind, name, propagation } => {
                let propagation = match propagation.as_deref() {
                    Some("foreground") => Propagation::Foreground,
                    Some("orphan") => Propagation::Orphan,
                    _ => Propagation::Background,
                };
                self.of(kind).delete(self.key(kind, name)).propagation(propagation).await?;
            }
            Step::Pods { which, fate } => {
                let pods = self.pods(which).await;
                for pod in &pods {
                    self.befall(pod, *fate).await?;
                }
                return Ok(if pods.is_empty() { Done::Nothing } else { Done::Something });
            }
            Step::Wait(seconds) => sleep(Duration::from_secs(*seconds)).await,
            Step::Show(_) => {}
        }
        Ok(Done::Something)
    }

    /// The pods that are meant, of those that have not ended and are not on their way out.
    async fn pods(&self, which: &Which) -> Vec<Value> {
        let mut pods = self.list("Pod").await;
        pods.retain(|pod| {
            let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            !ended && pod["metadata"]["deletionTimestamp"].is_null()
        });
        pods.sort_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
        match which {
            Which::All => {}
            Which::First(number) => pods.truncate(*number),
            Which::Index(index) => {
                pods.retain(|pod| {
                    pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == **index
                });
            }
            Which::Named(name) => pods.retain(|pod| pod["metadata"]["name"] == **name),
        }
        pods
    }

    async fn befall(&self, pod: &Value, fate: Fate) -> Result<(), Error> {
        let name = pod["metadata"]["name"].as_str().expect("a pod has a name");
        let now = pod["metadata"]["creationTimestamp"].clone();
        let container = |state: Value| json!([{"name": "c", "image": "one", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        let ready = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": now}]);
        let ended = |code: i32| container(json!({"terminated": {"exitCode": code, "finishedAt": now}}));
        let status = match fate {
            Fate::Delete => {
                return self.of("Pod").delete(self.key("Pod", name)).await.map(drop);
            }
            Fate::Run => json!({"phase": "Running", "conditions": ready("True")}),
            Fate::Falter => json!({"phase": "Running", "conditions": ready("False")}),
            Fate::Succeed => json!({"phase": "Succeeded", "conditions": ready("False"), "containerStatuses": ended(0)}),
            Fate::Exit(code) => {
                json!({"phase": "Failed", "conditions": ready("False"), "containerStatuses": ended(code)})
            }
        };
        let patch = Patch::Merge(json!({"status": status}));
        self.of("Pod").patch(self.key("Pod", name), patch).subresource("status").await.map(drop)
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        let objects = self.of(kind).list().within(self.namespace).await.expect("a list is given");
        objects.iter().map(|object| serde_json::to_value(object).expect("an object is JSON")).collect()
    }

    /// What is there, once it has come to rest.
    async fn settled(&self) -> String {
        let start = Instant::now();
        let (mut last, mut since) = (Vec::new(), Instant::now());
        loop {
            let mut objects = Vec::new();
            for (kind, ..) in KINDS.iter().filter(|known| known.0 != "Namespace") {
                objects.extend(self.list(kind).await.into_iter().map(|object| ((*kind).to_owned(), object)));
            }
            if objects != last {
                (last, since) = (objects, Instant::now());
            } else if since.elapsed() >= REST {
                return transcript::write(&last).replace(self.namespace, "NAMESPACE");
            }
            assert!(start.elapsed() < PATIENCE, "nothing comes to rest in {}", self.namespace);
            sleep(LOOK).await;
        }
    }
}
