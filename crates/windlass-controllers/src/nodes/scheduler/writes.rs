//! The requests of the scheduler: bindings, conditions, and the deletion of victims.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod, PodCondition};
use serde_json::json;
use windlass_api::{Clock, ObjectExt, ObjectKey, ObjectRef, Patch, Resource, Status, WriteOptions, format_time};
use windlass_cache::{Cached, Lister};
use windlass_client::{Client, Error, request::Target};
use windlass_runtime::events::{Note, Recorder};

/// Sends requests and records events as the scheduler.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) recorder: Recorder,
    pub(super) pods: Lister<Pod>,
    pub(super) clock: Clock,
}

/// The reasons why a pod has no node, for its condition.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) key: ObjectKey,
    pub(super) uid: Arc<str>,
    pub(super) message: String,
    /// The node that the pod is nominated for: `None` to keep it, `Some("")` to clear it.
    pub(super) nominated: Option<String>,
}

impl Writer {
    /// Binds a pod to a node.
    pub(super) async fn bind(&self, key: &ObjectKey, uid: &Arc<str>, node: &str) -> Result<(), Error> {
        let mut binding = Binding {
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
            ..Binding::default()
        };
        binding.metadata.name = Some(key.name.to_string());
        binding.metadata.namespace = key.namespace.as_deref().map(str::to_owned);
        // Prevents the binding of a recreated pod of the same name.
        binding.metadata.uid = Some(uid.to_string());
        let target = Target::new(Pod::api_resource())
            .within(key.namespace.as_deref().unwrap_or_default())
            .named(&*key.name)
            .subresource("binding");
        let body = serde_json::to_vec(&binding).expect("strings always encode");
        let field_manager = self.client.field_owner().map(str::to_owned);
        let options = WriteOptions { field_manager, ..WriteOptions::default() };
        let request = target.create(body.into(), &options).expect("the server has accepted namespace and name");
        self.client.request_json::<Status>(request).await?;
        let message = format!("Successfully assigned {key} to {node}");
        self.recorder.record_about(reference(key, uid), Note::normal("Scheduled", message).action("Binding"));
        Ok(())
    }

    /// Reports why a pod has no node, unless its condition already does.
    pub(super) async fn report(&self, report: &Report) -> Result<(), Error> {
        let Some(pod) = self.pod(&report.key, &report.uid) else { return Ok(()) };
        let message = &report.message;
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let known = conditions.iter().find(|condition| condition.type_ == "PodScheduled");
        let is_reported = |known: &PodCondition| known.status == "False" && known.message.as_ref() == Some(message);
        let nominated = status.and_then(|status| status.nominated_node_name.as_deref()).unwrap_or_default();
        let nomination = report.nominated.as_deref().filter(|wanted| *wanted != nominated);
        if known.is_some_and(is_reported) && nomination.is_none() {
            return Ok(());
        }
        let note = Note::warning("FailedScheduling", message.as_str()).action("Scheduling");
        self.recorder.record_about(reference(&report.key, &report.uid), note);
        let since = known.filter(|known| known.status == "False").and_then(|known| known.last_transition_time.as_ref());
        let mut status = json!({"conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": format_time(since.map_or_else(|| self.clock.now(), |since| since.0)),
            "observedGeneration": pod.metadata.generation,
        }]});
        match nomination {
            Some("") => status["nominatedNodeName"] = serde_json::Value::Null,
            Some(node) => status["nominatedNodeName"] = json!(node),
            None => {}
        }
        self.patch_status(&report.key, &report.uid, status).await
    }

    /// Removes the nomination of a pod.
    pub(super) async fn clear_nomination(&self, key: &ObjectKey) -> Result<(), Error> {
        let Some(pod) = self.pods.get(&ObjectRef::from(key.clone())) else { return Ok(()) };
        let uid = pod.meta().uid().to_string();
        self.patch_status(key, &uid, json!({"nominatedNodeName": null})).await
    }

    /// Deletes a pod to make room for another one, and states that in its condition.
    pub(super) async fn preempt(
        &self,
        key: &ObjectKey,
        uid: &Arc<str>,
        for_uid: &str,
        node: &str,
    ) -> Result<(), Error> {
        let Some(victim) = self.pod(key, uid).filter(|victim| !victim.is_deleting()) else { return Ok(()) };
        let status = json!({"conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
            "lastTransitionTime": format_time(self.clock.now()),
            "observedGeneration": victim.metadata.generation,
        }]});
        self.patch_status(key, uid, status).await?;
        let deleted = self.client.delete::<Pod>(ObjectRef::from(key.clone())).uid(uid.to_string()).await;
        ignore_gone(deleted.map(drop))?;
        let message = format!("Preempted by pod {for_uid} on node {node}");
        self.recorder.record_about(reference(key, uid), Note::normal("Preempted", message).action("Preempting"));
        Ok(())
    }

    /// Returns the cached pod, unless it was recreated.
    fn pod(&self, key: &ObjectKey, uid: &str) -> Option<Arc<Pod>> {
        let pod = self.pods.get(&ObjectRef::from(key.clone()));
        let pod = pod.filter(|pod| *pod.meta().uid() == *uid)?;
        Cached::get_once(&pod).ok()
    }

    async fn patch_status(&self, key: &ObjectKey, uid: &str, status: serde_json::Value) -> Result<(), Error> {
        let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": status}));
        let patched = self.client.patch::<Pod>(ObjectRef::from(key.clone()), patch).subresource("status").await;
        ignore_gone(patched.map(drop))
    }
}

/// Ignores that the pod is gone or was recreated.
fn ignore_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other,
    }
}

fn reference(key: &ObjectKey, uid: &Arc<str>) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(key.name.to_string()),
        namespace: key.namespace.as_deref().map(str::to_owned),
        uid: Some(uid.to_string()),
        ..ObjectReference::default()
    }
}
