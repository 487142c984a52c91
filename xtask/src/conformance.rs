//! Runs the conformance suite, against the real API server too where asked.

use std::{path::Path, process::Command};

use crate::{
    Result,
    cargo::cargo,
    upstream::{Profile, Upstream},
};

/// The environment variable by which the suite finds a second target: a kubeconfig.
const TARGET: &str = "WINDLASS_UPSTREAM_KUBECONFIG";

/// The environment variable by which it finds a kubectl.
const KUBECTL: &str = "WINDLASS_UPSTREAM_KUBECTL";

/// The environment variable by which tests find this program, which starts control planes for them: see [`Upstream`].
const CONTROL: &str = "WINDLASS_UPSTREAM_CONTROL";

/// The environment variable that names a folder of definitions.
const CRDS: &str = "WINDLASS_CRDS";

/// The environment variable by which the scenarios of workloads find the real controllers: a kubeconfig.
const WORKLOADS: &str = "WINDLASS_WORKLOADS_KUBECONFIG";

/// The environment variable that names the one file of scenarios to play.
const ONLY: &str = "WINDLASS_WORKLOADS_ONLY";

/// The environment variable that makes the suite write what the real server answers.
const RECORD: &str = "WINDLASS_RECORD";

/// Whom the suite asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// The embedded server, held to the recordings.
    Embedded,
    /// The real server too, so that a recording that is no longer true is found.
    Both,
    /// The real server, whose answers to the cases become the recordings.
    Record,
}

/// The tests that run controllers. They act on whatever is in the cluster, so that they get one of their own.
const CONTROLLERS: &str = "loops::";

/// `rest` goes to the test binary.
pub(crate) fn run(against: Against, rest: &[String]) -> Result {
    if against == Against::Both && rest.is_empty() {
        once(against, &["--skip".to_owned(), CONTROLLERS.to_owned()])?;
        return once(against, &[CONTROLLERS.to_owned()]);
    }
    if against == Against::Record && rest.is_empty() {
        return once(against, &["cases::".to_owned()]);
    }
    once(against, rest)
}

/// Compares the servers' answers to random requests.
pub(crate) fn differential(seed: u64, seconds: u64) -> Result {
    compare("differential", |compare| {
        compare.args([seed, seconds].map(|number| number.to_string()));
    })
}

/// Plays the scenarios of workloads to the real controllers.
pub(crate) fn workloads(record: bool, only: &str) -> Result {
    let upstream = Upstream::start(Profile::Identity)?;
    let mut suite = cargo();
    suite.args(["test", "--package", "conformance", "--test", "workloads", "--", "the_real_controllers"]);
    suite.env(WORKLOADS, upstream.kubeconfig()).env(ONLY, only);
    if record {
        suite.env(RECORD, "1");
    }
    let status = suite.status()?;
    if status.success() { Ok(()) } else { Err(format!("the real controllers do otherwise ({status})").into()) }
}

/// Compares what the servers make of the definitions in a folder.
pub(crate) fn operators(crds: &Path, seed: u64, objects: u64, only: &str) -> Result {
    compare("operators", |compare| {
        compare.args([seed, objects].map(|number| number.to_string())).arg(only).env(CRDS, crds);
    })
}

/// Runs a program of the suite that asks both servers.
fn compare(program: &str, tell: impl FnOnce(&mut Command)) -> Result {
    let upstream = Upstream::start(Profile::Token)?;
    let mut compare = cargo();
    compare.args(["run", "--quiet", "--package", "conformance", "--bin", program, "--"]);
    tell(&mut compare);
    let status = compare.env(TARGET, upstream.kubeconfig()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the servers differ, or could not be asked ({status})").into()) }
}

/// Runs some of the suite, against a control plane made for it.
fn once(against: Against, rest: &[String]) -> Result {
    let mut suite = cargo();
    // The workloads are recorded, and ask no server of ours to be compared with: the tests of the workspace have them.
    suite.args(["test", "--package", "conformance", "--test", "conformance", "--"]).args(rest);
    let upstream = if against == Against::Embedded { None } else { Some(Upstream::start(Profile::Token)?) };
    if let Some(upstream) = &upstream {
        suite.env(TARGET, upstream.kubeconfig()).env(KUBECTL, upstream.kubectl());
        suite.env(CONTROL, std::env::current_exe()?);
    }
    if against == Against::Record {
        suite.env(RECORD, "1");
    }
    let status = suite.status()?;
    if status.success() { Ok(()) } else { Err(format!("the conformance suite failed ({status})").into()) }
}
