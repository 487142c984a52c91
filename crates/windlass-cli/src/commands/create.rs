//! `windlass create`: additions to a project.

use std::error::Error;

use clap::{ArgAction, Args, Subcommand};
use windlass_scaffold::{CreateApi, CreateWebhook};

use super::scaffolding;

/// What to create.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a kind: its type, definition and sample, its controller and a test
    #[command(disable_version_flag = true)]
    Api(Api),
    /// Add webhooks of a kind: what is filled in, and refused, before its objects are written; how its versions convert
    #[command(disable_version_flag = true)]
    Webhook(Webhook),
}

/// Which kind.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// The group, without the project's domain
    #[arg(long)]
    group: String,
    /// The version, such as v1 or v1beta1
    #[arg(long, value_name = "VERSION")]
    version: String,
    /// The kind, such as Website
    #[arg(long)]
    kind: String,
}

/// The flags of `windlass create api`.
#[derive(Args, Debug)]
pub(crate) struct Api {
    #[command(flatten)]
    named: Named,
    /// What the API calls its objects, where that is not the usual plural of the kind
    #[arg(long, value_name = "PLURAL")]
    plural: Option<String>,
    /// Whether its objects are in namespaces
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    namespaced: bool,
    /// Whether to make the type, its definition and a sample; a kind of Kubernetes has one: --group=apps --resource=false
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    resource: bool,
    /// Whether to make a controller, and its test; true unless another version of the kind has one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    controller: Option<bool>,
    /// The module that has the type of a kind of others, such as crate::certificates, which windlass import has made; a controller is made, and no type
    #[arg(long, value_name = "MODULE")]
    external_api_path: Option<String>,
    /// What the group of such a kind ends in, such as io for cert-manager.io
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
    /// Fill in what is missing
    #[arg(long)]
    defaulting: bool,
    /// Refuse what is wrong
    #[arg(long)]
    programmatic_validation: bool,
    /// Convert between this version, the hub, and the others of the kind
    #[arg(long)]
    conversion: bool,
    /// A version to convert, in place of all others; may be given again, or name several with commas between
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
