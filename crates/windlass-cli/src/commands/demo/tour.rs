//! The acts of the demo: requests to the control plane, and the expected results.

use std::{error::Error, time::Duration};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};
use windlass_api::{Object, ObjectExt, Patch};
use windlass_cache::{Lister, Notification, Registrations};
use windlass_client::Client;
use windlass_runtime::{Manager, Watch};

use super::{output::Output, view::Line};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const NAMESPACE: &str = "default";
const NAME: &str = "web";
const REPLICAS: usize = 8;
const FEWER: usize = 3;
const IMAGE: &str = "nginx:1.25";
const NEW_IMAGE: &str = "nginx:1.26";
/// The timeout for a result. Far longer than required: it only detects failures.
const PATIENCE: Duration = Duration::from_mins(1);

/// The acts, with the caches that show the results, as in any controller.
pub(super) struct Tour {
    client: Client,
    output: Output,
    /// The pause between two acts, so that users can follow.
    pause: Duration,
    pods: Lister<Pod>,
    sets: Lister<ReplicaSet>,
    deployments: Lister<Deployment>,
    changed: watch::Receiver<u64>,
    /// Keeps the handlers registered.
    _registrations: [Registrations; 3],
}

impl Tour {
    pub(super) fn new(client: Client, manager: &Manager, output: Output, pause: Duration) -> Self {
        let (sender, changed) = watch::channel(0);
        let pods = manager.cluster().informer::<Pod>(&Watch::all());
        let sets = manager.cluster().informer::<ReplicaSet>(&Watch::all());
        let deployments = manager.cluster().informer::<Deployment>(&Watch::all());
        let panel = output.clone();
        let (of_pods, of_sets, of_deployments) = (sender.clone(), sender.clone(), sender);
        let show_pod = move |notification: Notification<Pod>| {
            panel.pod(&notification);
            of_pods.send_modify(|changes| *changes += 1);
        };
        let count_set = move |_: Notification<ReplicaSet>| of_sets.send_modify(|changes| *changes += 1);
        let count_deployment = move |_: Notification<Deployment>| of_deployments.send_modify(|changes| *changes += 1);
        let registrations = [
            pods.add_handler(|| show_pod.clone()),
            sets.add_handler(|| count_set.clone()),
            deployments.add_handler(|| count_deployment.clone()),
        ];
        Self {
            client,
            output,
            pause,
            pods: pods.store(),
            sets: sets.store(),
            deployments: deployments.store(),
            changed,
            _registrations: registrations,
        }
    }

