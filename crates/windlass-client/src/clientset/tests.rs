use windlass_api::Scope;

use super::*;
use crate::testing::Fake;

#[tokio::test]
async fn each_group_has_its_resources_with_their_scope() {
    let fake = Fake::json(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"test"}}"#);
    let clientset = Clientset::new(fake.client());
    clientset.core_v1().pods("default").get("test").await.unwrap();
    assert_eq!(fake.seen(), ["GET /api/v1/namespaces/default/pods/test"]);
    let path = |resource: &windlass_api::ApiResource| resource.path(None);
    assert_eq!(
        path(clientset.rbac_v1().roles("a").resources().api_resource()),
        "/apis/rbac.authorization.k8s.io/v1/roles"
    );
    assert_eq!(
        path(clientset.apiextensions_v1().custom_resource_definitions().resources().api_resource()),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    );
    assert_eq!(clientset.core_v1().nodes().resources().api_resource().scope, Scope::Cluster);
    assert_eq!(clientset.autoscaling_v2().horizontal_pod_autoscalers("a").namespace(), Some("a"));
}

#[tokio::test]
async fn subresources_are_where_the_api_has_them() {
    let fake = Fake::json(
        r#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"a"},"spec":{"replicas":2}}"#,
    );
    let deployments = Clientset::new(fake.client()).apps_v1().deployments("a");
    let mut scale = deployments.get_scale("d").await.unwrap();
    scale.spec.get_or_insert_default().replicas = Some(3);
    deployments.update_scale(&scale).await.unwrap();
    deployments.apply_scale(&scale).force().await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /apis/apps/v1/namespaces/a/deployments/d/scale",
            "PUT /apis/apps/v1/namespaces/a/deployments/d/scale",
            "PATCH /apis/apps/v1/namespaces/a/deployments/d/scale?fieldManager=windlass&force=true",
        ]
    );
}

#[tokio::test]
async fn a_binding_is_posted_and_answered_by_a_status() {
    let fake = Fake::json(r#"{"kind":"Status","apiVersion":"v1","status":"Success","code":201}"#);
    let binding = windlass_api::k8s_openapi::api::core::v1::Binding::default();
    let answer = Clientset::new(fake.client()).core_v1().bindings("a").submit(&binding).await.unwrap();
    assert_eq!((answer.code, fake.seen()), (201, vec!["POST /api/v1/namespaces/a/bindings".to_owned()]));
}

#[tokio::test]
async fn what_stands_behind_an_object_is_reached_from_its_accessor() {
    let fake = Fake::json("{}");
    let core = Clientset::new(fake.client()).core_v1();
    core.pods("a").logs("p").tail(3).await.unwrap();
    core.pods("a").proxy("p").get("/").await.unwrap();
    core.services("a").proxy("s").port("80").get("/").await.unwrap();
    core.nodes().proxy("n").get("/metrics").await.unwrap();
    core.pods("a").exec("p", ["ls"]).await.unwrap_err();
    core.pods("a").attach("p").await.unwrap_err();
    core.pods("a").port_forward("p").connect(80).await.unwrap_err();
    assert_eq!(
        fake.seen(),
        [
            "GET /api/v1/namespaces/a/pods/p/log?tailLines=3",
            "GET /api/v1/namespaces/a/pods/p/proxy/",
            "GET /api/v1/namespaces/a/services/s:80/proxy/",
            "GET /api/v1/nodes/n/proxy/metrics",
            "GET /api/v1/namespaces/a/pods/p/exec?command=ls&stdout=true&stderr=true",
            "GET /api/v1/namespaces/a/pods/p/attach?stdout=true&stderr=true",
            "GET /api/v1/namespaces/a/pods/p/portforward?ports=80",
        ]
    );
}
