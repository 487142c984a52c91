//! Tasks of the workspace that cargo does not know: `cargo xtask --help`.
#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

mod cargo;
mod contracts;
mod features;
mod graph;
mod rows;

mod clientset;
mod derived;
mod queues;
mod record;
mod registry;
mod upstream;

mod attacks;
mod browser;
mod clients;
mod conformance;
mod console;
mod deployments;
mod e2e;
mod embedded;
mod envtest;
mod fuzz;
mod import;
mod informers;
mod kubectl;
mod labs;
mod long;
mod peers;
mod reconciles;
mod scaffold;
mod scripts;
mod servers;
mod suites;
mod table;

use conformance::Against;

/// What a task fails with: a sentence for people.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Tasks of the workspace
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check that no crate depends on one that the table in ARCHITECTURE.md does not allow
    Graph,
    /// Check the comparison in docs/comparison.md, its counts in README, and the tables of contracts: every row is there, every yes leads to a test
    Rows,
    /// Build each feature of each crate alone
    Features,
    /// Derive the server's tables from the Go types (needs Go)
    Types {
        /// Fail when a file in the repo differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Record the server's tables from the answers of the real kube-apiserver (needs Go)
    Record {
        /// Fail when a file in the repo differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Write the accessors of the Clientset from the recorded discovery
    Clientset {
        /// Fail when a file in the repo differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Build the real etcd, kube-apiserver, kube-controller-manager and kubectl once, and start them (needs Go)
    Upstream {
        /// Only build
        #[arg(long)]
        build: bool,
        /// Which control plane to start
        #[arg(long, value_enum, default_value_t = upstream::Profile::Token)]
        profile: upstream::Profile,
    },
    /// Run what takes too long for CI
    Long {
        /// Which part of it
        #[command(subcommand)]
        part: long::Part,
    },
    /// Run the client-go programs of conformance/clients against `windlass up` (needs Go)
    Clients {
        /// The windlass to run
        windlass: PathBuf,
        /// Against the real control plane too
        #[arg(long)]
        upstream: bool,
    },
    /// Run the envtest of conformance/envtest on what `windlass envtest-assets` writes (needs Go)
    Envtest {
        /// The windlass to run
        windlass: PathBuf,
        /// On the real binaries too
        #[arg(long)]
        upstream: bool,
    },
    /// Run what programs do with the Python and JavaScript clients against `windlass up`, where these can be had
    Scripts {
        /// The windlass to run
        windlass: PathBuf,
        /// Against the real control plane too
        #[arg(long)]
        upstream: bool,
    },
    /// Run every program of examples/, and `windlass proxy`, against `windlass up`
    Labs {
        /// The windlass to run
        windlass: PathBuf,
    },
    /// Run the registry sync of the examples with a real etcd (needs Go)
    Registry {
        /// With a real Polaris, too
        #[arg(long)]
        polaris: bool,
    },
    /// The five-minute path: build, lint, test and run what `windlass init` and `windlass create` write, and ask it with kubectl
    Scaffold {
        /// The windlass to run
        windlass: PathBuf,
    },
    /// Look at the console of `windlass up` in a browser, if there is one: both themes, three screens, the keyboard
    Console {
        /// The windlass to run
        windlass: PathBuf,
        /// A folder for pictures of what is seen
        #[arg(long)]
        pictures: Option<PathBuf>,
    },
    /// Run conformance/kubectl.sh against the real control plane, with simulated nodes, and compare (needs Go)
    Kubectl {
        /// The kubectl to use, instead of that of the control plane's version
        #[arg(long, env = "KUBECTL")]
        kubectl: Option<PathBuf>,
        /// Use a kubectl of tools/kubectl instead
        #[arg(long, value_enum, conflicts_with = "kubectl")]
        release: Option<upstream::OtherKubectl>,
        /// The windlass to compare with
        windlass: Option<PathBuf>,
    },
    /// Run the conformance suite
    Conformance {
        /// Against the real kube-apiserver too (needs Go)
        #[arg(long)]
        upstream: bool,
        /// Write what the real kube-apiserver answers to the cases, instead of comparing (needs Go)
        #[arg(long, conflicts_with = "upstream")]
        record: bool,
        /// Arguments for the test binary, such as a filter
        #[arg(last = true)]
        rest: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Graph => graph::check(),
        Task::Rows => rows::check().and_then(|()| contracts::check()),
        Task::Features => features::check(),
        Task::Types { check } => derived::from_go(derived::Mode::of(check)),
        Task::Record { check } => record::run(derived::Mode::of(check)),
        Task::Clientset { check } => clientset::run(derived::Mode::of(check)),
        Task::Upstream { build: true, .. } => upstream::build().map(|programs| println!("{}", programs.display())),
        Task::Upstream { profile, .. } => upstream::serve(profile),
        Task::Long { part } => long::run(&part),
        Task::Clients { windlass, upstream } => clients::run(&windlass, upstream),
        Task::Envtest { windlass, upstream } => envtest::run(&windlass, upstream),
        Task::Scripts { windlass, upstream } => scripts::run(&windlass, upstream),
        Task::Registry { polaris } => registry::run(polaris),
        Task::Labs { windlass } => labs::run(&windlass),
        Task::Scaffold { windlass } => scaffold::run(&windlass),
        Task::Console { windlass, pictures } => console::run(&windlass, pictures),
        Task::Kubectl { release: Some(other), windlass, .. } => {
            other.build().and_then(|kubectl| kubectl::run(Some(&kubectl), windlass.as_deref()))
        }
        Task::Kubectl { kubectl, windlass, .. } => kubectl::run(kubectl.as_deref(), windlass.as_deref()),
        Task::Conformance { record: true, rest, .. } => conformance::run(Against::Record, &rest),
        Task::Conformance { upstream: true, rest, .. } => conformance::run(Against::Both, &rest),
        Task::Conformance { rest, .. } => conformance::run(Against::Embedded, &rest),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
