//! The execution of one run.

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::{
    error::Result,
    plan::Plan,
    record::Record,
    run::{RunSettings, Scenario, run},
};

/// Executes one run. Tests have an implementation without a cluster.
pub(crate) trait Runner: Sync {
    /// Runs the scenario with the faults of a plan.
    fn run<'r>(
        &'r self,
        plan: &'r Plan,
        settings: &'r RunSettings,
        stop: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>>;
}

impl Runner for Scenario {
    fn run<'r>(
        &'r self,
        plan: &'r Plan,
        settings: &'r RunSettings,
        stop: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>> {
        Box::pin(run(self, plan, settings, stop))
    }
}
