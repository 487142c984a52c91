//! Aggregated roles, and the resulting permissions.

use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use serde_json::{Value, json};
use windlass_controllers::{BuiltIn, Controllers};

use super::Observed;
use conformance::{Target, eventually, on_each_target, unique};

#[tokio::test]
async fn aggregated_role_follows_its_source_roles() {
    on_each_target(|target| async {
        gather(&target).await;
        target
    })
    .await;
}

fn role(name: &str, label: &str, content: (&str, Value)) -> ClusterRole {
    let mut role = json!({"metadata": {"name": name, "labels": {label: "true"}}});
    role[content.0] = content.1;
    serde_json::from_value(role).unwrap()
}

async fn gather(target: &Target) {
    let (client, name) = (&target.client, unique("gathers"));
    let (observed, ()) = Observed::start(client, &Controllers::of([BuiltIn::RoleAggregation]), |_| ()).await;
    let label = format!("{name}.example.com/part");
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {&label: "true"}}]});
    client.create(&role(&name, "whole", ("aggregationRule", selectors))).await.unwrap();
    let binding = json!({
        "metadata": {"name": name}, "subjects": [{"kind": "User", "name": name}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
    });
    client.create::<ClusterRoleBinding>(&serde_json::from_value(binding).unwrap()).await.unwrap();
    let may = async || {
        let review: SubjectAccessReview = serde_json::from_value(json!({"metadata": {}, "spec": {"user": name,
            "resourceAttributes": {"verb": "watch", "resource": "pods"}}}))
        .unwrap();
        client.create(&review).await.unwrap().status.unwrap().allowed
    };
    assert!(!may().await);
    let part = format!("{name}-part");
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]}]);
    client.create(&role(&part, &label, ("rules", rules))).await.unwrap();
    eventually("the rule is gathered", async || may().await.then_some(())).await;
    client.delete::<ClusterRole>(part.as_str()).await.unwrap();
    eventually("and given up", async || (!may().await).then_some(())).await;
    client.delete::<ClusterRoleBinding>(name.as_str()).await.unwrap();
    client.delete::<ClusterRole>(name.as_str()).await.unwrap();
    observed.stop().await;
}
