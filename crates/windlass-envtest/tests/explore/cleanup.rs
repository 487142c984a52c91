//! An app with two Secrets that it does not own, and a finalizer for as long as they exist.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use serde_json::json;
use windlass_api::{
    ObjectBuilder as _, ObjectExt as _, ObjectRef, Patch,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_client::Client;
use windlass_envtest::explore::{Scenario, State, explore};
use windlass_runtime::{Action, Context, Controller, Result};

use crate::{app, is_found};

const FINALIZER: &str = "example.com/secrets";
const NAMES: [&str; 2] = ["web-key", "web-token"];

/// The planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// If no Secret is left, the reconcile returns early and never removes the finalizer.
    NothingToDo,
    /// The finalizer is removed before the Secrets.
    FinalizerFirst,
    /// Only cached Secrets are deleted.
    KnownOnly,
    /// The app has no finalizer; the controller relies on the deletion event.
    DeletionSeen,
    /// The existence of the app is taken from the cache.
    BelievedThere,
}

type Memory = Arc<Mutex<BTreeSet<String>>>;

async fn finalizers(client: &Client, app: &ConfigMap, finalizers: &[&str]) -> Result<()> {
    let version = &app.metadata.resource_version;
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
    client.patch::<ConfigMap>(app.object_ref(), Patch::Merge(patch)).await?;
    Ok(())
}

async fn reconcile(key: ObjectRef<ConfigMap>, cx: Context, bug: Bug, memory: Memory) -> Result<Action> {
    let client = cx.live();
    let Some(app) = cx.store::<ConfigMap>().get(&key) else {
        if bug == Bug::DeletionSeen && memory.lock().unwrap().remove(key.name()) {
            for name in NAMES {
                client.delete::<Secret>(name).await?;
            }
        }
        return Ok(Action::await_change());
    };
    let app = app.get().unwrap();
    if app.is_deleting() {
        let remove = || finalizers(client, &app, &[]);
        if bug == Bug::FinalizerFirst {
            remove().await?;
        }
        let known = cx.store::<Secret>().list();
        let known: Vec<_> = known.iter().map(|secret| secret.meta().name().to_owned()).collect();
        if bug == Bug::NothingToDo && client.list::<Secret>().await?.items.is_empty() {
            return Ok(Action::await_change());
        }
        for name in NAMES {
            if bug == Bug::KnownOnly && !known.iter().any(|known| **known == *name) {
                continue;
            }
            match client.delete::<Secret>(name).await {
                Err(error) if error.is_not_found() => {}
                other => drop(other?),
            }
        }
        if bug != Bug::FinalizerFirst {
            remove().await?;
        }
        return Ok(Action::await_change());
    }
    if bug == Bug::DeletionSeen {
        memory.lock().unwrap().insert(app.name().to_owned());
    } else if app.metadata.finalizers.is_none() {
        finalizers(client, &app, &[FINALIZER]).await?;
    }
    // A stale API server may still show an app that was deleted long ago.
    let there = client.get_opt::<ConfigMap>("web").await?;
    if bug != Bug::BelievedThere && there.is_none_or(|there| there.uid() != app.uid() || there.is_deleting()) {
        return Ok(Action::await_change());
    }
    for name in NAMES {
        client.apply(&Secret::named(name).in_namespace("default")).await?;
    }
    Ok(Action::await_change())
}

fn scenario(bug: Bug) -> Scenario {
    Scenario::new(format!("cleanup, {bug:?}"))
        .controller(move |manager| {
            let memory = Memory::default();
            let reconcile = move |key, cx| reconcile(key, cx, bug, Arc::clone(&memory));
            let all = |_: &windlass_cache::Cached<Secret>| Vec::<ObjectRef<ConfigMap>>::new();
            let controller = Controller::<ConfigMap>::new().watches_with(windlass_runtime::Watch::<Secret>::all(), all);
            manager.add(controller.reconcile_keys(reconcile));
        })
        .step("an app", |client| async move {
            client.create(&app("secrets")).await?;
            Ok(())
        })
        .step("it is deleted", |client| async move {
            client.delete::<ConfigMap>("web").await?;
            Ok(())
        })
        .settled("nothing is left of it", |state| {
            state.all::<Secret>().is_empty() && state.get::<ConfigMap>("web").is_none()
        })
}

#[test]
fn finalizer_cleans_up_under_faults() {
    let alone = |state: &State| state.all::<Secret>().is_empty() || state.get::<ConfigMap>("web").is_some();
    explore(scenario(Bug::None).always("there are no secrets without the app", alone)).assert();
}

#[test]
fn wrong_finalizer_order_is_found() {
    is_found(scenario(Bug::NothingToDo), "crash");
    is_found(scenario(Bug::FinalizerFirst), "crash");
}

#[test]
fn cleanup_based_on_memory_is_found() {
    is_found(scenario(Bug::KnownOnly), "lag");
    is_found(scenario(Bug::DeletionSeen), "crash");
    is_found(scenario(Bug::BelievedThere), "rewind");
}
