//! Tasks of the workspace: `cargo xtask --help`.
#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

use std::{env, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

mod cargo;
mod contracts;
mod docs;
mod features;
mod graph;
mod targets;
mod handling;
mod rows;

mod apply_configurations;
mod clientset;
mod generated;
mod overload;
mod protobuf;
mod queues;
mod record;
mod registry;
mod required;
mod upstream;
mod views;

mod attacks;
mod browser;
mod builds;
mod clients;
mod conformance;
mod console;
mod decoders;
mod deployments;
mod dist;
mod e2e;
mod embedded;
mod envtest;
mod etcd;
mod explorations;
mod explore_controllers;
mod explore_examples;
mod fuzz;
mod import;
mod informers;
mod kubectl;
mod labs;
mod long;
mod modules;
mod operators;
mod package;
mod bench_programs;
mod reconciles;
mod migrate;
mod scaffold;
mod scale;
mod scripts;
mod servers;
mod suites;
mod table;

use conformance::TargetServers;

/// The result of a task, with an error for people.
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
    /// Check that each dependency between crates is permitted by the table in ARCHITECTURE.md, and that programs without
    /// tests are not compiled as tests
    Graph,
    /// Check the comparison in docs/comparison.md, its counts in README, and the contract tables: all rows exist, and
    /// every yes names a test
    Rows,
    /// Build the documentation of the workspace, and fail on warnings
    Docs,
    /// Build the crate `windlass` without features, for the earliest minor version of Kubernetes
    Features {
        /// Build all crates, also with all features and without each single one, and with all minor versions and TLS
        /// providers
        #[arg(long)]
        complete: bool,
    },
    /// Generate the server's tables from the Go types (needs Go)
    Types {
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Generate the table and the test data of windlass-protobuf from the Go types of all pinned versions (needs Go)
    Protobuf {
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Record the server's tables from the responses of the real kube-apiserver (needs Go)
    Record {
        /// Record another minor version, such as 1.35, as differences from the tables of the default one
        #[arg(long)]
        minor: Option<upstream::Minor>,
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Generate the accessors of the Clientset from the recorded discovery
    Clientset {
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Generate the table of the fields that applies omit at their default, from the recorded schemas
    Required {
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Generate the apply configurations of the built-in kinds from the recorded schemas
    ApplyConfigurations {
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Generate the views of the built-in kinds from the recorded schemas
    Views {
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Generate the decoders of protobuf from the table of messages and the types of k8s-openapi
    Decoders {
        /// Fail if a file in the repository differs, instead of writing it
        #[arg(long)]
        check: bool,
    },
    /// Build the real etcd, kube-apiserver, kube-controller-manager and kubectl once, and start them (needs Go)
    Upstream {
        /// Only build
        #[arg(long)]
        build: bool,
        /// Use the kube-apiserver of another minor version, such as 1.35
        #[arg(long)]
        minor: Option<upstream::Minor>,
        /// The control plane to start
        #[arg(long, value_enum, default_value_t = upstream::Profile::Token)]
        profile: upstream::Profile,
    },
    /// Package each published crate, and check its metadata and files. In a new project, resolve `windlass` from the
    /// packages
    Package {
        /// Also build, test and run that project, with the controller of the README, and test a scaffolded one
        #[arg(long)]
        build: bool,
    },
    /// Write the files of a release: a program with completions, its bill of materials, the packaged crates as a
    /// registry, and checksums
    Dist(dist::Options),
    /// Record the functions that a start of `windlass up` executes, which `dist` places first in the program (needs
    /// valgrind)
    RecordOrder {
        /// The windlass to record, as `dist` builds it; by default it is built
        windlass: Option<PathBuf>,
    },
    /// Run a task that takes too long for CI
    Long {
        /// The task
        #[command(subcommand)]
        part: long::Part,
    },
    /// Run the client-go programs of conformance/clients with `windlass up` (needs Go)
    Clients {
        /// The windlass to run
        windlass: PathBuf,
        /// Also with the real control plane
        #[arg(long)]
        upstream: bool,
    },
    /// Run the envtest of conformance/envtest on the stand-ins of `windlass envtest-assets` (needs Go)
    Envtest {
        /// The windlass to run
        windlass: PathBuf,
        /// Also on the real binaries
        #[arg(long)]
        upstream: bool,
    },
    /// Run flows of the Python and JavaScript clients with `windlass up`, if the clients can be installed
    Scripts {
        /// The windlass to run
        windlass: PathBuf,
        /// Also with the real control plane
        #[arg(long)]
        upstream: bool,
    },
    /// Run every program of examples/, and `windlass proxy`, with `windlass up`
    Labs {
        /// The windlass to run
        windlass: PathBuf,
    },
    /// Run the registry sync of the examples with a real etcd (needs Go)
    Registry {
        /// Also with a real Polaris
        #[arg(long)]
        polaris: bool,
    },
    /// Follow a user's first steps: build, lint, test and run a project of `windlass init` and `windlass create`, and
    /// query it with kubectl
    Scaffold {
        /// The windlass to run
        windlass: PathBuf,
    },
    /// Migrate a kube-rs operator with `windlass migrate`, run its test before and after, and compare the fields of its
    /// CustomResourceDefinition
    Migrate {
        /// The windlass to run
        windlass: PathBuf,
    },
    /// Test the console of `windlass up` in a browser, if one is installed: both themes, three screens, the keyboard
    Console {
        /// The windlass to run
        windlass: PathBuf,
        /// A folder for screenshots
        #[arg(long)]
        pictures: Option<PathBuf>,
    },
    /// Run conformance/kubectl.sh with the real control plane and simulated nodes, and compare (needs Go)
    Kubectl {
        /// The kubectl to use; defaults to the control plane's version
        #[arg(long, env = "KUBECTL")]
        kubectl: Option<PathBuf>,
        /// The example `simulated_nodes`; by default it is built
        #[arg(long)]
        nodes: Option<PathBuf>,
        /// Use a kubectl of tools/kubectl instead
        #[arg(long, value_enum, conflicts_with = "kubectl")]
        release: Option<upstream::OtherKubectl>,
        /// The windlass to compare with
        windlass: Option<PathBuf>,
    },
    /// Run the conformance suite
    Conformance {
        /// Also with the real kube-apiserver (needs Go)
        #[arg(long)]
        upstream: bool,
        /// Only with the real kube-apiserver: `cargo test` runs the suite with the embedded server
        #[arg(long, requires = "upstream", conflicts_with = "minor")]
        without_embedded: bool,
        /// Compare the embedded server of another minor version, such as 1.35, with the kube-apiserver of that version
        #[arg(long, requires = "upstream")]
        minor: Option<upstream::Minor>,
        /// Record the responses of the real kube-apiserver instead of comparing (needs Go)
        #[arg(long, conflicts_with = "upstream")]
        record: bool,
        /// The test binary; by default it is built
        #[arg(long, value_name = "PROGRAM", conflicts_with = "minor")]
        suite: Option<PathBuf>,
        /// Arguments for the test binary, such as a filter
        #[arg(last = true)]
        rest: Vec<String>,
    },
}

fn main() -> ExitCode {
    // rustc calls this program as the linker of a release.
    let outcome = match dist::link::Link::from_arguments(env::args_os().skip(1)) {
        Some(link) => link.run(),
        None => run(Arguments::parse().task),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a task.
fn run(task: Task) -> Result {
    match task {
        Task::Graph => graph::check().and_then(|()| modules::check()).and_then(|()| targets::check()),
        Task::Docs => docs::check(),
        Task::Rows => rows::check().and_then(|()| contracts::check()),
        Task::Features { complete: true } => features::check(features::Extent::Complete),
        Task::Features { .. } => features::check(features::Extent::Quick),
        Task::Types { check } => generated::from_go(generated::Mode::of(check)),
        Task::Protobuf { check } => protobuf::run(generated::Mode::of(check)),
        Task::Record { minor, check } => record::run(minor.as_ref(), generated::Mode::of(check)),
        Task::Clientset { check } => clientset::run(generated::Mode::of(check)),
        Task::Required { check } => required::run(generated::Mode::of(check)),
        Task::ApplyConfigurations { check } => apply_configurations::run(generated::Mode::of(check)),
        Task::Views { check } => views::run(generated::Mode::of(check)),
        Task::Decoders { check } => decoders::run(generated::Mode::of(check)),
        Task::Upstream { build: true, minor: Some(minor), .. } => {
            upstream::build_minor(&minor).map(|programs| println!("{}", programs.display()))
        }
        Task::Upstream { build: true, .. } => upstream::build().map(|programs| println!("{}", programs.display())),
        Task::Upstream { minor, profile, .. } => upstream::serve(minor.as_ref(), profile),
        Task::Package { build } => dist::stranger::walk(build.into()),
        Task::Dist(options) => dist::run(&options),
        Task::RecordOrder { windlass } => dist::trace::run(windlass),
        Task::Long { part } => long::run(&part),
        Task::Clients { windlass, upstream } => clients::run(&windlass, upstream),
        Task::Envtest { windlass, upstream } => envtest::run(&windlass, upstream),
        Task::Scripts { windlass, upstream } => scripts::run(&windlass, upstream),
        Task::Registry { polaris } => registry::run(polaris),
        Task::Labs { windlass } => labs::run(&windlass),
        Task::Scaffold { windlass } => scaffold::run(&windlass),
        Task::Migrate { windlass } => migrate::run(&windlass),
        Task::Console { windlass, pictures } => console::run(&windlass, pictures),
        Task::Kubectl { release: Some(other), windlass, nodes, .. } => {
            other.build().and_then(|kubectl| kubectl::run(Some(&kubectl), windlass.as_deref(), nodes.clone()))
        }
        Task::Kubectl { kubectl, windlass, nodes, .. } => {
            kubectl::run(kubectl.as_deref(), windlass.as_deref(), nodes.clone())
        }
        Task::Conformance { minor: Some(minor), rest, .. } => conformance::minor(&minor, &rest),
        Task::Conformance { record, without_embedded, upstream, suite, rest, .. } => {
            let against = match (record, without_embedded, upstream) {
                (true, ..) => TargetServers::Record,
                (_, true, _) => TargetServers::Upstream,
                (.., true) => TargetServers::Both,
                _ => TargetServers::Embedded,
            };
            conformance::run(against, suite.as_deref(), &rest)
        }
    }
}
