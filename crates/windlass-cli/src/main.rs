//! The `windlass` command.
//!
//! ```text
//! commands       a module for each command
//! stand_in       this program as etcd, kube-apiserver and kubectl, for Go's envtest
//! control_plane  the API server, controllers and nodes in this process
//! storage        the storage of that server: in memory, in a directory or in etcd
//! encryption     its encryption at rest
//! data_directory its directory, with its secrets
//! client_authority  the CA of client certificates
//! authorization  authorization webhooks of that server
//! certificates   certificates in files, which are read again when they change
//! recorder       counts the requests to that server
//! connection     the connection flags, which are kubectl's
//! descriptions   descriptions of the built-in kinds
//! serving        HTTP servers on this machine
//! memory         returns freed memory to the system
//! ```

mod access;
mod admission;
mod aggregation;
mod audit;
mod authorization;
mod certificates;
mod client_authority;
mod commands;
mod connection;
mod control_plane;
mod data_directory;
mod descriptions;
mod encryption;
mod feature_gates;
mod memory;
mod recorder;
mod remote;
#[cfg(test)]
mod reference;
mod serving;
mod simulation;
mod stand_in;
mod storage;
#[cfg(test)]
mod testing;
mod request_limits;
mod runtime_config;
mod time_limits;
mod token_keys;

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    ffi::OsString,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, value_parser};
use tokio::runtime;
use tracing_subscriber::EnvFilter;
use windlass_api::ErrorChain;

use commands::{
    api_resources, api_versions, completion, create, demo, edit, envtest_assets, explore, generate, get, import, init,
    load, migrate, proxy, run, snapshot, up,
};
use stand_in::StandIn;

/// A request causes many small allocations, which are freed with its response.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A control plane for Kubernetes, and the tools to write controllers for it
#[derive(Debug, Parser)]
#[command(name = "windlass", version, propagate_version = true)]
struct Arguments {
    /// Log level: from 6 on requests, from 8 on their headers, from 9 on each request as a curl command
    #[arg(short, long = "v", global = true, value_name = "LEVEL")]
    verbosity: Option<u8>,
    #[command(subcommand)]
    command: Command,
}

/// The commands that send no requests: they don't show the flag for logging requests.
const OFFLINE: [&str; 7] = ["init", "create", "edit", "generate", "import", "migrate", "snapshot"];

impl Arguments {
    fn read(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::definition().try_get_matches_from(arguments)?)
    }

    /// Returns the commands with their flags.
    fn definition() -> clap::Command {
        OFFLINE.iter().fold(Self::command(), |command, name| {
            // Accepted like everywhere else, but hidden.
            let level = Arg::new("verbosity").short('v').long("v").hide(true).global(true);
            command.mut_subcommand(name, |command| command.arg(level.value_parser(value_parser!(u8))))
        })
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the control loop: a control plane in this process runs 8 replicas, a pod dies, and the loop restores it
    Demo(demo::Options),
    /// Run a control plane until SIGINT or SIGTERM: API server, controllers, simulated nodes
    Up(Box<up::Options>),
    /// Create an operator project in this folder
    Init(init::Options),
    /// Add to the operator project in this folder
    #[command(subcommand)]
    Create(create::Command),
    /// Change the deployment of the operator project in this folder
    Edit(edit::Options),
    /// Write the manifests of the project in this folder: CustomResourceDefinitions, roles, webhooks
    Generate(generate::Options),
    /// Run the operator of this folder on a local control plane, and restart it when its files change
    Run(run::Options),
    /// Generate Rust types from CustomResourceDefinitions
    Import(import::Options),
    /// Move an operator from kube-rs to Windlass: show the changes as a diff, and list what is left to do
    Migrate(migrate::Options),
    /// Save and restore the objects of a data directory
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Show objects, like kubectl get
    Get(get::Options),
    /// Show the resources that a server supports
    ApiResources(api_resources::Options),
    /// Show the groups and versions that a server supports
    ApiVersions(api_versions::Options),
    /// Write replacements of etcd, kube-apiserver and kubectl to a folder for KUBEBUILDER_ASSETS, for Go's envtest
    EnvtestAssets(envtest_assets::Options),
    /// Serve the API on a local port, with the credentials of the kubeconfig
    Proxy(proxy::Options),
    /// Measure a cluster: play a workload, and report latencies and the objectives of SIG Scalability
    Load(load::Options),
    /// Run an operator of any language under faults: crashes, lost responses, stale caches; or change fields of its custom
    /// resources; report what goes wrong
    Explore(Box<explore::Options>),
    /// Print a shell completion script
    Completion(completion::Options),
}

/// The number of tasks that a busy worker runs before it looks for sockets that are ready.
///
/// With tokio's default of 61, small requests wait for tens of milliseconds beside connections that send large
/// responses. Requests at the same time also cost less processor time, because workers sleep and wake each other less
/// often: `bench server` has a fifth more creates and gets per second.
const EVENT_INTERVAL: u32 = 8;

fn main() -> ExitCode {
    // Before the first thread: `explore` starts programs by this program.
    if let Some(code) = windlass_explore::isolation::helper() {
        return code;
    }
    match runtime::Builder::new_multi_thread().enable_all().event_interval(EVENT_INTERVAL).build() {
        Ok(runtime) => runtime.block_on(execute()),
        Err(error) => exit(Err(error.into())),
    }
}

