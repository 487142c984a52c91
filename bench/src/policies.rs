//! Creates admission policies, so that the cost of their evaluation can be measured.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::ConfigMap,
};
use serde_json::json;
use windlass_api::BoxError;
use windlass_client::{Client, Config};

/// The flags of `windlass-bench policies`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The number of policies
    #[arg(long, default_value_t = 10)]
    policies: usize,
}

/// The maximum time until the last policy is enforced.
const ENFORCED_WITHIN: Duration = Duration::from_secs(30);

/// The label that each policy forbids, followed by the number of the policy.
const FORBIDDEN: &str = "bench.example/forbidden-";

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let client = Client::new(Config::from_file(&options.kubeconfig)?)?.without_rate_limit();
    for number in 0..options.policies {
        let name = format!("bench-{number}");
        let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["pods", "configmaps"],
                }]},
                "variables": [{"name": "labels", "expression": "has(object.metadata.labels) ? object.metadata.labels : {}"}],
                "validations": [
                    {"expression": format!("!(\"{FORBIDDEN}{number}\" in variables.labels)"), "message": "forbidden"},
                    {"expression": "variables.labels.all(key, size(key) < 200 && size(variables.labels[key]) < 64)"},
                ],
            },
        }))?;
        client.create(&policy).await?;
        let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }))?;
        client.create(&binding).await?;
    }
    let Some(last) = options.policies.checked_sub(1) else { return Ok(()) };
    let forbidden: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "forbidden", "namespace": "default", "labels": {format!("{FORBIDDEN}{last}"): "true"}},
    }))?;
    let dry = client.with_dry_run();
    let enforced = async {
        while dry.create(&forbidden).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(ENFORCED_WITHIN, enforced)
        .await
        .map_err(|_| "the server does not enforce the policies that it was given".into())
}
