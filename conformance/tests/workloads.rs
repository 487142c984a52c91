//! The results of windlass-controllers, compared with those of the real kube-controller-manager.
#![allow(clippy::unwrap_used, reason = "tests, and what only they call")]

#[path = "workloads/identities.rs"]
mod identities;

use std::time::Duration;

use conformance::{
    unique,
    workloads::{self, Scenario, WORKLOADS},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ServiceAccount;
use windlass_client::{
    Client, Config,
    config::{Kubeconfig, Selection},
};
use windlass_controllers::{Autoscaling, BuiltIn, Controllers};
use windlass_runtime::Manager;

use self::identities::Audited;

/// Plays the scenarios of a file concurrently, each in its own namespace.
async fn play(client: &Client, file: &str, scenarios: Vec<Scenario>) -> Vec<(String, String)> {
    workloads::define(client, &scenarios).await;
    let played = scenarios.into_iter().map(async |scenario| {
        let told = workloads::play(client, &unique(file), &scenario).await;
        (scenario.title, told.trim_end().to_owned())
    });
    join_all(played).await
}

/// Returns the controllers whose results are compared. The scenarios have nodes of their own.
fn controllers(is_chosen: impl Fn(BuiltIn) -> bool) -> Controllers {
    let chosen =
        BuiltIn::ALL.iter().copied().filter(|controller| *controller != BuiltIn::Nodes && is_chosen(*controller));
    // The real controller has no CA certificate either, and publishes that in every namespace.
    let controllers = Controllers::of(chosen).root_ca("");
    // The same as in `xtask upstream`: a scenario becomes idle within seconds.
    let autoscaling = Autoscaling::default().every(Duration::from_secs(1));
    controllers.autoscaling(autoscaling.downscale_stabilization(Duration::from_secs(5)))
}

async fn ours(file: &str) -> Vec<(String, String)> {
    let audited = Audited::start().await;
    // One Deployment scenario scales a ReplicaSet twice at once. The recorded events contain the intermediate step.
    // Whether the controller observes it depends on the load of its thread.
    let is_chosen = |controller| match controller {
        BuiltIn::PersistentVolume | BuiltIn::EphemeralVolume => file != "deployments",
        _ => true,
    };
    let env = &audited.env;
    env.run(audited.manager(controllers(is_chosen)));
    let played = play(&env.client(), file, workloads::scenarios(file)).await;
    let writers = identities::assert_least_privilege(&audited.requests().await);
    assert!(writers.contains("system:serviceaccount:kube-system:service-account-controller"), "{writers:?}");
    played
}

fn differences(ours: &[(String, String)], real: &[(String, String)]) -> Vec<String> {
    let mut told = Vec::new();
    for (title, ours) in ours {
        match real.iter().find(|(known, _)| known == title) {
            None => told.push(format!("{title}: nothing is recorded")),
            Some((_, real)) if real == ours => {}
            Some((_, real)) => {
                let here = |text: &str, other: &str| -> Vec<String> {
                    text.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect()
                };
                let (more, less) = (here(ours, real), here(real, ours));
                told.push(format!("{title}\n  ours: {}\n  real: {}", more.join("\n        "), less.join("\n        ")));
            }
        }
    }
    told
}

#[tokio::test(start_paused = true)]
async fn jobs_end_as_the_real_ones_do() {
    assert_recorded("jobs").await;
}

#[tokio::test(start_paused = true)]
async fn stateful_sets_end_as_the_real_ones_do() {
    assert_recorded("statefulsets").await;
}

#[tokio::test(start_paused = true)]
async fn daemon_sets_end_as_the_real_ones_do() {
    assert_recorded("daemonsets").await;
}

#[tokio::test(start_paused = true)]
async fn cron_jobs_end_as_the_real_ones_do() {
    assert_recorded("cronjobs").await;
}

#[tokio::test(start_paused = true)]
async fn replication_controllers_end_as_the_real_ones_do() {
    assert_recorded("replicationcontrollers").await;
}

#[tokio::test(start_paused = true)]
async fn disruption_budgets_end_as_the_real_ones_do() {
    assert_recorded("disruptionbudgets").await;
}

#[tokio::test(start_paused = true)]
async fn autoscalers_end_as_the_real_ones_do() {
    assert_recorded("autoscalers").await;
}

#[tokio::test(start_paused = true)]
async fn autoscalers_without_metrics_match_the_recording() {
    assert_recorded("unmeasured").await;
}

#[tokio::test(start_paused = true)]
async fn replica_sets_end_as_the_real_ones_do() {
    assert_recorded("replicasets").await;
}

#[tokio::test(start_paused = true)]
async fn deployments_end_as_the_real_ones_do() {
    assert_recorded("deployments").await;
}

#[tokio::test(start_paused = true)]
async fn garbage_is_collected_as_by_the_real_one() {
    assert_recorded("garbage").await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_end_as_the_real_ones_do() {
    assert_recorded("namespaces").await;
}

#[tokio::test(start_paused = true)]
async fn namespace_deletion_waits_for_failed_groups_as_recorded() {
    assert_recorded("unavailable").await;
}

#[tokio::test(start_paused = true)]
async fn service_accounts_match_the_recording() {
    assert_recorded("accounts").await;
}

#[tokio::test(start_paused = true)]
async fn finished_objects_are_deleted_as_recorded() {
    assert_recorded("finished").await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_match_the_recording() {
    assert_recorded("endpoints").await;
}

#[tokio::test(start_paused = true)]
async fn node_changes_match_the_recording() {
    assert_recorded("nodes").await;
}

#[tokio::test(start_paused = true)]
async fn claims_and_volumes_end_as_the_real_ones_do() {
    assert_recorded("volumes").await;
}

#[tokio::test(start_paused = true)]
async fn claims_without_a_class_get_the_default_as_from_the_real_one() {
    assert_recorded("defaultclasses").await;
}

#[tokio::test(start_paused = true)]
async fn usage_of_quotas_matches_the_recording() {
    assert_recorded("quotas").await;
}

async fn assert_recorded(file: &str) {
    let known = workloads::known_differences(file);
    let unsteady = workloads::unsteady(file);
    let without_events = |(title, body): (String, String)| {
        let is_kept = |line: &&str| !unsteady.contains(&title) || !line.contains(" x Event of ");
        let body = body.lines().filter(is_kept).collect::<Vec<_>>().join("\n");
        (title, body)
    };
    let ours: Vec<_> = ours(file).await.into_iter().map(without_events).collect();
    let real: Vec<_> = workloads::recorded(file).into_iter().map(without_events).collect();
    let (listed, rest): (Vec<_>, Vec<_>) = ours.into_iter().partition(|(title, _)| known.contains(title));
    let told = differences(&rest, &real);
    assert!(told.is_empty(), "{}", told.join("\n"));
    let different: Vec<_> =
        listed.iter().filter(|(title, body)| !real.contains(&(title.clone(), body.clone()))).collect();
    assert_eq!(different.len(), known.len(), "of {known:?} some are equal, or not there: see WORKLOADS.md");
}

/// Returns a client of the server that the environment names, and the files to play.
fn selected() -> Option<(Client, Vec<String>)> {
    let kubeconfig = Kubeconfig::read(std::env::var_os(WORKLOADS)?).unwrap();
    let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).unwrap();
    let only = std::env::var(workloads::ONLY).unwrap_or_default();
    let is_selected = |file: &String| only.is_empty() || *file == only;
    let files = workloads::workloads().into_iter().filter(is_selected).collect();
    Some((Client::new(config).unwrap().without_rate_limit(), files))
}

/// The number of times that a scenario is played. In real time, a controller can observe one step or two.
const CHANCES: usize = 3;

/// Plays a file, and plays its differing scenarios again. Returns the differences of the last attempt from the recording,
/// except for the scenarios in the list of known differences.
async fn differing(client: &Client, file: &str, known: &[String]) -> Vec<String> {
    let real = workloads::recorded(file);
    let mut scenarios = workloads::scenarios(file);
    scenarios.retain(|scenario| !known.contains(&scenario.title));
    let mut told = Vec::new();
    for _ in 0..CHANCES {
        let played = play(client, file, scenarios).await;
        told = differences(&played, &real);
        let differs = |title: &String| {
            played.iter().any(|(other, body)| other == title && !real.contains(&(other.clone(), body.clone())))
        };
        scenarios = workloads::scenarios(file);
        scenarios.retain(|scenario| differs(&scenario.title));
        if scenarios.is_empty() {
            break;
        }
    }
    told
}

/// With a real controller: its results are compared with the recording, or become the recording.
#[tokio::test]
async fn real_controllers_match_the_recording() {
    let Some((client, files)) = selected() else { return };
    let mut told = Vec::new();
    for file in files {
        if std::env::var_os(conformance::RECORD).is_some() {
            workloads::record(&file, &play(&client, &file, workloads::scenarios(&file)).await);
        } else {
            told.extend(differing(&client, &file, &[]).await);
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// With a real server without controllers: those of windlass-controllers are compared with the recording.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_controllers_match_the_recording_with_a_real_server() {
    let Some((client, files)) = selected() else { return };
    let mut manager = Manager::builder(client.clone()).build();
    controllers(|_| true).add_to(&mut manager);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let managing = tokio::spawn(manager.run(async { drop(stopped.await) }));
    // One of the first objects that the controllers create.
    let ready = async {
        while client.get::<ServiceAccount>("default").within("default").await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), ready).await.expect("the controllers start in time");
    let mut told = Vec::new();
    for file in files {
        told.extend(differing(&client, &file, &workloads::known_differences(&file)).await);
    }
    drop(stop);
    managing.await.unwrap().unwrap();
    assert!(told.is_empty(), "{}", told.join("\n"));
}
