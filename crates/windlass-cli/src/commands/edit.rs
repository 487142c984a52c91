//! `windlass edit`: changes the deployment of a project.

use std::error::Error;

use clap::{ArgAction, Args};
use windlass_scaffold::{Edit, Switch};

use super::scaffolding;

/// The flags of `windlass edit`.
#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct Options {
    /// Restrict the operator and its permissions to its own namespace
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: Option<bool>,
    /// Restrict access to the metrics with a NetworkPolicy
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    network_policy: Option<bool>,
    /// Deploy a ServiceMonitor for the Prometheus operator
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    prometheus: Option<bool>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

/// The hint does not mention `windlass run`, which does not deploy the operator.
const NEXT: &str =
    "next: in a cluster, once it has the operator's image (README.md): kubectl apply --kustomize config/default";

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let switch = |on: bool| if on { Switch::On } else { Switch::Off };
    let mut command = Edit::default().overwrite(options.mode.overwrite());
    if let Some(on) = options.namespaced {
        command = command.namespaced(switch(on));
    }
    if let Some(on) = options.network_policy {
        command = command.network_policy(switch(on));
    }
    if let Some(on) = options.prometheus {
        command = command.prometheus(switch(on));
    }
    let changes = command.plan(&scaffolding::project()?)?;
    options.mode.carry_out(&changes, NEXT)
}
