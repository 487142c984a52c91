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
    deployments.apply_scale(&scale).field_manager("me").force().await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /apis/apps/v1/namespaces/a/deployments/d/scale",
            "PUT /apis/apps/v1/namespaces/a/deployments/d/scale",
            "PATCH /apis/apps/v1/namespaces/a/deployments/d/scale?fieldManager=me&force=true",
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
async fn proxy_and_streams_are_reached_from_the_accessor() {
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

#[test]
fn the_scheme_knows_every_built_in_kind_as_its_type() {
    use windlass_api::{
        GroupVersionKind, Strictness,
        k8s_openapi::api::{autoscaling::v1::Scale, events::v1::Event},
    };
    let scheme = scheme();
    let kinds: Vec<_> = scheme.kinds().collect();
    assert!(kinds.len() > 70, "{}", kinds.len());
    for (group, version, kind) in
        [("", "v1", "Pod"), ("policy", "v1", "Eviction"), ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")]
    {
        assert!(scheme.recognizes(&GroupVersionKind::new(group, version, kind)), "{kind}");
    }
    assert_eq!(scheme.kinds_of::<Scale>().count(), 1);
    for kind in kinds {
        let object =
            format!(r#"{{"apiVersion":"{}","kind":"{}","metadata":{{"name":"a"}}}}"#, kind.api_version(), kind.kind);
        // Some types have required fields.
        match scheme.decode(object.as_bytes(), Strictness::Strict) {
            Ok(decoded) => assert_eq!((&decoded.kind, decoded.object.meta().name.as_deref()), (kind, Some("a"))),
            Err(error) => {
                let error = windlass_api::ErrorChain(&error).to_string();
                assert!(error.contains("missing field"), "{kind}: {error}");
            }
        }
    }
    let event = br#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{},"odd":1}"#;
    assert!(scheme.decode(event, Strictness::Lenient).unwrap().object.is::<Event>());
    assert!(scheme.decode(event, Strictness::Strict).unwrap_err().to_string().contains("unknown field \"odd\""));
}

#[tokio::test]
async fn certificate_is_approved_once_under_concurrency() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let writes = AtomicUsize::new(0);
    let fake = Fake::new(move |request| {
        let conflict = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}"#;
        if request.method() == http::Method::GET {
            let csr = r#"{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":"c","resourceVersion":"7"},"spec":{"request":"","signerName":"x.io/y"}}"#;
            return http::Response::new(csr.into());
        }
        if writes.fetch_add(1, Ordering::Relaxed) == 0 {
            return http::Response::builder().status(409).body(conflict.into()).unwrap();
        }
        http::Response::new(request.body().clone().into())
    });
    let requests = Clientset::new(fake.client()).certificates_v1().certificate_signing_requests();
    let approved = requests.approve("c").reason("Checked").message("all is well").await.unwrap();
    let conditions = approved.status.unwrap().conditions.unwrap();
    assert_eq!((conditions[0].type_.as_str(), conditions[0].status.as_str()), ("Approved", "True"));
    assert_eq!(
        (conditions[0].reason.as_deref(), conditions[0].message.as_deref()),
        (Some("Checked"), Some("all is well"))
    );
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests/c";
    let (read, write) = (format!("GET {path}"), format!("PUT {path}/approval"));
    assert_eq!(fake.seen(), [read.clone(), write.clone(), read, write]);
    assert!(String::from_utf8_lossy(fake.last().body()).contains(r#""resourceVersion":"7""#));
}

#[tokio::test]
async fn a_certificate_that_is_denied_already_is_not_written_again() {
    let fake = Fake::json(
        r#"{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":"c"},"spec":{"request":"","signerName":"x.io/y"},"status":{"conditions":[{"type":"Denied","status":"True","reason":"No"}]}}"#,
    );
    let denied = fake.client().deny("c").await.unwrap();
    assert_eq!(denied.status.unwrap().conditions.unwrap()[0].reason.as_deref(), Some("No"));
    assert_eq!(fake.seen().len(), 1);
}
