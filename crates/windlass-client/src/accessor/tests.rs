use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_api::{
    Patch, Preconditions,
    k8s_openapi::{self, api::authentication::v1::TokenRequest, apimachinery::pkg::apis::meta::v1::ObjectMeta},
};

use super::*;
use crate::testing::Fake;

const STATUS: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Success","code":201}"#;

served! {
    Website: All Status Bind Evict EphemeralContainers Resize Token;
}

/// A custom resource without the fields `apiVersion` and `kind`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Website {
    metadata: ObjectMeta,
    #[serde(default)]
    replicas: i32,
}

impl k8s_openapi::Resource for Website {
    const API_VERSION: &'static str = "x.io/v1";
    const GROUP: &'static str = "x.io";
    const KIND: &'static str = "Website";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "websites";
    type Scope = k8s_openapi::NamespaceResourceScope;
}

impl k8s_openapi::Metadata for Website {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// Returns a server that answers with the body that it receives.
fn echo() -> Fake {
    Fake::new(|request| {
        let body = if request.body().is_empty() { "{}".into() } else { request.body().clone() };
        Response::new(crate::body::Body::from(body))
    })
}

fn body(fake: &Fake) -> Value {
    serde_json::from_slice(fake.last().body()).unwrap()
}

#[tokio::test]
async fn calls_are_about_the_namespace_of_the_accessor() {
    let fake = Fake::json(r#"{"metadata":{},"items":[]}"#);
    let pods = |namespace| Accessor::<Website>::typed(&fake.client(), namespace);
    pods("a").list().await.unwrap();
    pods("").list().await.unwrap();
    drop(pods("a").watch().await.unwrap());
    pods("a").delete_collection().labels("x=y").await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "GET /apis/x.io/v1/namespaces/a/websites",
            "GET /apis/x.io/v1/websites",
            "GET /apis/x.io/v1/namespaces/a/websites?watch=true",
            "DELETE /apis/x.io/v1/namespaces/a/websites?labelSelector=x%3Dy"
        ]
    );
}

#[tokio::test]
async fn object_namespace_comes_from_accessor_or_object() {
    let fake = echo();
    let mut pod = Website { metadata: named("p"), replicas: 1 };
    pod.metadata.namespace = Some("own".to_owned());
    Accessor::<Website>::typed(&fake.client(), "a").create(&pod).await.unwrap();
    Accessor::<Website>::typed(&fake.client(), "").update_status(&pod).await.unwrap();
    Accessor::<Website>::typed(&fake.client(), "a").apply_status(&pod).field_manager("me").await.unwrap();
    Accessor::<Website>::typed(&fake.client(), "a").update_resize(&pod).await.unwrap();
    Accessor::<Website>::typed(&fake.client(), "a").update_ephemeral_containers(&pod).await.unwrap();
    assert_eq!(
        fake.seen(),
        [
            "POST /apis/x.io/v1/namespaces/a/websites",
            "PUT /apis/x.io/v1/namespaces/own/websites/p/status",
            "PATCH /apis/x.io/v1/namespaces/a/websites/p/status?fieldManager=me",
            "PUT /apis/x.io/v1/namespaces/a/websites/p/resize",
            "PUT /apis/x.io/v1/namespaces/a/websites/p/ephemeralcontainers",
        ]
    );
}

#[tokio::test]
async fn pods_are_bound_and_evicted_by_name() {
    let fake = Fake::json(STATUS);
    let pods = Accessor::<Website>::typed(&fake.client(), "a");
    pods.bind("p", "n1").await.unwrap();
    assert_eq!(fake.seen(), ["POST /apis/x.io/v1/namespaces/a/websites/p/binding"]);
    assert_eq!(body(&fake)["metadata"], json!({"name": "p"}));
    assert_eq!(body(&fake)["target"], json!({"apiVersion": "v1", "kind": "Node", "name": "n1"}));
    let answer = pods.evict("p").await.unwrap();
    assert_eq!(answer.code, 201);
    assert_eq!(body(&fake), json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}));
    let only = Preconditions { uid: Some("u".to_owned()), ..Preconditions::default() };
    pods.evict("p").grace_period(std::time::Duration::from_secs(3)).preconditions(only).dry_run().await.unwrap();
    assert_eq!(fake.seen().last().unwrap(), "POST /apis/x.io/v1/namespaces/a/websites/p/eviction?dryRun=All");
    assert_eq!(
        body(&fake)["deleteOptions"],
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3,
            "preconditions": {"uid": "u"}, "dryRun": ["All"]})
    );
}

