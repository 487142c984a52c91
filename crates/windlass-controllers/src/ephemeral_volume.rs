//! EphemeralVolume: creates the claims of pods with generic ephemeral volumes.
//!
//! Guaranteed: a pod gets only claims that it owns; the garbage collector deletes them with it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{EphemeralVolumeSource, PersistentVolumeClaim, Pod};
use windlass_api::ObjectExt;
use windlass_cache::Cached;
use windlass_runtime::{
    Action, Context, Controller, Manager, Watch,
    events::{Note, Recorder},
};

use crate::{
    consumers::{consumers, consumers_of, ephemeral_claim},
    error::ReconcileError,
};

/// The component name in events.
const COMPONENT: &str = "ephemeral_volume";

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let recorder = manager.cluster().recorder(COMPONENT);
    let pods = manager.cluster().informer(&consumers()).store();
    manager.add(
        Controller::watching(consumers())
            .named("ephemeral-volume")
            .watches_with(Watch::<PersistentVolumeClaim>::all(), move |claim| {
                // The store belongs to a watch with this index.
                let pods = consumers_of(&pods, &claim.object_ref()).unwrap_or_default();
                pods.iter().map(Cached::object_ref).collect::<Vec<_>>()
            })
            .reconcile(move |pod: Arc<Pod>, cx: Context| {
                let recorder = recorder.clone();
                async move { reconcile(&pod, &cx, &recorder).await }
            }),
    );
}

async fn reconcile(pod: &Pod, cx: &Context, recorder: &Recorder) -> Result<Action, ReconcileError> {
    if pod.is_deleting() {
        return Ok(Action::await_change());
    }
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let Some(source) = &volume.ephemeral else { continue };
        let wanted = claim(pod, &volume.name, source);
        let known =
            cx.store::<PersistentVolumeClaim>().get(&wanted.object_ref()).map(|known| known.get()).transpose()?;
        let problem = match known {
            Some(known) => conflict(pod, &known),
            None => match cx.client().create(&wanted).await {
                Ok(_) => None,
                // The cache does not show the claim yet. Its event triggers another reconcile, which checks the owner.
                Err(error) if error.is_already_exists() => None,
                Err(error) => {
                    let why = format!("ephemeral volume {}: create PVC {}: {error}", volume.name, wanted.name());
                    recorder.record(pod, Note::warning("FailedBinding", why));
                    return Err(error.into());
                }
            },
        };
        if let Some(why) = problem {
            recorder.record(pod, Note::warning("FailedBinding", format!("ephemeral volume {}: {why}", volume.name)));
        }
    }
    Ok(Action::await_change())
}

/// Returns the reason why a pod cannot use a claim, if any.
fn conflict(pod: &Pod, claim: &PersistentVolumeClaim) -> Option<String> {
    if claim.is_controlled_by(pod) {
        return None;
    }
    let (claim, pod) = (claim.object_ref(), pod.object_ref());
    Some(format!("PVC {claim} was not created for pod {pod} (pod is not owner)"))
}

/// Builds the claim of an ephemeral volume.
fn claim(pod: &Pod, volume: &str, source: &EphemeralVolumeSource) -> PersistentVolumeClaim {
    let template = source.volume_claim_template.clone().unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let mut claim = PersistentVolumeClaim { spec: Some(template.spec), ..PersistentVolumeClaim::default() };
    claim.metadata.name = Some(ephemeral_claim(pod.name(), volume));
    claim.metadata.labels = metadata.labels;
    claim.metadata.annotations = metadata.annotations;
    claim.controlled_by(pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claim_of_a_pod_has_the_pod_as_owner() {
        let template = json!({"metadata": {"labels": {"of": "scratch"}}, "spec": {"accessModes": ["ReadWriteOnce"]}});
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u-1"},
            "spec": {"containers": [], "volumes": [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]},
        }))
        .unwrap();
        let source = pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0].ephemeral.clone().unwrap();
        let mut made = claim(&pod, "tmp", &source);
        assert_eq!((made.name(), made.namespace(), made.labels()["of"].as_str()), ("web-tmp", Some("n"), "scratch"));
        assert_eq!(conflict(&pod, &made), None);
        made.metadata.owner_references = None;
        let why = "PVC n/web-tmp was not created for pod n/web (pod is not owner)";
        assert_eq!(conflict(&pod, &made).as_deref(), Some(why));
    }
}
