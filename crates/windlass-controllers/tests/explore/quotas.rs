//! Explorations of the controller that computes the usage of quotas.

use k8s_openapi::{
    api::core::v1::{Pod, ResourceQuota, Secret},
    serde_json::json,
};
use windlass_api::Patch;
use windlass_client::Client;
use windlass_controllers::BuiltIn;
use windlass_envtest::explore::{StepResult, explore};

use crate::{create, of};

async fn secret(client: Client, name: &'static str) -> StepResult {
    create::<Secret>(&client, json!({"metadata": {"name": name, "namespace": "default"}})).await
}

#[test]
fn resource_quotas() {
    let scenario = of(BuiltIn::ResourceQuota)
        .step("a quota for secrets and pods", |client| async move {
            secret(client.clone(), "first").await?;
            let hard = json!({"secrets": "9", "pods": "9", "count/pods": "9"});
            let quota = json!({"metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": hard}});
            create::<ResourceQuota>(&client, quota).await
        })
        .step("another secret", |client| secret(client, "second"))
        .step("the first is deleted", |client| async move {
            client.delete::<Secret>("first").await?;
            Ok(())
        })
        .step("a pod that ends", |client| async move {
            let spec = json!({"containers": [{"name": "web", "image": "web"}]});
            create::<Pod>(&client, json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})).await?;
            let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
            client.patch::<Pod>("web", ended).subresource("status").await?;
            Ok(())
        })
        .settled("the usage is that of the objects", |state| {
            let used = state.get::<ResourceQuota>("few").and_then(|quota| quota.status?.used).unwrap_or_default();
            let amount = |name: &str| used.get(name).map(|amount| amount.0.as_str());
            [amount("secrets"), amount("pods"), amount("count/pods")] == [Some("1"), Some("0"), Some("1")]
        });
    explore(scenario).assert();
}
