//! The `windlass` command.

mod authorization;
mod commands;
mod connection;
mod control_plane;
mod descriptions;
mod memory;
mod recorder;
#[cfg(test)]
mod reference;
mod serving;
mod stand_in;
#[cfg(test)]
mod testing;

use std::{
    env,
    error::Error,
    ffi::OsString,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, value_parser};
use tracing_subscriber::EnvFilter;
use windlass_api::ErrorChain;

use commands::{
    api_resources, api_versions, completion, create, demo, edit, envtest_assets, generate, get, import, init, proxy,
    run, up,
};
use stand_in::StandIn;

/// What a server makes of a request is many small things, which are gone with the answer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A control plane for Kubernetes, and the tools to write controllers for it
#[derive(Debug, Parser)]
#[command(name = "windlass", version, propagate_version = true)]
struct Arguments {
    /// How much to tell of what is done: from 6 on each request, from 8 on its headers, from 9 on as a curl command
    #[arg(short, long = "v", global = true, value_name = "LEVEL")]
    verbosity: Option<u8>,
    #[command(subcommand)]
    command: Command,
}

/// Commands that ask no server: what is told of requests is not for them.
const OFFLINE: [&str; 5] = ["init", "create", "edit", "generate", "import"];

impl Arguments {
    fn read(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::definition().try_get_matches_from(arguments)?)
    }

    /// The commands, with their flags.
    fn definition() -> clap::Command {
        OFFLINE.iter().fold(Self::command(), |command, name| {
            // It is understood, as it is everywhere, and not shown.
            let level = Arg::new("verbosity").short('v').long("v").hide(true).global(true);
            command.mut_subcommand(name, |command| command.arg(level.value_parser(value_parser!(u8))))
        })
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch the control loop at work: a control plane in this process, 8 replicas, a pod dies, the loop restores it
    Demo(demo::Options),
    /// Run a control plane until SIGINT or SIGTERM: API server, controllers, simulated nodes
    Up(up::Options),
    /// Begin an operator: a project that builds, in this folder
    Init(init::Options),
    /// Add to the operator in this folder
    #[command(subcommand)]
    Create(create::Command),
    /// Change what the operator in this folder is deployed with
    Edit(edit::Options),
    /// Write what a cluster is told of the project in this folder: definitions, roles, webhooks
    Generate(generate::Options),
    /// Run the operator in this folder on a control plane of its own, and again whenever its files change
    Run(run::Options),
    /// Make types of CustomResourceDefinitions that are there as YAML
    Import(import::Options),
    /// Show objects, as kubectl get does
    Get(get::Options),
    /// Show which resources a server serves
    ApiResources(api_resources::Options),
    /// Show which groups and versions a server serves
    ApiVersions(api_versions::Options),
    /// Write etcd, kube-apiserver and kubectl for KUBEBUILDER_ASSETS, which Go's envtest starts in place of the real ones
    EnvtestAssets(envtest_assets::Options),
    /// Serve the API on a local port, with the credentials of the kubeconfig
    Proxy(proxy::Options),
    /// Print what a shell has to know to complete commands and flags
    Completion(completion::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(stand_in) = StandIn::called() {
        log(None, "warn");
        serving::raise_file_limit();
        tokio::spawn(memory::return_freed_pages());
        return exit(stand_in.run().await);
    }
    let arguments = Arguments::read(env::args_os()).unwrap_or_else(|error| error.exit());
    log(arguments.verbosity, default_log(&arguments));
    // Programs that are only started, as by `run`, keep the limit that they would have.
    if matches!(arguments.command, Command::Demo(_) | Command::Up(_) | Command::Proxy(_)) {
        serving::raise_file_limit();
        tokio::spawn(memory::return_freed_pages());
    }
    exit(match arguments.command {
        Command::Demo(options) => demo::run(options).await,
        Command::Up(options) => up::run(options).await,
        Command::Init(options) => init::run(&options),
        Command::Create(command) => create::run(&command),
        Command::Edit(options) => edit::run(&options),
        Command::Generate(options) => generate::run(options).await,
        Command::Run(options) => run::run(options).await,
        Command::Import(options) => import::run(&options),
        Command::Get(options) => get::run(options).await,
        Command::ApiResources(options) => api_resources::run(options).await,
        Command::ApiVersions(options) => api_versions::run(options).await,
        Command::EnvtestAssets(options) => envtest_assets::run(&options),
        Command::Proxy(options) => proxy::run(options).await,
        Command::Completion(options) => completion::run(&options, Arguments::command()),
    })
}

/// What is done is told on standard error.
fn log(verbosity: Option<u8>, default: &str) {
    let filter = match verbosity {
        Some(level) => EnvFilter::new(log_of(level)),
        None => EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| EnvFilter::new(default)),
    };
    let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(io::stderr).init();
}

fn exit(outcome: Result<(), Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&*error) => ExitCode::from(UNREAD),
        Err(error) => {
            // Whoever has closed our output is not there to be told.
            let _ = writeln!(io::stderr(), "windlass: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// As a program ends that SIGPIPE ends: what others print into `head` ends so.
const UNREAD: u8 = 128 + 13;

/// Whether what was printed could not be, because whoever read it had enough. (A connection to a server that broke is another
/// error, which has this one inside.)
fn is_unread(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// What kubectl's levels are here.
const fn log_of(level: u8) -> &'static str {
    match level {
        0..=3 => "warn",
        4 | 5 => "info",
        6 | 7 => "info,windlass_client=debug,windlass_client::curl=off",
        8 => "info,windlass_client=trace,windlass_client::curl=off",
        _ => "debug,windlass_client=trace",
    }
}

/// The demo shows conflicts and retries as part of the loop; as log lines they would only disturb.
const fn default_log(arguments: &Arguments) -> &'static str {
    match arguments.command {
        Command::Demo(_) => "off",
        _ => "warn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_all_commands_go_together() {
        Arguments::definition().debug_assert();
    }

    #[test]
    fn commands_that_ask_no_server_do_not_speak_of_requests_and_understand_v_all_the_same() {
        let help = |command: &str| Arguments::read(["windlass", command, "--help"]).unwrap_err().to_string();
        assert!(help("get").contains("as a curl command"), "{}", help("get"));
        for command in OFFLINE {
            assert!(!help(command).contains("curl"), "{}", help(command));
        }
        for line in [["windlass", "-v6", "init"], ["windlass", "init", "-v6"]] {
            assert_eq!(Arguments::read(line).unwrap().verbosity, Some(6), "{line:?}");
        }
    }

    #[test]
    fn a_kind_is_namespaced_with_type_and_controller_unless_told_otherwise() {
        let api = ["windlass", "create", "api", "--group", "shop", "--version", "v1", "--kind", "Website"];
        let told = |more: &[&str]| format!("{:?}", Arguments::read(api.iter().chain(more)).unwrap().command);
        assert!(told(&[]).contains("namespaced: true, resource: true, controller: None"), "{}", told(&[]));
        assert_eq!(told(&["--namespaced", "--resource"]), told(&[]));
        assert!(told(&["--controller"]).contains("controller: Some(true)"), "{}", told(&["--controller"]));
        let otherwise = told(&["--namespaced=false", "--controller=false"]);
        assert!(otherwise.contains("namespaced: false, resource: true, controller: Some(false)"), "{otherwise}");
    }
}
