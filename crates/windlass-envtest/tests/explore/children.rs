//! An app with one Secret that holds its value. The app is marked as done once the Secret is written.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::json;
use windlass_api::{
    ObjectBuilder as _, ObjectExt as _, Patch,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_envtest::explore::{Scenario, explore};
use windlass_runtime::{Action, Context, Controller, Result, Watch};

use crate::{app, found, is_found, wants};

/// The planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// An existing Secret counts as complete, but it is created empty and filled afterwards.
    ExistsIsDone,
    /// The owner reference is written only once, after the creation.
    OwnerLater,
    /// The app is marked as done before the Secret is written.
    MarkedFirst,
    /// The write is recorded in memory before it is performed.
    RememberedFirst,
    /// Errors are ignored.
    ErrorsDropped,
    /// The conflict of an update is ignored.
    ConflictsDropped,
    /// The update has no resource version.
    Blind,
    /// Another task performs the write, and its result is ignored.
    Elsewhere,
}

type Memory = Arc<Mutex<BTreeMap<String, String>>>;

fn secret(app: &ConfigMap) -> Secret {
    let mut secret = Secret::named("web").in_namespace("default").controlled_by(app);
    secret.string_data = Some([("wants".to_owned(), wants(app)), ("for".to_owned(), "guests".to_owned())].into());
    secret
}

fn holds(secret: &Secret) -> String {
    let bytes = secret.data.as_ref().and_then(|data| data.get("wants"));
    bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()).unwrap_or_default()
}

async fn reconcile(app: Arc<ConfigMap>, cx: Context, bug: Bug, memory: Memory) -> Result<Action> {
    let client = cx.live();
    let is_marked = app.annotations().get("done") == Some(&wants(&app));
    let mark = json!({"metadata": {"annotations": {"done": wants(&app)}}});
    let mark = || client.patch::<ConfigMap>(app.object_ref(), Patch::Merge(mark.clone()));
    // The Secret is not cached, so it is read each time.
    let found = client.get_opt::<Secret>("web").await?;
    match bug {
        Bug::None => match found {
            None => drop(client.create(&secret(&app)).await?),
            Some(mut found) if holds(&found) != wants(&app) => {
                found.string_data = secret(&app).string_data;
                client.update(&found).await?;
            }
            Some(_) => {}
        },
        Bug::ExistsIsDone | Bug::OwnerLater => {
            if found.is_none() {
                let mut begun = secret(&app);
                if bug == Bug::ExistsIsDone {
                    begun.string_data = None;
                } else {
                    begun.metadata.owner_references = None;
                }
                client.create(&begun).await?;
                let rest = if bug == Bug::ExistsIsDone {
                    json!({"stringData": secret(&app).string_data})
                } else {
                    json!({"metadata": {"ownerReferences": secret(&app).metadata.owner_references}})
                };
                client.patch::<Secret>("web", Patch::Merge(rest)).await?;
            } else if !is_marked && app.annotations().contains_key("done") {
                let content = json!({"stringData": {"wants": wants(&app)}});
                client.patch::<Secret>("web", Patch::Merge(content)).await?;
            }
        }
        Bug::MarkedFirst => {
            if !is_marked {
                mark().await?;
                client.apply(&secret(&app)).await?;
            }
            return Ok(Action::await_change());
        }
        Bug::RememberedFirst => {
            let known = memory.lock().unwrap().insert("web".to_owned(), wants(&app));
            if known.as_deref() != Some(&*wants(&app)) {
                client.apply(&secret(&app)).await?;
            }
        }
        Bug::ErrorsDropped => {
            if !is_marked {
                drop(client.apply(&secret(&app)).await);
            }
        }
        Bug::ConflictsDropped | Bug::Blind => match found {
            None => drop(client.create(&secret(&app)).await?),
            // The mark means that the Secret was written.
            Some(mut found) if !is_marked && holds(&found) != wants(&app) => {
                found.string_data = secret(&app).string_data;
                if bug == Bug::Blind {
                    found.metadata.resource_version = None;
                }
                match client.update(&found).await {
                    Err(error) if error.is_conflict() && bug == Bug::ConflictsDropped => {}
                    other => drop(other?),
                }
            }
            Some(_) => {}
        },
        Bug::Elsewhere => {
            if !is_marked {
                let (client, secret) = (client.clone(), secret(&app));
                tokio::spawn(async move { client.apply(&secret).await });
            }
        }
    }
    if !is_marked {
        mark().await?;
    }
    Ok(Action::await_change())
}

fn scenario(bug: Bug) -> Scenario {
    Scenario::new(format!("children, {bug:?}"))
        .controller(move |manager| {
            let memory = Memory::default();
            let reconcile = move |app, cx| reconcile(app, cx, bug, Arc::clone(&memory));
            manager.add(Controller::<ConfigMap>::watching(Watch::within("default")).reconcile(reconcile));
        })
        .step("an app", |client| async move {
            client.create(&app("tea")).await?;
            Ok(())
        })
        .step("it wants something else", |client| async move {
            let patch = Patch::Merge(json!({"data": {"wants": "coffee"}}));
            client.patch::<ConfigMap>("web", patch).await?;
            Ok(())
        })
        .settled("it has what it wants", |state| {
            state.get::<Secret>("web").is_some_and(|secret| holds(&secret) == "coffee")
        })
}

#[test]
fn reading_state_in_each_reconcile_survives() {
    explore(scenario(Bug::None)).assert();
}

#[test]
fn incomplete_children_are_found() {
    is_found(scenario(Bug::ExistsIsDone), "crash");
    is_found(scenario(Bug::OwnerLater), "crash");
}

#[test]
fn status_written_before_the_work_is_found() {
    is_found(scenario(Bug::MarkedFirst), "crash");
    is_found(scenario(Bug::RememberedFirst), "refuse");
}

#[test]
fn swallowed_errors_are_found() {
    is_found(scenario(Bug::ErrorsDropped), "refuse");
    is_found(scenario(Bug::ConflictsDropped), "conflict");
    is_found(scenario(Bug::Elsewhere), "refuse");
}

#[test]
fn updates_without_a_version_undo_other_writes() {
    let report = found(scenario(Bug::Blind), "conflict");
    assert!(report.to_string().contains("has overwritten another client's preceding write"), "{report}");
}
