//! The execution of one run.

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::{
    error::Result,
    mutations::{self, Mutations},
    plan::Plan,
    record::Record,
    run::{RunSettings, Scenario, run, run_mutation},
};

/// Executes one run. Tests have an implementation without a cluster.
pub(crate) trait Runner: Sync {
    /// Runs the scenario with the faults or the mutation of a plan.
    fn run<'r>(
        &'r self,
        plan: &'r Plan,
        settings: &'r RunSettings,
        stop: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>>;

    /// Chooses mutations of the objects at the end of a run without faults.
    fn mutations<'r>(&'r self, clean: &'r Record) -> BoxFuture<'r, Result<Mutations>>;
}

impl Runner for Scenario {
    fn run<'r>(
        &'r self,
        plan: &'r Plan,
        settings: &'r RunSettings,
        stop: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>> {
        match plan {
            Plan::Faults(_) => Box::pin(run(self, plan, settings, stop)),
            Plan::Mutation(mutation) => Box::pin(run_mutation(self, mutation, settings, stop)),
        }
    }

    fn mutations<'r>(&'r self, clean: &'r Record) -> BoxFuture<'r, Result<Mutations>> {
        Box::pin(mutations::choose(self, clean))
    }
}
