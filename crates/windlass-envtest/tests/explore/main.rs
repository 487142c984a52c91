//! Fault exploration finds planted bugs, and none in what is right.
//!
//! Each module is a small controller that is right, and what one usually gets wrong in it: classes of bugs that were found in
//! published operators (Sieve, OSDI 2022: intermediate, stale and unobserved states) and in reviews.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

mod children;
mod cleanup;
mod engine;
mod replicas;
mod tally;
mod volumes;

use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
use windlass_envtest::explore::{Report, Scenario, explore};

/// In an undisturbed run all goes well; what is wrong is found by runs with this fault.
fn is_found(scenario: Scenario, fault: &str) {
    drop(found(scenario, fault));
}

/// The same, and what was found.
fn found(scenario: Scenario, fault: &str) -> Report {
    let report = explore(scenario);
    assert!(report.reference.is_empty(), "it goes wrong by itself: {report}");
    let finds = |word: &str| report.failures.iter().any(|failure| failure.plan.to_string().starts_with(word));
    assert!(finds(&format!("{fault}@")), "{fault} does not find it: {report}");
    report
}

/// What a program works for: a ConfigMap `web`, with what it wants.
fn app(wants: &str) -> ConfigMap {
    let mut app = ConfigMap::default();
    (app.metadata.name, app.metadata.namespace) = (Some("web".to_owned()), Some("default".to_owned()));
    app.data = Some([("wants".to_owned(), wants.to_owned())].into());
    app
}

fn wants(app: &ConfigMap) -> String {
    app.data.as_ref().and_then(|data| data.get("wants")).cloned().unwrap_or_default()
}
