//! The storage of simulated nodes: a StorageClass, and a provisioner that creates, expands and deletes volumes.
//!
//! It serves the classes whose provisioner is [`DRIVER`], like the provisioner and the resizer of a CSI driver, which
//! also run on nodes. Its volumes hold no data, and every node reaches them.
//!
//! The class `standard` is created once at startup, unless the cluster has a default class.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        core::v1::{
            CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim,
            PersistentVolumeClaimCondition, PersistentVolumeSpec,
        },
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use tokio::time::sleep;
use windlass_api::{ObjectExt, ObjectRef};
use windlass_client::{Client, Error};
use windlass_runtime::{
    Action, Context, Controller, Group, Manager, Result, RunnableContext, Task, Watch,
    events::{Note, Recorder, reference},
};

use crate::{
    error::{ReconcileError, await_newer_state},
    volumes::{
        DEFAULT_CLASS, PROVISIONED_BY, PROVISIONER, claims, holder_of, is_bound, is_default,
        matching::{capacity, class_of_claim, provisioned_name, requested, size},
        pending, volume_of,
    },
};

/// The provisioner of the served classes.
pub(crate) const DRIVER: &str = "windlass.dev/simulated";
/// The condition of a claim whose volume is being expanded.
const RESIZING: &str = "Resizing";

type Outcome<T> = std::result::Result<T, ReconcileError>;

/// The name of the default class.
const STANDARD: &str = "standard";
/// The wait after the class could not be created.
const RETRY: Duration = Duration::from_secs(1);

/// The storage mode of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// A controller binds claims, and pods wait for it.
    Simulated,
    /// No controller binds claims, and pods do not wait for that.
    None,
}

/// Adds the two controllers to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let recorder = manager.cluster().recorder(DRIVER);
    let known = manager.cluster().informer(&claims()).store();
    manager.add(
        Controller::watching(claims())
            .named("simulated-provisioner")
            .watches(|volume: &PersistentVolume| holder_of(volume))
            .watches_with(Watch::<StorageClass>::all(), move |class| pending(&known, class))
            .reconcile(move |claim: Arc<PersistentVolumeClaim>, cx: Context| {
                let recorder = recorder.clone();
                async move {
                    let outcome = if volume_of(&claim).is_none() {
                        provision(&claim, &cx, &recorder).await
                    } else {
                        expand(&claim, &cx, &recorder).await
                    };
                    await_newer_state(outcome.map(|()| Action::await_change()))
                }
            }),
    );
    manager.add(
        Controller::<PersistentVolume>::new().named("simulated-deleter").reconcile(
            async |volume: Arc<PersistentVolume>, cx: Context| await_newer_state(delete(&volume, &cx).await),
        ),
    );
}

/// Adds the task that creates the default class to a manager.
pub(crate) fn add_class_to(manager: &mut Manager) {
    manager.add(Task::new("default-storage-class", bring_class).in_group(Group::Controllers));
}

/// Creates the default class. Retries until the class exists or the manager stops.
async fn bring_class(running: RunnableContext) -> Result<()> {
    tokio::select! {
        biased;
        () = running.stop().requested() => {}
        () = async {
            while let Err(error) = create_class(running.cluster().client()).await {
                tracing::warn!(class = STANDARD, error = error.chain(), "cannot create the default class; trying again");
                sleep(RETRY).await;
            }
        } => {}
    }
    Ok(())
}

