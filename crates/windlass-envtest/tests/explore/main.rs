//! Fault exploration finds planted bugs, and has no findings in correct programs.
//!
//! Each module is a small correct controller, with typical bugs as variants. They are the classes of bugs that were
//! found in published operators (Sieve, OSDI 2022: intermediate, stale and unobserved states) and in reviews.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod children;
mod cleanup;
mod engine;
mod replicas;
mod tally;
mod volumes;

use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
use windlass_envtest::explore::{Report, Scenario, explore};

/// Asserts that the run without faults succeeds, and that a run with this fault finds the bug.
fn is_found(scenario: Scenario, fault: &str) {
    drop(found(scenario, fault));
}

/// Like [`is_found`], but returns the report.
fn found(scenario: Scenario, fault: &str) -> Report {
    let report = explore(scenario);
    assert!(report.reference.is_empty(), "it fails without faults: {report}");
    let finds = |word: &str| report.failures.iter().any(|failure| failure.plan.to_string().starts_with(word));
    assert!(finds(&format!("{fault}@")), "{fault} does not find it: {report}");
    report
}

/// Returns the input of the programs: a ConfigMap `web` with a desired value.
fn app(wants: &str) -> ConfigMap {
    let mut app = ConfigMap::default();
    (app.metadata.name, app.metadata.namespace) = (Some("web".to_owned()), Some("default".to_owned()));
    app.data = Some([("wants".to_owned(), wants.to_owned())].into());
    app
}

fn wants(app: &ConfigMap) -> String {
    app.data.as_ref().and_then(|data| data.get("wants")).cloned().unwrap_or_default()
}