#[tokio::test]
async fn eviction_blocked_by_a_budget_is_identified() {
    let fake = Fake::failure(
        429,
        r#"{"kind":"Status","apiVersion":"v1","reason":"TooManyRequests","code":429,"message":"Cannot evict pod"}"#,
    );
    let error = Accessor::<Website>::typed(&fake.client(), "a").evict("p").await.unwrap_err();
    assert_eq!(error.operation().unwrap().to_string(), r#"create websites.x.io/eviction "a/p""#);
    assert_eq!(error.status().unwrap().code, 429);
}

#[tokio::test]
async fn tokens_are_requested_from_the_account() {
    let fake = echo();
    let accounts = Accessor::<Website>::typed(&fake.client(), "a");
    accounts.create_token("robot", &TokenRequest::default()).await.unwrap();
    assert_eq!(fake.seen(), ["POST /apis/x.io/v1/namespaces/a/websites/robot/token"]);
    assert_eq!(body(&fake)["kind"], "TokenRequest");
}

#[tokio::test]
async fn a_custom_kind_is_sent_with_the_kind_that_it_does_not_hold() {
    let fake = echo();
    let websites = fake.client().custom::<Website>("a");
    let website = websites.create(&Website { metadata: named("w"), replicas: 3 }).await.unwrap();
    assert_eq!(website.replicas, 3);
    assert_eq!(
        body(&fake),
        json!({"apiVersion": "x.io/v1", "kind": "Website", "metadata": {"name": "w"}, "replicas": 3})
    );
    websites.patch_status("w", Patch::Merge(json!({}))).await.unwrap_err();
    assert_eq!(fake.seen()[1], "PATCH /apis/x.io/v1/namespaces/a/websites/w/status");
}

/// A custom resource with optional fields `apiVersion` and `kind`, after its metadata.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

impl k8s_openapi::Resource for Typed {
    const API_VERSION: &'static str = "x.io/v1";
    const GROUP: &'static str = "x.io";
    const KIND: &'static str = "Typed";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "typeds";
    type Scope = k8s_openapi::NamespaceResourceScope;
}

impl k8s_openapi::Metadata for Typed {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test]
async fn api_version_and_kind_are_sent_once() {
    for api_version in [None, Some("x.io/v1".to_owned())] {
        for kind in [None, Some("Typed".to_owned())] {
            let fake = echo();
            let object = Typed { metadata: named("t"), api_version: api_version.clone(), kind };
            fake.client().custom::<Typed>("a").create(&object).await.unwrap();
            let sent = body(&fake);
            assert_eq!(
                sent,
                json!({"apiVersion": "x.io/v1", "kind": "Typed", "metadata": {"name": "t"}}),
                "{object:?}"
            );
        }
    }
}

#[tokio::test]
async fn resource_by_url_keeps_unknown_fields() {
    let fake = Fake::json(r#"{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"f"},"spec":{"odd":[1]}}"#);
    let foos = fake.client().dynamic_at(&GroupVersionResource::new("x.io", "v1", "foos"));
    let foo = foos.clone().within("a").get("f").await.unwrap();
    foos.clone().within("a").update(&foo).await.unwrap();
    assert_eq!(body(&fake)["spec"]["odd"], json!([1]));
    foos.get("f").await.unwrap();
    let paths = fake.seen();
    assert_eq!(
        paths,
        ["GET /apis/x.io/v1/namespaces/a/foos/f", "PUT /apis/x.io/v1/namespaces/a/foos/f", "GET /apis/x.io/v1/foos/f"]
    );
}
