//! Runs the conformance suite, against the real API server too where asked.

use std::process::Command;

use crate::{
    Result,
    upstream::{Profile, Upstream},
};

/// The environment variable by which the suite finds a second target: a kubeconfig.
const TARGET: &str = "WINDLASS_UPSTREAM_KUBECONFIG";

/// `rest` goes to the test binary.
pub(crate) fn run(with_upstream: bool, rest: &[String]) -> Result {
    let mut suite = Command::new(env!("CARGO"));
    suite.args(["test", "--package", "conformance", "--"]).args(rest);
    let upstream = if with_upstream { Some(Upstream::start(Profile::Token)?) } else { None };
    if let Some(upstream) = &upstream {
        suite.env(TARGET, upstream.kubeconfig());
    }
    let status = suite.status()?;
    if status.success() { Ok(()) } else { Err(format!("the conformance suite failed ({status})").into()) }
}
