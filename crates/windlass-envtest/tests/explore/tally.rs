//! A ConfigMap that records the number of Secrets.

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
use windlass_envtest::explore::{Scenario, explore};
use windlass_runtime::{Action, Context, Controller, Result};

use crate::is_found;

/// The planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The count is incremented, and then the Secret is marked.
    CountedThenMarked,
    /// The Secret is marked, and then the count is incremented.
    MarkedThenCounted,
    /// Reconciles are counted instead of Secrets.
    LooksCounted,
    /// The first step is recorded in memory only, and the second step depends on it.
    BegunIsRemembered,
    /// The count is decremented when a deletion is observed.
    DeparturesCounted,
}

#[derive(Debug, Default)]
struct Memory {
    looks: usize,
    begun: BTreeSet<String>,
    known: BTreeSet<String>,
}

async fn add(client: &Client, number: i64) -> Result<()> {
    let tally = client.get::<ConfigMap>("tally").await?;
    let count = tally.data.as_ref().and_then(|data| data.get("count")?.parse::<i64>().ok()).unwrap_or_default();
    write(client, &tally, count + number).await
}

async fn write(client: &Client, tally: &ConfigMap, count: i64) -> Result<()> {
    let mut tally = tally.clone();
    let data = Some([("count".to_owned(), count.to_string())].into());
    if tally.data != data {
        tally.data = data;
        client.update(&tally).await?;
    }
    Ok(())
}

async fn mark(client: &Client, name: &str, with: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {with: "yes"}}}));
    client.patch::<Secret>(name, patch).await?;
    Ok(())
}

async fn reconcile(key: ObjectRef<Secret>, cx: Context, bug: Bug, memory: Arc<Mutex<Memory>>) -> Result<Action> {
    let client = cx.live();
    let secret = cx.store::<Secret>().get(&key).map(|secret| secret.get().unwrap());
    let has = |what: &str| secret.as_ref().is_some_and(|secret| secret.annotations().contains_key(what));
    match bug {
        Bug::None => {
            let count = i64::try_from(cx.store::<Secret>().list().len()).unwrap_or_default();
            let tally = client.get::<ConfigMap>("tally").await?;
            write(client, &tally, count).await?;
        }
        Bug::CountedThenMarked if secret.is_some() && !has("counted") => {
            add(client, 1).await?;
            mark(client, key.name(), "counted").await?;
        }
        Bug::MarkedThenCounted if secret.is_some() && !has("counted") => {
            mark(client, key.name(), "counted").await?;
            add(client, 1).await?;
        }
        Bug::LooksCounted => {
            let looks = {
                let mut memory = memory.lock().unwrap();
                memory.looks += 1;
                i64::try_from(memory.looks).unwrap_or_default()
            };
            let tally = client.get::<ConfigMap>("tally").await?;
            write(client, &tally, looks).await?;
        }
        Bug::BegunIsRemembered if secret.is_some() => {
            if !has("begun") {
                memory.lock().unwrap().begun.insert(key.name().to_owned());
                mark(client, key.name(), "begun").await?;
            } else if memory.lock().unwrap().begun.remove(key.name()) {
                add(client, 1).await?;
            }
        }
        Bug::DeparturesCounted => {
            let name = key.name().to_owned();
            let change = {
                let known = &mut memory.lock().unwrap().known;
                if secret.is_some() { i64::from(known.insert(name)) } else { -i64::from(known.remove(&name)) }
            };
            if change != 0 && !has("old") {
                add(client, change).await?;
                if secret.is_some() {
                    mark(client, key.name(), "old").await?;
                }
            }
        }
        _ => {}
    }
    Ok(Action::await_change())
}

fn scenario(bug: Bug) -> Scenario {
    let scenario = Scenario::new(format!("tally, {bug:?}"))
        .prepare(|client| async move {
            client.create(&ConfigMap::named("tally").in_namespace("default")).await?;
            Ok(())
        })
        .controller(move |manager| {
            let memory = Arc::default();
            let reconcile = move |key, cx| reconcile(key, cx, bug, Arc::clone(&memory));
            manager.add(Controller::<Secret>::new().reconcile_keys(reconcile));
        })
        .step("a secret", |client| async move {
            client.create(&Secret::named("first").in_namespace("default")).await?;
            Ok(())
        })
        .step("another", |client| async move {
            client.create(&Secret::named("second").in_namespace("default")).await?;
            Ok(())
        });
    if !matches!(bug, Bug::None | Bug::DeparturesCounted) {
        return scenario;
    }
    scenario.step("the first is deleted", |client| async move {
        client.delete::<Secret>("first").await?;
        Ok(())
    })
}

#[test]
fn counting_the_current_state_survives() {
    explore(scenario(Bug::None)).assert();
}

#[test]
fn non_idempotent_reconcile_is_found() {
    is_found(scenario(Bug::CountedThenMarked), "crash");
    is_found(scenario(Bug::MarkedThenCounted), "crash");
}

#[test]
fn counting_events_instead_of_states_is_found() {
    is_found(scenario(Bug::LooksCounted), "refuse");
}

#[test]
fn state_kept_only_in_memory_is_lost() {
    is_found(scenario(Bug::BegunIsRemembered), "crash");
    is_found(scenario(Bug::DeparturesCounted), "refuse");
}
