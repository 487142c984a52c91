//! CEL rules as ValidatingAdmissionPolicies: both servers accept them, and enforce them like the schema.

use std::time::Duration;

use k8s_openapi::{
    api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_api::crd::CrdBuilder;
use windlass_client::Client;
use windlass_derive::{CustomResource, Schema};
use windlass_manifests::Manifests;

use conformance::{Target, eventually, on_each_target};

#[derive(Clone, Debug, Serialize, Deserialize, CustomResource)]
#[resource(group = "policies.example.com", version = "v1", plural = "ruledgates", crate = windlass_api, scope = "Cluster")]
#[schema(rule(rule = "self.metadata.name != 'taken'", message = "that name is taken"))]
struct RuledGate {
    metadata: ObjectMeta,
    spec: GateSpec,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(default)]
#[schema(crate = windlass_api, rule(rule = "self.low <= self.high", message = "low is above high", field_path = ".low"))]
struct GateSpec {
    low: i64,
    high: i64,
    #[schema(max_length = 20, rule(rule = "self == oldSelf", message = "it stays as it is"))]
    fixed: String,
    #[schema(max_items = 5, list_type = "map", map_keys("name"))]
    ports: Vec<Port>,
}

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[schema(crate = windlass_api, rule(rule = "self.number >= oldSelf.number", message = "it grows"))]
struct Port {
    #[schema(max_length = 10, rule(rule = "self != 'bad'", message_expression = "'not ' + self"))]
    name: String,
    number: i32,
}

fn gate(name: &str, low: i64) -> RuledGate {
    let ports = vec![Port { name: "a".to_owned(), number: 2 }];
    let spec = GateSpec { low, high: 5, fixed: "x".to_owned(), ports };
    RuledGate { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec }
}

/// Returns the CRD without its rules, so that only the policy validates.
fn without_rules() -> CustomResourceDefinition {
    let mut definition = CrdBuilder::of::<RuledGate>().build().unwrap();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    definition.spec.versions[0].schema = Some(serde_json::from_value(schema).unwrap());
    definition
}

/// Returns the error of a rejected object.
async fn refusal(client: &Client, gate: &RuledGate) -> String {
    client.update(gate).await.expect_err("a policy is against it").status().unwrap().message.clone()
}

#[tokio::test]
async fn generated_policies_are_accepted_and_enforced() {
    on_each_target(|target: Target| async move {
        let client = target.client.clone();
        client.create(&without_rules()).await.unwrap();
        let policies = Manifests::new("gates").kind::<RuledGate>().policies().unwrap();
        let [(policy, binding)] = policies.as_slice() else { panic!("{policies:?}") };
        let made: ValidatingAdmissionPolicy = client.create(policy).await.unwrap();
        let validations = |policy: &ValidatingAdmissionPolicy| policy.spec.clone().unwrap().validations.unwrap();
        assert_eq!(validations(&made), validations(policy));
        let made: ValidatingAdmissionPolicyBinding = client.create(binding).await.unwrap();
        assert_eq!(made.spec, binding.spec);
        eventually("the kind is served", async || client.create(&gate("made", 1)).await.ok()).await;
        enforced(&client).await;
        client.delete::<CustomResourceDefinition>("ruledgates.policies.example.com").await.unwrap();
        client.delete::<ValidatingAdmissionPolicy>("ruledgates.v1.policies.example.com").await.unwrap();
        client.delete::<ValidatingAdmissionPolicyBinding>("ruledgates.v1.policies.example.com").await.unwrap();
        target
    })
    .await;
}

async fn enforced(client: &Client) {
    let made = client.get::<RuledGate>("made").await.unwrap();
    let mut above = made.clone();
    above.spec.low = 6;
    let denial = "ValidatingAdmissionPolicy 'ruledgates.v1.policies.example.com' with binding 'ruledgates.v1.policies.example.com' denied request: ";
    // A server enforces a policy some time after its creation.
    let said = eventually("the policy is enforced", async || {
        let mut again = above.clone();
        again
            .metadata
            .resource_version
            .clone_from(&client.get::<RuledGate>("made").await.ok()?.metadata.resource_version);
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.update(&again).await.err()?.status().map(|status| status.message.clone())
    })
    .await;
    assert!(said.ends_with(&format!("{denial}spec.low: low is above high")), "{said}");
    let now = client.get::<RuledGate>("made").await.unwrap();
    let changed = |change: fn(&mut GateSpec)| {
        let mut gate = now.clone();
        gate.spec.low = 1;
        change(&mut gate.spec);
        gate
    };
    for (change, message) in [
        ((|spec| spec.fixed.push('y')) as fn(&mut GateSpec), "spec.fixed: it stays as it is"),
        (|spec| spec.ports[0].number = 1, "spec.ports[]: it grows"),
        (|spec| "bad".clone_into(&mut spec.ports[0].name), "spec.ports[].name: failed rule: self != 'bad'"),
    ] {
        let said = refusal(client, &changed(change)).await;
        assert!(said.ends_with(&format!("{denial}{message}")), "{said}");
    }
    client.update(&changed(|spec| spec.ports[0].number = 3)).await.unwrap();
    let said = client.create(&gate("taken", 1)).await.expect_err("the name is").status().unwrap().message.clone();
    assert!(said.ends_with(&format!("{denial}that name is taken")), "{said}");
}