/// Runs the command of the arguments.
async fn execute() -> ExitCode {
    if let Some(stand_in) = StandIn::called() {
        log(None, "warn");
        serving::raise_file_limit();
        tokio::spawn(memory::return_freed_pages());
        return exit(stand_in.run().await);
    }
    let arguments = Arguments::read(env::args_os()).unwrap_or_else(|error| error.exit());
    log(arguments.verbosity, default_log(&arguments));
    // Other commands start programs, which would inherit the raised limit.
    if matches!(arguments.command, Command::Demo(_) | Command::Up(_) | Command::Proxy(_)) {
        serving::raise_file_limit();
        tokio::spawn(memory::return_freed_pages());
    }
    exit(match arguments.command {
        Command::Demo(options) => demo::run(options).await,
        Command::Up(options) => up::run(*options, flags_of("up", env::args_os())).await,
        Command::Init(options) => init::run(&options),
        Command::Create(command) => create::run(&command),
        Command::Edit(options) => edit::run(&options),
        Command::Generate(options) => generate::run(options).await,
        Command::Run(options) => run::run(options).await,
        Command::Import(options) => import::run(&options),
        Command::Migrate(options) => migrate::run(&options),
        Command::Snapshot(command) => snapshot::run(&command),
        Command::Get(options) => get::run(options).await,
        Command::ApiResources(options) => api_resources::run(options).await,
        Command::ApiVersions(options) => api_versions::run(options).await,
        Command::EnvtestAssets(options) => envtest_assets::run(&options),
        Command::Proxy(options) => proxy::run(options).await,
        Command::Load(options) => load::run(options).await,
        Command::Explore(options) => return explore::run(*options).await,
        Command::Completion(options) => completion::run(&options, Arguments::command()),
    })
}

/// Returns the flags of a command with their values on a command line, or their defaults.
fn flags_of(name: &str, line: impl IntoIterator<Item = OsString>) -> BTreeMap<String, String> {
    let definition = Arguments::definition();
    let Ok(matches) = definition.clone().try_get_matches_from(line) else { return BTreeMap::new() };
    let (Some(command), Some(matches)) = (definition.find_subcommand(name), matches.subcommand_matches(name)) else {
        return BTreeMap::new();
    };
    let value = |flag: &Arg| {
        let values = matches.try_get_raw(flag.get_id().as_str()).ok().flatten();
        let values = values.map(|values| values.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(","));
        Some((flag.get_long()?.to_owned(), values.unwrap_or_default()))
    };
    command.get_arguments().filter_map(value).collect()
}

/// Sets up logging to standard error.
fn log(verbosity: Option<u8>, default: &str) {
    let filter = match verbosity {
        Some(level) => EnvFilter::new(log_of(level)),
        None => EnvFilter::try_from_env("WINDLASS_LOG").unwrap_or_else(|_| EnvFilter::new(default)),
    };
    let colors = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colors).with_writer(io::stderr).init();
}

fn exit(outcome: Result<(), Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_unread(&*error) => ExitCode::from(UNREAD),
        Err(error) => {
            // Writing fails if standard error is closed.
            let _ = writeln!(io::stderr(), "windlass: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a program that SIGPIPE ended, as in `… | head`.
const UNREAD: u8 = 128 + 13;

/// Reports whether the reader closed the output. (An error of a broken connection to a server only contains this error
/// as a source.)
fn is_unread(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns the log filter of one of kubectl's levels.
const fn log_of(level: u8) -> &'static str {
    match level {
        0..=3 => "warn",
        4 | 5 => "info",
        6 | 7 => "info,windlass_client=debug,windlass_client::curl=off",
        8 => "info,windlass_client=trace,windlass_client::curl=off",
        _ => "debug,windlass_client=trace",
    }
}

/// Returns the default log filter. The demo shows conflicts and retries in its own output, so logging is off.
const fn default_log(arguments: &Arguments) -> &'static str {
    match arguments.command {
        Command::Demo(_) => "off",
        // Faults lead to warnings of the server and the controllers in this process.
        Command::Explore(_) => "error",
        _ => "warn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_all_commands_are_compatible() {
        Arguments::definition().debug_assert();
    }

    #[test]
    fn flags_of_a_command_have_values_or_defaults() {
        let flags =
            flags_of("up", ["windlass", "up", "--nodes=7", "--enable-admission-plugins=A,B"].map(OsString::from));
        for (name, value) in
            [("nodes", "7"), ("bind", "127.0.0.1:6443"), ("enable-admission-plugins", "A,B"), ("data-dir", "")]
        {
            assert_eq!(flags.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn offline_commands_accept_but_hide_verbosity() {
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
    fn create_api_defaults_to_namespaced_kind_with_type() {
        let api = ["windlass", "create", "api", "--group", "shop", "--version", "v1", "--kind", "Website"];
        let told = |more: &[&str]| format!("{:?}", Arguments::read(api.iter().chain(more)).unwrap().command);
        assert!(told(&[]).contains("namespaced: true, resource: true, controller: None"), "{}", told(&[]));
        assert_eq!(told(&["--namespaced", "--resource"]), told(&[]));
        assert!(told(&["--controller"]).contains("controller: Some(true)"), "{}", told(&["--controller"]));
        let otherwise = told(&["--namespaced=false", "--controller=false"]);
        assert!(otherwise.contains("namespaced: false, resource: true, controller: Some(false)"), "{otherwise}");
    }
}
