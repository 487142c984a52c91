//! The operator's program, with its flags and configuration.

use std::process::ExitCode;

use clap::Parser;
use website_operator::{controller::controller, install::install, webhooks::webhooks};
use windlass::{
    Error,
    api::ErrorChain,
    config::{ManagerConfiguration, ManagerFlags},
    prelude::*,
    runtime::webhook::{CaBundleTarget, WebhookCertificates},
};

// A reconcile has many small allocations. This allocator saves about a tenth of its CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the website operator
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(flatten)]
    manager: ManagerFlags,
    /// Install the CustomResourceDefinition and the webhook configurations first; the webhooks run on this machine
    #[arg(long)]
    install: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let config = options.manager.configuration_or_exit(defaults());
    match run(&options, &config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %ErrorChain(&error), "the operator failed");
            ExitCode::FAILURE
        }
    }
}

/// Returns the default configuration, which the configuration file and flags override.
fn defaults() -> ManagerConfiguration {
    let mut defaults = ManagerConfiguration::default();
    defaults.leader_election.id = "website.shop.example.com".into();
    defaults.leader_election.release_on_cancel = true;
    defaults
}

async fn run(options: &Options, config: &ManagerConfiguration) -> windlass::Result<()> {
    config.logging.init()?;
    let client = config.client.connect()?;
    let namespace = client.default_namespace().to_owned();
    if options.install {
        install(&client, config.webhook.port).await?;
    }
    let mut manager = Manager::builder(client).configured(config)?.build();

    let mut server = config.webhook.server(webhooks().map_err(Error::other)?);
    let ready = server.readiness();
    manager.readyz("webhooks", move || {
        let ready = ready.clone();
        async move { ready.check().await }
    });
    if config.webhook.certificate.path.is_none() {
        let certificates = WebhookCertificates::in_secret(&namespace, "website-webhooks")
            .for_service(&namespace, "website-webhooks")
            .for_names(["127.0.0.1"])
            .inject_into([
                CaBundleTarget::mutating("mutating-webhook-configuration"),
                CaBundleTarget::validating("validating-webhook-configuration"),
            ]);
        server = server.certificate(certificates.serving());
        manager.add(certificates);
    }
    manager.add(server);
    manager.add(controller());
    manager.run(shutdown::signal()).await
}
