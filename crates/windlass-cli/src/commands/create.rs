//! `windlass create`: adds APIs and webhooks to a project.

use std::error::Error;

use clap::{ArgAction, Args, Subcommand};
use windlass_scaffold::{CreateApi, CreateWebhook};

use super::scaffolding;

/// The subcommands of `windlass create`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add an API: its type, CustomResourceDefinition, sample, controller and test
    #[command(disable_version_flag = true)]
    Api(Api),
    /// Add webhooks to a kind: defaulting, validation, and conversion between its versions
    #[command(disable_version_flag = true)]
    Webhook(Webhook),
}

/// The flags that select a kind.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Group without the project's domain
    #[arg(long)]
    group: String,
    /// Version, such as v1 or v1beta1
    #[arg(long, value_name = "VERSION")]
    version: String,
    /// Kind, such as Website
    #[arg(long)]
    kind: String,
}

/// The flags of `windlass create api`.
#[derive(Args, Debug)]
pub(crate) struct Api {
    #[command(flatten)]
    named: Named,
    /// Plural of the kind, if it differs from the usual plural
    #[arg(long, value_name = "PLURAL")]
    plural: Option<String>,
    /// Create a namespaced kind; with =false a cluster-scoped one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: bool,
    /// Create the type, its CustomResourceDefinition and a sample; for a built-in kind, use --group=apps
    /// --resource=false
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    resource: bool,
    /// Create a controller and its test; by default, unless another version of the kind has one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    controller: Option<bool>,
    /// Module of a third-party type, such as crate::certificates from windlass import; creates only a controller, no
    /// type
    #[arg(long, value_name = "MODULE")]
    external_api_path: Option<String>,
    /// Domain of the third-party type's group, such as io for cert-manager.io
    #[arg(long, value_name = "DOMAIN", requires = "external_api_path")]
    external_api_domain: Option<String>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

/// The flags of `windlass create webhook`.
#[derive(Args, Debug)]
pub(crate) struct Webhook {
    #[command(flatten)]
    named: Named,
    /// Create a defaulting webhook
    #[arg(long)]
    defaulting: bool,
    /// Create a validating webhook
    #[arg(long)]
    programmatic_validation: bool,
    /// Create a conversion webhook between this version, the hub, and the other versions of the kind
    #[arg(long)]
    conversion: bool,
    /// Version to convert, instead of all others; can be repeated or contain several versions separated by commas
    #[arg(long, value_name = "VERSION", value_delimiter = ',', requires = "conversion")]
    spoke: Vec<String>,
    #[command(flatten)]
    mode: scaffolding::Mode,
}

pub(crate) fn run(command: &Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Api(flags) => api(flags),
        Command::Webhook(flags) => webhook(flags),
    }
}

fn webhook(flags: &Webhook) -> Result<(), Box<dyn Error>> {
    let Named { group, version, kind } = &flags.named;
    let mut command = CreateWebhook::new(group, version, kind)?
        .defaulting(flags.defaulting)
        .validation(flags.programmatic_validation)
        .overwrite(flags.mode.overwrite());
    if flags.conversion {
        command = command.conversion();
    }
    for spoke in &flags.spoke {
        command = command.spoke(spoke)?;
    }
    let project = scaffolding::project()?;
    let (changes, warning) = (command.plan(&project)?, command.warning(&project)?);
    if let Some(warning) = warning {
        eprintln!("warning: {warning}");
    }
    flags.mode.carry_out(&changes, scaffolding::TRY)
}

fn api(api: &Api) -> Result<(), Box<dyn Error>> {
    let Named { group, version, kind } = &api.named;
    let mut command = CreateApi::new(group, version, kind)?
        .namespaced(api.namespaced)
        .resource(api.resource)
        .overwrite(api.mode.overwrite());
    if let Some(path) = &api.external_api_path {
        command = command.external(path, api.external_api_domain.as_deref().unwrap_or_default())?;
    }
    if let Some(plural) = &api.plural {
        command = command.plural(plural)?;
    }
    if let Some(controller) = api.controller {
        command = command.controller(controller);
    }
    api.mode.carry_out(&command.plan(&scaffolding::project()?)?, scaffolding::TRY)
}
