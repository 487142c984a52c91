//! An app with a desired number of Secrets, named `web-0`, `web-1` and so on, which records their number. The first one
//! is replaced if it is broken.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use windlass_api::{
    ObjectBuilder as _, ObjectExt as _, Patch,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_envtest::explore::{Scenario, State, explore};
use windlass_runtime::{Action, Context, Controller, Result, Watch};

use crate::{app, is_found, wants};

/// The planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// The server generates the names, and the controller counts the cached Secrets, even if the cache lacks its own
    /// writes.
    CacheIsCounted,
    /// The same with a read that includes the controller's own writes. Wrong only if the result of a write is unknown.
    OwnWritesAreCounted,
    /// The generated name is recorded after the creation.
    NameLater,
    /// A separate task creates the Secret, and continues after another instance has become the leader.
    GoesOn,
    /// A broken Secret is deleted by its name, without its UID.
    ByName,
    /// A broken Secret is deleted and created again, and the steps that follow are kept in memory only.
    RestByHeart,
}

async fn say(app: &ConfigMap, cx: &Context, what: &str) -> Result<()> {
    if app.annotations().get("said").map(String::as_str) != Some(what) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"said": what}}}));
        cx.live().patch::<ConfigMap>(app.object_ref(), patch).await?;
    }
    Ok(())
}

fn child(app: &ConfigMap, name: &str) -> Secret {
    Secret::named(name).in_namespace("default").controlled_by(app)
}

fn generated(app: &ConfigMap) -> Secret {
    Secret::with_generated_name("web-").in_namespace("default").controlled_by(app)
}

async fn reconcile(app: Arc<ConfigMap>, cx: Context, bug: Bug) -> Result<Action> {
    let client = cx.live();
    let wanted: usize = wants(&app).parse().unwrap_or_default();
    let known = match bug {
        Bug::OwnWritesAreCounted => cx.client().list::<Secret>().owned_by(&*app).await?,
        _ => cx.client().list::<Secret>().stale().await?,
    };
    match bug {
        Bug::NameLater => {
            if app.annotations().contains_key("name") {
                return Ok(Action::await_change());
            }
            let name = client.create(&generated(&app)).await?.name().to_owned();
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"name": name}}}));
            client.patch::<ConfigMap>(app.object_ref(), patch).await?;
            return Ok(Action::await_change());
        }
        Bug::GoesOn => {
            if !app.annotations().contains_key("said") {
                say(&app, &cx, "it has begun").await?;
                let (client, app) = (client.clone(), Arc::clone(&app));
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(Duration::from_secs(2)).await;
                        if client.create(&generated(&app)).await.is_ok() {
                            return;
                        }
                    }
                });
            } else if known.is_empty() {
                // The task that was to create it may be gone.
                tokio::time::sleep(Duration::from_secs(20)).await;
                if client.list::<Secret>().await?.items.is_empty() {
                    client.create(&generated(&app)).await?;
                }
            }
            return Ok(Action::await_change());
        }
        Bug::CacheIsCounted | Bug::OwnWritesAreCounted => {
            for _ in known.len()..wanted {
                client.create(&generated(&app)).await?;
            }
            for surplus in known.iter().skip(wanted) {
                client.delete::<Secret>(surplus.object_ref()).await?;
            }
        }
        Bug::None | Bug::ByName | Bug::RestByHeart => {
            for number in 0..wanted {
                let name = format!("web-{number}");
                let found = known.iter().find(|secret| secret.name() == name);
                let is_broken = found.is_some_and(|found| found.annotations().contains_key("broken"));
                if let Some(broken) = found.filter(|_| is_broken) {
                    let deletion = client.delete::<Secret>(broken.object_ref());
                    let deletion = match bug {
                        Bug::ByName => deletion,
                        _ => deletion.uid(broken.uid().unwrap_or_default()),
                    };
                    match deletion.await {
                        // It was already replaced.
                        Err(error) if error.is_not_found() || error.is_conflict() => continue,
                        other => drop(other?),
                    }
                    say(&app, &cx, "one is replaced").await?;
                }
                if (found.is_none() && bug != Bug::RestByHeart) || is_broken || !app.annotations().contains_key("said")
                {
                    match client.create(&child(&app, &name)).await {
                        Err(error) if error.is_already_exists() => {}
                        other => drop(other?),
                    }
                }
            }
        }
    }
    say(&app, &cx, &format!("there are {wanted}")).await?;
    Ok(Action::await_change())
}

fn scenario(bug: Bug) -> Scenario {
    let exactly = |count: usize| move |state: &State| state.all::<Secret>().len() == count;
    let scenario = Scenario::new(format!("replicas, {bug:?}"))
        .controller(move |manager| {
            let reconcile = move |app, cx| reconcile(app, cx, bug);
            manager
                .add(Controller::<ConfigMap>::watching(Watch::within("default")).owns::<Secret>().reconcile(reconcile));
        })
        .step("an app", |client| async move {
            client.create(&app("2")).await?;
            Ok(())
        });
    if matches!(bug, Bug::NameLater | Bug::GoesOn) {
        return scenario.settled("there is one", exactly(1));
    }
    if matches!(bug, Bug::CacheIsCounted | Bug::OwnWritesAreCounted) {
        return scenario.settled("there are two", exactly(2));
    }
    scenario
        .step("the first is broken", |client| async move {
            let broken = Patch::Merge(json!({"metadata": {"annotations": {"broken": "yes"}}}));
            client.patch::<Secret>("web-0", broken).await?;
            Ok(())
        })
        .settled("there are two", exactly(2))
}

#[test]
fn deterministic_names_with_preconditions_survive() {
    explore(scenario(Bug::None)).assert();
}

#[test]
fn generated_names_create_a_second_object() {
    is_found(scenario(Bug::CacheIsCounted), "freeze");
    is_found(scenario(Bug::NameLater), "crash");
}

#[test]
fn counting_by_own_writes_survives_a_lagging_cache() {
    let report = explore(scenario(Bug::OwnWritesAreCounted));
    assert!(report.reference.is_empty(), "it fails without faults: {report}");
    let plans: Vec<_> = report.failures.iter().map(|failure| failure.plan.to_string()).collect();
    let lagging = ["freeze@", "lag@", "skip@", "miss@", "cut@"];
    assert!(plans.iter().all(|plan| lagging.iter().all(|fault| !plan.starts_with(fault))), "{report}");
}

#[test]
fn leader_that_continues_after_loss_is_found() {
    is_found(scenario(Bug::GoesOn), "depose");
}

#[test]
fn deletions_without_a_precondition_hit_the_successor() {
    is_found(scenario(Bug::ByName), "freeze");
}

#[test]
fn memory_between_two_writes_is_lost() {
    is_found(scenario(Bug::RestByHeart), "crash");
}
