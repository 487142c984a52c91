//! Runs the conformance suite, and on request also with the real API server.

use std::{path::Path, process::Command};

use crate::{
    Result,
    cargo::{cargo, succeed},
    embedded::Embedded,
    upstream::{Minor, Profile, Upstream, root},
};

/// The environment variable with the kubeconfig of the second target.
pub(crate) const TARGET: &str = "WINDLASS_UPSTREAM_KUBECONFIG";

/// The environment variable that is set if that server is Windlass.
pub(crate) const IS_WINDLASS: &str = "WINDLASS_UPSTREAM_IS_WINDLASS";

/// The environment variable with the minor version of that server.
const VERSION: &str = "WINDLASS_UPSTREAM_VERSION";

/// The environment variable with the path of kubectl.
pub(crate) const KUBECTL: &str = "WINDLASS_UPSTREAM_KUBECTL";

/// The environment variable with the path of this program, which starts control planes for tests: see [`Upstream`].
pub(crate) const CONTROL: &str = "WINDLASS_UPSTREAM_CONTROL";

/// The environment variable with the folder of CRDs.
const CRDS: &str = "WINDLASS_CRDS";

/// The environment variable with the kubeconfig of the real controllers, for the workload scenarios.
const WORKLOADS: &str = "WINDLASS_WORKLOADS_KUBECONFIG";

/// The environment variable that selects a single file of scenarios.
const ONLY: &str = "WINDLASS_WORKLOADS_ONLY";

/// The environment variable that makes the suite record the real server's responses.
const RECORD: &str = "WINDLASS_RECORD";

/// The environment variable that limits the suite to the real server.
const ONLY_UPSTREAM: &str = "WINDLASS_ONLY_UPSTREAM";

/// The servers to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetServers {
    /// The embedded server, compared with the recordings.
    Embedded,
    /// Both servers. Finds recordings that are out of date.
    Both,
    /// The real server, compared with the recordings.
    Upstream,
    /// The real server. Its responses become the recordings.
    Record,
}

/// The tests that run controllers. They act on all objects of a cluster, so they get their own.
const CONTROLLERS: &str = "loops::";

/// Runs the suite. `program` is the test binary; by default it is built. `rest` contains its arguments.
pub(crate) fn run(against: TargetServers, program: Option<&Path>, rest: &[String]) -> Result {
    if matches!(against, TargetServers::Both | TargetServers::Upstream) && rest.is_empty() {
        once(against, program, &["--skip".to_owned(), CONTROLLERS.to_owned()])?;
        return once(against, program, &[CONTROLLERS.to_owned()]);
    }
    if against == TargetServers::Record && rest.is_empty() {
        return once(against, program, &["cases::".to_owned()]);
    }
    once(against, program, rest)
}

/// Compares the servers' responses to random requests.
pub(crate) fn differential(seed: u64, seconds: u64) -> Result {
    compare("differential", |compare| {
        compare.args([seed, seconds].map(|number| number.to_string()));
    })
}

/// Compares decisions about requests by random roles.
pub(crate) fn decisions(seed: u64, count: u64) -> Result {
    compare("decisions", |compare| {
        compare.args([seed, count].map(|number| number.to_string()));
    })
}

