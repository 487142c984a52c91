//! Fault explorations of the built-in controllers: crashes after each write, lost responses, late leaders, stale
//! caches.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod deployments;
mod gathering;
mod lifecycle;
mod quotas;
mod refused;
mod running;
mod scaling;
mod stale;
mod stateful;
mod volumes;
mod workloads;

use std::{env, time::Duration};

use k8s_openapi::{
    api::core::v1::Pod,
    serde_json::{Value, from_value, json},
};
use tokio::time::{Instant, sleep};
use windlass_api::{ObjectExt as _, Patch, Resource};
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::explore::{Scenario, StepResult};

/// The time that a step waits for pods.
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK: Duration = Duration::from_secs(1);

/// The variable that selects all runs of each scenario; `cargo xtask long explorations` sets it.
const COMPLETE: &str = "WINDLASS_EXPLORE_COMPLETELY";

/// The number of runs of a scenario otherwise. The seed selects the same ones each time.
const RUNS: usize = 40;

/// A scenario of one controller.
fn of(controller: BuiltIn) -> Scenario {
    let scenario =
        Scenario::new(controller.name()).controller(move |manager| Controllers::of([controller]).add_to(manager));
    if env::var_os(COMPLETE).is_some() { scenario } else { scenario.max_runs(RUNS) }
}

async fn create<K: Resource>(client: &Client, object: Value) -> StepResult {
    client.create(&from_value::<K>(object)?).await?;
    Ok(())
}

/// Waits for `count` unfinished pods, and sets their phase, as their kubelets would.
async fn pods_become(client: &Client, count: usize, phase: &'static str) -> StepResult {
    let begun = Instant::now();
    loop {
        let mut pods = client.list::<Pod>().within("default").await?.items;
        pods.retain(|pod| {
            let before = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            !pod.is_deleting() && !matches!(before, Some("Succeeded" | "Failed")) && before != Some(phase)
        });
        if pods.len() < count {
            if begun.elapsed() > PATIENCE {
                return Err(format!("{count} pods do not come").into());
            }
            // The controller may be slow because of a stale cache.
            sleep(LOOK).await;
            continue;
        }
        for pod in pods {
            let ready = if phase == "Running" { "True" } else { "False" };
            let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
            let status = Patch::Merge(json!({"status": {"phase": phase, "conditions": conditions}}));
            client.patch::<Pod>(pod.object_ref(), status).subresource("status").await?;
        }
        return Ok(());
    }
}
