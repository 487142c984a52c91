//! Claims and volumes.

use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim},
        storage::v1::StorageClass,
    },
    serde_json::{Value, json},
};
use windlass_api::ObjectExt as _;
use windlass_client::Client;
use windlass_controllers::BuiltIn;
use windlass_envtest::explore::{State, explore};

use tokio::time::{Instant, sleep};

use crate::{LOOK, PATIENCE, create, of};
use windlass_envtest::explore::StepResult;

fn volume(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "persistentVolumeReclaimPolicy": policy,
        "hostPath": {"path": "/tmp/windlass"},
    }})
}

fn claim(name: &str) -> Value {
    let requests = json!({"requests": {"storage": "1Gi"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": ""});
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

async fn until_bound(client: &Client, name: &'static str) -> StepResult {
    let begun = Instant::now();
    loop {
        let claim = client.get::<PersistentVolumeClaim>(name).await?;
        if claim.status.and_then(|status| status.phase).as_deref() == Some("Bound") {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("claim {name} is not bound").into());
        }
        sleep(LOOK).await;
    }
}

fn phase(state: &State, name: &str) -> Option<String> {
    state.get::<PersistentVolume>(name)?.status?.phase
}

/// Two volumes are never bound to one claim, nor one volume to two.
fn is_consistent(state: &State) -> bool {
    let claims: Vec<PersistentVolumeClaim> = state.all();
    let named: Vec<_> = claims.iter().filter_map(|claim| claim.spec.as_ref()?.volume_name.as_deref()).collect();
    named.iter().enumerate().all(|(index, name)| !named[..index].contains(name))
}

#[test]
fn claims_are_bound_and_volumes_released() {
    let scenario = of(BuiltIn::PersistentVolume)
        .step("volumes and a claim", |client| async move {
            create::<PersistentVolume>(&client, volume("kept", "Retain")).await?;
            create::<PersistentVolumeClaim>(&client, claim("one")).await?;
            until_bound(&client, "one").await
        })
        .step("another claim, and its volume", |client| async move {
            create::<PersistentVolumeClaim>(&client, claim("two")).await?;
            create::<PersistentVolume>(&client, volume("deleted", "Delete")).await?;
            until_bound(&client, "two").await
        })
        .step("the claims go", |client| async move {
            for name in ["one", "two"] {
                let mut free = client.get::<PersistentVolumeClaim>(name).await?;
                free.metadata.finalizers = None;
                client.update(&free).await?;
                client.delete::<PersistentVolumeClaim>(name).await?;
            }
            Ok(())
        })
        .always("a volume has one claim", is_consistent)
        .settled("one volume is released, the other is being deleted", |state| {
            let deleted = state.get::<PersistentVolume>("deleted");
            phase(state, "kept").as_deref() == Some("Released") && deleted.is_none_or(|volume| volume.is_deleting())
        });
    explore(scenario).assert();
}

#[test]
fn claims_of_a_class_ask_its_provisioner() {
    let scenario = of(BuiltIn::PersistentVolume)
        .step("a claim, and its class", |client| async move {
            let mut classed = claim("data");
            classed["spec"]["storageClassName"] = json!("fast");
            create::<PersistentVolumeClaim>(&client, classed).await?;
            let class = json!({"metadata": {"name": "fast"}, "provisioner": "example.com/disks"});
            create::<StorageClass>(&client, class).await
        })
        .settled("the provisioner is asked", |state| {
            let claim = state.get::<PersistentVolumeClaim>("data");
            let asked = claim.and_then(|claim| {
                claim.annotations().get("volume.kubernetes.io/storage-provisioner").cloned()
            });
            asked.as_deref() == Some("example.com/disks")
        });
    explore(scenario).assert();
}