/// Compares the embedded server of a minor version with the kube-apiserver of that version. `files` selects files of
/// cases; if it is empty, all are compared.
pub(crate) fn minor(minor: &Minor, files: &[String]) -> Result {
    let upstream = Upstream::of(Some(minor), Profile::Token)?;
    let mut compare = cargo();
    compare.args(["run", "--quiet", "--package", "conformance", "--bin", "minors", "--", &minor.to_string()]);
    let status = compare.args(files).env(TARGET, upstream.kubeconfig()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the servers of {minor} differ ({status})").into()) }
}

/// Runs the suites of the client and the caches with the kube-apiserver of a minor version.
pub(crate) fn clients_of(minor: &Minor) -> Result {
    let upstream = Upstream::of(Some(minor), Profile::Token)?;
    let mut suite = cargo();
    suite.args(["test", "--workspace", "--test", "conformance", "--"]);
    suite.args(["client::", "caches::", "informers::", "errors::", "wire::", "events::", "--skip", "restarts::"]);
    suite.env(TARGET, upstream.kubeconfig()).env(VERSION, minor.to_string()).env(KUBECTL, upstream.kubectl());
    let status = suite.env(CONTROL, std::env::current_exe()?).status()?;
    if status.success() { Ok(()) } else { Err(format!("the suites fail with {minor} ({status})").into()) }
}

/// Runs the workload scenarios with the real controllers.
pub(crate) fn workloads(record: bool, only: &str) -> Result {
    let upstream = Upstream::start(Profile::Identity)?;
    let mut suite = scenarios("real_controllers_match_the_recording", &upstream.kubeconfig());
    suite.env(ONLY, only);
    if record {
        suite.env(RECORD, "1");
    }
    succeed(&mut suite)
}

/// Plays the workload scenarios with the real controllers and a Windlass server in etcd.
pub(crate) fn mixed_workloads(windlass: &Path) -> Result {
    let mut upstream = Upstream::without_controllers()?;
    let (etcd, key) = (upstream.etcd(), upstream.signing_key());
    let key = key.to_str().ok_or("the path of the key is not UTF-8")?;
    let flags = ["--controllers", "none", "--nodes", "0", "--etcd", &etcd, "--service-account-signing-key-file", key];
    let embedded = Embedded::start(windlass, &flags)?;
    upstream.control(&embedded.kubeconfig())?;
    succeed(&mut scenarios("real_controllers_match_the_recording", &embedded.kubeconfig()))
}

/// Plays the workload scenarios with our controllers and the real server.
pub(crate) fn own_workloads() -> Result {
    let upstream = Upstream::without_controllers()?;
    let test = "own_controllers_match_the_recording_with_a_real_server";
    succeed(&mut scenarios(test, &upstream.kubeconfig()))
}

/// Returns the command that plays the workload scenarios with a server.
fn scenarios(test: &str, kubeconfig: &Path) -> Command {
    let mut suite = cargo();
    suite.args(["test", "--package", "conformance", "--test", "workloads", "--", "--exact", test]);
    suite.env(WORKLOADS, kubeconfig);
    suite
}

/// Compares the servers with the CRDs in a folder.
pub(crate) fn operators(crds: &Path, seed: u64, objects: u64, only: &str) -> Result {
    compare("operators", |compare| {
        compare.args([seed, objects].map(|number| number.to_string())).arg(only).env(CRDS, crds);
    })
}

/// Runs a program of the suite that uses both servers.
fn compare(program: &str, tell: impl FnOnce(&mut Command)) -> Result {
    let upstream = Upstream::start(Profile::Token)?;
    let mut compare = cargo();
    compare.args(["run", "--quiet", "--package", "conformance", "--bin", program, "--"]);
    tell(&mut compare);
    let status = compare.env(TARGET, upstream.kubeconfig()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the servers differ, or did not respond ({status})").into()) }
}

/// Runs a part of the suite with a new control plane.
fn once(against: TargetServers, program: Option<&Path>, rest: &[String]) -> Result {
    let mut suite = if let Some(program) = program {
        let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
        let mut suite = Command::new(program);
        suite.current_dir(root().join("conformance"));
        suite
    } else {
        let mut suite = cargo();
        // The workload scenarios are recorded and need no embedded server: the tests of the workspace run them.
        // With the features of the workspace, so that the dependencies are compiled once for all tests.
        suite.args(["test", "--workspace", "--test", "conformance", "--"]);
        suite
    };
    suite.args(rest);
    let upstream = if against == TargetServers::Embedded { None } else { Some(Upstream::start(Profile::Token)?) };
    if let Some(upstream) = &upstream {
        suite.env(TARGET, upstream.kubeconfig()).env(KUBECTL, upstream.kubectl());
        suite.env(CONTROL, std::env::current_exe()?);
    }
    match against {
        TargetServers::Record => suite.env(RECORD, "1"),
        TargetServers::Upstream => suite.env(ONLY_UPSTREAM, "1"),
        TargetServers::Embedded | TargetServers::Both => &mut suite,
    };
    let status = suite.status()?;
    if status.success() { Ok(()) } else { Err(format!("the conformance suite failed ({status})").into()) }
}
