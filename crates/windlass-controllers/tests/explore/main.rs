//! What the controllers survive: crashes after each write, lost answers, late leaders, caches that are behind.
//!
//! Not explored yet: jobs, and their deletion after a while.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod gathering;
mod lifecycle;
mod workloads;

use k8s_openapi::serde_json::{Value, from_value};
use windlass_api::Resource;
use windlass_client::Client;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_envtest::explore::{Scenario, StepResult};

/// A scenario of one controller.
fn of(controller: BuiltIn) -> Scenario {
    Scenario::new(controller.name()).controller(move |manager| Controllers::of([controller]).add_to(manager))
}

async fn create<K: Resource>(client: &Client, object: Value) -> StepResult {
    client.create(&from_value::<K>(object)?).await?;
    Ok(())
}