async fn create_class(client: &Client) -> Result<(), Error> {
    let classes = client.list::<StorageClass>().await?;
    if classes.items.iter().any(is_default) {
        return Ok(());
    }
    match client.create(&standard()).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

fn standard() -> StorageClass {
    let mut class = StorageClass {
        provisioner: DRIVER.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        // Claims are bound immediately, even if no pod uses them yet.
        volume_binding_mode: Some("Immediate".to_owned()),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    };
    class.metadata.name = Some(STANDARD.to_owned());
    class.annotations_mut().insert(DEFAULT_CLASS.to_owned(), "true".to_owned());
    class
}

/// Creates the volume that a claim requests.
async fn provision(claim: &PersistentVolumeClaim, cx: &Context, recorder: &Recorder) -> Outcome<()> {
    if claim.is_deleting() || claim.annotations().get(PROVISIONER).is_none_or(|asked| asked != DRIVER) {
        return Ok(());
    }
    let Some(class) = cx.store::<StorageClass>().get(&ObjectRef::new(class_of_claim(claim))) else { return Ok(()) };
    let made = volume_for(claim, &*class.get()?);
    if cx.store::<PersistentVolume>().get(&made.object_ref()).is_some() {
        return Ok(());
    }
    match cx.client().create(&made).await {
        Ok(_) => {
            let message = format!("Successfully provisioned volume {}", made.name());
            recorder.record(claim, Note::normal("ProvisioningSucceeded", message));
            Ok(())
        }
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn volume_for(claim: &PersistentVolumeClaim, class: &StorageClass) -> PersistentVolume {
    let wanted = claim.spec.clone().unwrap_or_default();
    let name = provisioned_name(claim.uid().unwrap_or_default());
    let holder = ObjectReference { resource_version: claim.metadata.resource_version.clone(), ..reference(claim) };
    let spec = PersistentVolumeSpec {
        access_modes: wanted.access_modes,
        capacity: wanted.resources.and_then(|resources| resources.requests),
        claim_ref: Some(holder),
        csi: Some(CSIPersistentVolumeSource {
            driver: DRIVER.replace('/', "."),
            volume_handle: name.clone(),
            ..CSIPersistentVolumeSource::default()
        }),
        mount_options: class.mount_options.clone(),
        persistent_volume_reclaim_policy: class.reclaim_policy.clone().or_else(|| Some("Delete".to_owned())),
        storage_class_name: Some(class.name().to_owned()),
        volume_attributes_class_name: wanted.volume_attributes_class_name,
        volume_mode: wanted.volume_mode,
        ..PersistentVolumeSpec::default()
    };
    let mut volume = PersistentVolume { spec: Some(spec), ..PersistentVolume::default() };
    volume.metadata.name = Some(name);
    volume.annotations_mut().insert(PROVISIONED_BY.to_owned(), DRIVER.to_owned());
    volume
}

fn is_ours(volume: &PersistentVolume) -> bool {
    volume.annotations().get(PROVISIONED_BY).is_some_and(|provisioner| provisioner == DRIVER)
}

/// Expands the volume of a claim that requests more than it has.
async fn expand(claim: &PersistentVolumeClaim, cx: &Context, recorder: &Recorder) -> Outcome<()> {
    let status = claim.status.clone().unwrap_or_default();
    let wanted = requested(claim);
    if !is_bound(claim) || status.phase.as_deref() != Some("Bound") || size(status.capacity.as_ref()) >= wanted {
        return Ok(());
    }
    let key = ObjectRef::<PersistentVolume>::new(volume_of(claim).unwrap_or_default());
    let volume = cx.store::<PersistentVolume>().get(&key).map(|volume| volume.get()).transpose()?;
    let Some(volume) = volume.filter(|volume| is_ours(volume) && !volume.is_deleting()) else { return Ok(()) };
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
    let is_resizing = |condition: &PersistentVolumeClaimCondition| condition.type_ == RESIZING;
    let mut changed = claim.clone();
    if capacity(&volume) < wanted {
        if !status.conditions.iter().flatten().any(is_resizing) {
            let condition = PersistentVolumeClaimCondition {
                type_: RESIZING.to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(Time(cx.clock().now())),
                ..PersistentVolumeClaimCondition::default()
            };
            changed.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
            cx.client().update_status(&changed).await?;
            let message = format!("External resizer is resizing volume {}", volume.name());
            recorder.record(claim, Note::normal("Resizing", message));
        }
        let mut larger = (*volume).clone();
        larger.spec.get_or_insert_default().capacity = requests;
        // The event of this write triggers the claim's next reconcile.
        cx.client().update(&larger).await?;
        return Ok(());
    }
    let status = changed.status.get_or_insert_default();
    status.capacity = requests;
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| !is_resizing(condition));
    }
    status.conditions = status.conditions.take().filter(|conditions| !conditions.is_empty());
    cx.client().update_status(&changed).await?;
    recorder.record(claim, Note::normal("VolumeResizeSuccessful", "Resize volume succeeded"));
    Ok(())
}

/// Deletes a released volume with the reclaim policy Delete.
async fn delete(volume: &PersistentVolume, cx: &Context) -> Outcome<Action> {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if is_ours(volume) && phase == Some("Released") && policy == Some("Delete") && !volume.is_deleting() {
        let uid = volume.uid().unwrap_or_default();
        cx.client().delete::<PersistentVolume>(volume.object_ref()).uid(uid).await?;
    }
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn provisioned_volume_follows_claim_and_class() {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "n", "uid": "u-1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "volumeMode": "Block"},
        }))
        .unwrap();
        let class = json!({"metadata": {"name": "fast"}, "provisioner": DRIVER, "reclaimPolicy": "Retain"});
        let volume = volume_for(&claim, &serde_json::from_value(class).unwrap());
        let spec = serde_json::to_value(volume.spec.as_ref().unwrap()).unwrap();
        assert_eq!((volume.name(), is_ours(&volume)), ("pvc-u-1", true));
        assert_eq!(spec["capacity"], json!({"storage": "5Gi"}));
        assert_eq!(spec["claimRef"]["uid"], "u-1");
        assert_eq!((&spec["storageClassName"], &spec["volumeMode"]), (&json!("fast"), &json!("Block")));
        assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain");
    }
}
