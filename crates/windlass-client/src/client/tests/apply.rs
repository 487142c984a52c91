use serde_json::{Map, json};
use windlass_api::{
    ApplyConfiguration, DynamicObject, ObjectBuilder as _, Resource as _,
    apply::Body,
    k8s_openapi::{
        api::{
            apps::v1::{Deployment, DeploymentSpec},
            core::v1::Pod,
        },
        apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
    },
};

use super::{POD, body, pod};
use crate::testing::Fake;

/// The fields of a pod.
struct PodFields(serde_json::Value);

impl ApplyConfiguration for PodFields {
    type Object = Pod;

    fn body(&self) -> Body<'_, Pod> {
        Body::of_fields(&self.0)
    }
}

#[tokio::test]
async fn parts_of_a_program_have_their_own_field_manager() {
    let fake = Fake::json(POD);
    let client = fake.client();
    let part = client.clone().with_component("website");
    assert_eq!(part.field_manager(), format!("{}/website", client.field_manager()));
    assert_eq!(part.clone().with_component("other").field_manager(), part.field_manager());
    part.apply(&pod(None, "p")).await.unwrap();
    part.create(&pod(None, "p")).await.unwrap();
    let query = format!("fieldManager={}%2Fwebsite", client.field_manager());
    assert!(fake.seen().iter().all(|request| request.ends_with(&query)), "{:?}", fake.seen());
    let chosen = client.with_field_owner("me").with_component("website");
    assert_eq!((chosen.field_manager(), chosen.field_owner()), ("me", Some("me")));
}

#[tokio::test]
async fn apply_omits_required_fields_that_are_not_set() {
    let fake = Fake::json(r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}"#);
    let client = fake.client().with_field_owner("me");
    let spec = DeploymentSpec { replicas: Some(0), ..DeploymentSpec::default() };
    let scaled = Deployment { spec: Some(spec), ..Deployment::named("d") };
    client.apply(&scaled).await.unwrap();
    assert_eq!(body(&fake)["spec"], json!({"replicas": 0}));
    client.apply(&scaled).own_defaults().await.unwrap();
    assert_eq!(body(&fake)["spec"], json!({"replicas": 0, "selector": {}, "template": {}}));
    client.create(&scaled).await.unwrap();
    assert_eq!(body(&fake)["spec"], json!({"replicas": 0, "selector": {}, "template": {}}));
    let dynamic: DynamicObject = serde_json::from_value(serde_json::to_value(&scaled).unwrap()).unwrap();
    client.dynamic(&Deployment::api_resource()).apply(&dynamic).await.unwrap();
    assert_eq!(body(&fake)["spec"], json!({"replicas": 0, "selector": {}, "template": {}}));
}

#[tokio::test]
async fn apply_sends_all_but_the_managed_fields() {
    let fake = Fake::json(POD);
    let mut object = pod(Some("a"), "p");
    object.metadata.managed_fields = Some(vec![ManagedFieldsEntry::default()]);
    fake.client().apply(&object).field_manager("me").force().await.unwrap();
    assert_eq!(fake.seen(), ["PATCH /api/v1/namespaces/a/pods/p?fieldManager=me&force=true"]);
    assert_eq!(fake.last().headers()["content-type"], "application/apply-patch+yaml");
    assert_eq!(body(&fake), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}));
}

#[tokio::test]
async fn apply_configurations_are_sent_as_they_are() {
    let fake = Fake::json(POD);
    let client = fake.client().with_field_owner("me");
    let fields = json!({"metadata": {"name": "p", "namespace": "a", "managedFields": []}, "spec": {"containers": []}});
    let pod = client.apply(&PodFields(fields)).await.unwrap();
    assert_eq!(pod.metadata.name.as_deref(), Some("p"));
    assert_eq!(fake.seen(), ["PATCH /api/v1/namespaces/a/pods/p?fieldManager=me"]);
    let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": []}});
    assert_eq!(body(&fake), expected);
    let error = client.apply(&PodFields(Map::new().into())).await.unwrap_err().to_string();
    assert!(error.starts_with("apply pods"), "{error}");
    let error = client.apply(&PodFields(json!(7))).await.unwrap_err().to_string();
    assert!(error.starts_with("apply pods"), "{error}");
}
