//! Metrics that scenarios write as objects. Their APIs are CRDs, which controllers read like any other API.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_client::Client;

use super::{Scenario, kinds::Kind};

/// The group of resource usage metrics.
pub(super) const RESOURCE: &str = "metrics.k8s.io";
/// The group of external metrics.
pub(super) const EXTERNAL: &str = "external.metrics.k8s.io";
/// The only external metric. Each metric is a resource.
pub(super) const DEPTHS: &str = "depths";

/// The kinds of metrics, and their resources.
const DEFINED: [(&str, &str, &str); 2] = [("PodMetrics", RESOURCE, "pods"), ("ExternalMetricValue", EXTERNAL, DEPTHS)];
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(200);

/// Creates the CRDs of the metrics that scenarios write, and waits until they are served.
///
/// # Panics
///
/// If they cannot be created or are not served.
pub async fn define(client: &Client, scenarios: &[Scenario]) {
    for (kind, group, plural) in DEFINED {
        if !scenarios.iter().any(|scenario| scenario.makes(kind)) {
            continue;
        }
        let definitions = client.dynamic(&Kind::find("CustomResourceDefinition").resource(""));
        let made = serde_json::from_value(definition(kind, group, plural)).expect("a definition is an object");
        match definitions.create(&made).await {
            Err(error) if !error.is_already_exists() => panic!("{kind}: {}", error.chain()),
            _ => {}
        }
        let start = Instant::now();
        while let Err(error) = client.dynamic(&Kind::find(kind).resource("")).list().within("default").await {
            assert!(start.elapsed() < PATIENCE, "{kind} is not served: {}", error.chain());
            sleep(LOOK).await;
        }
    }
}

fn definition(kind: &str, group: &str, plural: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    })
}
