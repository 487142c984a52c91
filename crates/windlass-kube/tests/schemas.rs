//! Schemas of schemars in the kinds of Windlass.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_api::{
    ErrorChain, ObjectBuilder as _,
    crd::{CustomResource as _, schema_of},
    k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use windlass_derive::CustomResource;
use windlass_envtest::Environment;
use windlass_kube::Schemars;

/// A kind of Windlass whose spec still has the schema of schemars.
#[derive(Clone, Debug, Default, Serialize, Deserialize, CustomResource)]
#[resource(group = "example.com", version = "v1", crate = windlass_api)]
struct Website {
    metadata: ObjectMeta,
    #[schema(as = Schemars<Settings>)]
    spec: Settings,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Settings {
    #[schemars(length(min = 1))]
    image: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<Level>,
    #[serde(flatten)]
    more: Limits,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
enum Level {
    Low,
    High,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Limits {
    #[serde(default)]
    memory: u32,
}

/// A type that contains itself.
#[derive(JsonSchema)]
struct Tree {
    #[expect(dead_code, reason = "only its schema is used")]
    children: Vec<Self>,
}

#[test]
fn schema_is_structural() {
    let schema = serde_json::to_value(schema_of::<Schemars<Settings>>()).unwrap();
    assert_eq!(
        schema["properties"]["level"],
        json!({"enum": ["Low", "High", null], "nullable": true, "type": "string"})
    );
    assert_eq!(schema["properties"]["memory"]["format"], "uint32");
    assert!(!schema.to_string().contains("$ref"), "{schema}");
}

#[test]
fn recursive_type_is_reported() {
    let schema = schema_of::<Schemars<Tree>>();
    assert!(schema.ref_path.is_some_and(|reason| reason.contains("Tree contains itself")));
}

#[tokio::test(start_paused = true)]
async fn server_enforces_a_schema_of_schemars() {
    let env = Environment::start().await;
    env.install_definition(&Website::definition()).await.unwrap();
    let error = env.client().create(&Website::named("blog")).await.unwrap_err();
    let error = ErrorChain(&error).to_string();
    assert!(error.contains("spec.image"), "{error}");
    let spec = Settings { image: "nginx".to_owned(), ..Settings::default() };
    env.client().create(&Website::named("blog").with(|website| website.spec = spec)).await.unwrap();
    env.stop().await.unwrap();
}
