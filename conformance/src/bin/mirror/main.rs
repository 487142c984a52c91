//! Compares two API servers that share an etcd. `cargo xtask long etcd` runs this program with the real kube-apiserver
//! and with `windlass up --etcd`.
//!
//! It watches every built-in resource on both servers, from one resource version, and runs a command that uses one of
//! them, such as the conformance suite. Then it lists each resource, waits until both watches have reached the version of
//! the list, and compares their events up to this version. Every event must be equal on both servers: its type and its
//! whole object.
//!
//! Custom resources are not watched, and neither are groups whose discovery fails because their aggregated API server is
//! unavailable. No other differences are ignored.

mod compare;
mod report;
mod resources;
mod watch;

use std::{
    error::Error,
    process::{Command, ExitCode},
};

use futures::future::{join_all, try_join_all};
use windlass_client::{
    Client, Config, ContentType,
    config::{Kubeconfig, Selection},
};

use self::{
    report::Report,
    resources::{built_in, version_of},
    watch::Watches,
};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// A server and its name in messages.
#[derive(Clone)]
pub(crate) struct Server {
    name: String,
    client: Client,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [first, second, separator, program, rest @ ..] = &*arguments else {
        return usage();
    };
    if separator != "--" {
        return usage();
    }
    let mut command = Command::new(program);
    command.args(rest);
    match Box::pin(run([first, second], command)).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mirror: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: mirror KUBECONFIG KUBECONFIG -- COMMAND [ARGUMENT…]");
    ExitCode::FAILURE
}

/// Runs the command, compares the events, and prints a report. Returns `true` if the command has succeeded and all
/// events are equal.
async fn run(kubeconfigs: [&String; 2], command: Command) -> Result<bool> {
    let [first, second] = kubeconfigs.map(|path| Server::of(path));
    let servers = [first?, second?];
    let resources = Box::pin(built_in(&servers)).await?;
    let version = version_of(&servers[0], &resources[0]).await?;
    let watches =
        try_join_all(resources.into_iter().map(|resource| Watches::start(&servers, resource, version))).await?;
    println!("watching {} resources of {} and {}", watches.len(), servers[0].name, servers[1].name);

    let mut report = Report::default();
    report.add_command(execute(command).await);
    for outcome in join_all(watches.into_iter().map(Watches::finish)).await {
        report.add(outcome);
    }
    print!("{report}");
    Ok(report.is_success())
}

/// Runs a command. Returns an error if it fails.
async fn execute(mut command: Command) -> Result {
    let running = tokio::task::spawn_blocking(move || {
        let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})")) }
    });
    Ok(running.await??)
}

impl Server {
    fn of(path: &str) -> Result<Self> {
        let kubeconfig = Kubeconfig::read(path)?;
        // The bodies of lists and events are compared as JSON.
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default())?.with_content_type(ContentType::Json);
        let name = config.server.to_string();
        Ok(Self { name, client: Client::new(config)?.without_rate_limit() })
    }
}