    /// Runs all acts, up to the first missing result.
    pub(super) async fn run(self) -> Outcome {
        let started = Instant::now();
        self.act("A control plane starts in this process: API server, controllers, 3 simulated nodes.");
        self.client.get::<k8s_openapi::api::core::v1::Namespace>(NAMESPACE).await?;
        self.seen(&format!(
            "the API server responded to the first request after {:.1} ms",
            started.elapsed().as_secs_f64() * 1e3
        ));

        self.act(&format!("A user requests {REPLICAS} replicas."));
        self.command(&format!("kubectl create deployment {NAME} --image={IMAGE} --replicas={REPLICAS}"));
        self.client.create(&deployment()).await?;
        self.until(&format!("{REPLICAS} pods run, each on a node and ready"), || self.ready().len() == REPLICAS)
            .await?;
        self.until("the status of the deployment shows this", || self.available() == REPLICAS).await?;

        let victim = self.ready().first().cloned().ok_or("there is no pod to kill")?;
        self.act("A pod dies.");
        self.command(&format!("kubectl delete pod {victim}"));
        self.client.delete::<Pod>(victim.as_str()).within(NAMESPACE).await?;
        self.until(&format!("{victim} is gone"), || !self.names().contains(&victim)).await?;
        self.until(&format!("the loop restored {REPLICAS} replicas with a new pod"), || self.ready().len() == REPLICAS)
            .await?;
        self.until("the deployment is available again", || self.available() == REPLICAS).await?;

        self.act(&format!("A user scales down to {FEWER} replicas."));
        self.command(&format!("kubectl scale deployment {NAME} --replicas={FEWER}"));
        self.patch(json!({"spec": {"replicas": FEWER}})).await?;
        self.until(&format!("{FEWER} pods are left"), || self.names().len() == FEWER && self.ready().len() == FEWER)
            .await?;
        self.until("the status of the deployment shows this", || self.available() == FEWER).await?;

        self.act("A new image rolls out.");
        self.command(&format!("kubectl set image deployment/{NAME} nginx={NEW_IMAGE}"));
        self.patch(json!({"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": NEW_IMAGE}]}}}}))
            .await?;
        self.until(&format!("{FEWER} pods run {NEW_IMAGE}, none the old image"), || {
            self.ready().len() == FEWER
                && self.names().len() == FEWER
                && self.images().iter().all(|image| image == NEW_IMAGE)
        })
        .await?;
        self.until("the rollout is complete, and the old replica set is kept for a rollback", || {
            self.available() == FEWER && self.sets.len() == 2
        })
        .await?;

        self.act("Everything is deleted.");
        self.command(&format!("kubectl delete deployment {NAME}"));
        self.client.delete::<Deployment>(NAME).within(NAMESPACE).await?;
        self.until("the deployment is gone", || self.deployments.is_empty()).await?;
        self.until("the garbage collector deleted its replica sets", || self.sets.is_empty()).await?;
        self.until("the garbage collector deleted their pods", || self.pods.is_empty()).await?;
        sleep(self.pause).await;
        Ok(())
    }

    fn act(&self, text: &str) {
        self.output.write(&Line::Act(text.to_owned()));
    }

    fn command(&self, text: &str) {
        self.output.write(&Line::Command(text.to_owned()));
    }

    fn seen(&self, text: &str) {
        self.output.write(&Line::Seen(text.to_owned()));
    }

    /// Waits until a condition on the caches holds, then pauses.
    async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        let mut changed = self.changed.clone();
        loop {
            changed.mark_unchanged();
            if holds() {
                break;
            }
            if !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                self.output.write(&Line::Missed(what.to_owned()));
                return Err(format!("not seen within {} s: {what}", PATIENCE.as_secs()).into());
            }
        }
        self.seen(what);
        sleep(self.pause).await;
        Ok(())
    }

    async fn patch(&self, patch: serde_json::Value) -> Outcome {
        self.client.patch::<Deployment>(NAME, Patch::Strategic(patch)).within(NAMESPACE).await?;
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        self.pods.list().iter().map(|pod| pod.meta().name().to_string()).collect()
    }

    /// Returns the names of the pods that are ready and not terminating.
    fn ready(&self) -> Vec<String> {
        let pods = self.pods.list();
        let staying = pods.iter().filter(|pod| !pod.meta().is_deleting());
        let is_ready = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        staying.filter_map(|pod| pod.get().ok()).filter(|pod| is_ready(pod)).map(|pod| pod.name().to_owned()).collect()
    }

    fn images(&self) -> Vec<String> {
        let pods = self.pods.list();
        let specs = pods.iter().filter_map(|pod| pod.get().ok()?.spec.clone());
        specs.flat_map(|spec| spec.containers).filter_map(|container| container.image).collect()
    }

    /// Returns the available replicas from the deployment's status, if it is current; 0 otherwise.
    fn available(&self) -> usize {
        let deployment = self.deployments.list().into_iter().next().and_then(|deployment| deployment.get().ok());
        let Some(deployment) = deployment else { return 0 };
        let Some(status) = deployment.status.as_ref() else { return 0 };
        let current = status.observed_generation == deployment.metadata().generation
            && status.replicas == status.updated_replicas
            && status.replicas == status.available_replicas;
        if current { usize::try_from(status.available_replicas.unwrap_or(0)).unwrap_or(0) } else { 0 }
    }
}

fn deployment() -> Deployment {
    let labels = json!({"app": NAME});
    let object = json!({
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": IMAGE}]},
            },
        },
    });
    serde_json::from_value(object).expect("the demo's own deployment is well-formed")
}
