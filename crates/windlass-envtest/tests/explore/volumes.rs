//! A claim that is deleted with the pod that it is for.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use windlass_api::{
    ObjectExt as _, ObjectRef, Patch,
    k8s_openapi::{
        api::core::v1::{PersistentVolumeClaim, Pod},
        serde_json::from_value,
    },
};
use windlass_client::Client;
use windlass_envtest::explore::{Scenario, State, StepResult, explore};
use windlass_runtime::{Action, Context, Controller, Result};

use crate::is_found;

/// The planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A pod missing in the cache counts as deleted.
    UnknownIsGone,
    /// The controller relies on seeing every pod while it is terminating.
    GoingIsSeen,
}

type Memory = Arc<Mutex<BTreeSet<String>>>;

async fn reconcile(claim: ObjectRef<PersistentVolumeClaim>, cx: Context, bug: Bug, memory: Memory) -> Result<Action> {
    let client = cx.live();
    let name = claim.name().to_owned();
    let Some(claim) = cx.store::<PersistentVolumeClaim>().get(&claim) else { return Ok(Action::await_change()) };
    let pod = ObjectRef::<Pod>::new(&*name).within("default");
    let is_gone = match (cx.store::<Pod>().get(&pod), bug) {
        (Some(pod), _) => {
            if pod.meta().is_deleting() {
                memory.lock().unwrap().insert(name.clone());
            }
            false
        }
        (None, Bug::None) => client.get_opt::<Pod>(&*name).await?.is_none(),
        (None, Bug::UnknownIsGone) => true,
        (None, Bug::GoingIsSeen) => memory.lock().unwrap().contains(&name),
    };
    if is_gone {
        let uid = claim.meta().uid().to_string();
        match client.delete::<PersistentVolumeClaim>(&*name).uid(uid).await {
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            other => drop(other?),
        }
    }
    Ok(Action::await_change())
}

/// Creates a pod with a finalizer, and its claim.
async fn pod_and_claim(client: Client, name: &str) -> StepResult {
    let pod: Pod = from_value(json!({
        "metadata": {"name": name, "namespace": "default", "finalizers": ["example.com/slow"]},
        "spec": {"containers": [{"name": "db", "image": "db"}]},
    }))?;
    let claim: PersistentVolumeClaim = from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))?;
    client.create(&pod).await?;
    client.create(&claim).await?;
    Ok(())
}

/// Returns the claims that are not being deleted. Terminating ones wait for their volumes, which another controller
/// deletes.
fn claims(state: &State) -> Vec<PersistentVolumeClaim> {
    let mut claims = state.all::<PersistentVolumeClaim>();
    claims.retain(|claim| !claim.is_deleting());
    claims
}

fn scenario(bug: Bug) -> Scenario {
    Scenario::new(format!("volumes, {bug:?}"))
        .controller(move |manager| {
            let memory = Memory::default();
            let reconcile = move |key, cx| reconcile(key, cx, bug, Arc::clone(&memory));
            let claim_of = |pod: &Pod| [ObjectRef::<PersistentVolumeClaim>::new(pod.name()).within("default")];
            let controller = Controller::<PersistentVolumeClaim>::new().watches::<Pod, _>(claim_of);
            manager.add(controller.reconcile_keys(reconcile));
        })
        .step("a database", |client| pod_and_claim(client, "db-0"))
        .step("another", |client| pod_and_claim(client, "db-1"))
        .step("the other is gone", |client| async move {
            client.delete::<Pod>("db-1").await?;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let slow = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            client.patch::<Pod>("db-1", slow).await?;
            Ok(())
        })
        .always("a pod that is there has its claim, once it had one", |state| {
            let claims = claims(state);
            let has = |pod: &Pod| claims.iter().any(|claim| claim.name() == pod.name());
            state.get::<PersistentVolumeClaim>("db-1").is_none() || state.all::<Pod>().iter().all(has)
        })
        .settled("one claim is left", |state| claims(state).len() == 1)
}

#[test]
fn reading_the_server_before_delete_survives() {
    explore(scenario(Bug::None)).assert();
}

#[test]
fn deletions_based_on_a_cache_miss_are_found() {
    is_found(scenario(Bug::UnknownIsGone), "freeze");
}

#[test]
fn dependence_on_a_transient_state_is_found() {
    is_found(scenario(Bug::GoingIsSeen), "skip");
}
