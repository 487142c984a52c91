//! A kind with `#[derive(kube::CustomResource)]` in controllers, listers, clients and manifests of Windlass.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_api::{
    DynamicObject, ErrorChain, ObjectBuilder as _, ObjectExt as _, Patch, Resource, Scope,
    crd::CrdBuilder,
    k8s_openapi::{
        api::core::v1::{ConfigMap, Secret},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use windlass_envtest::Environment;
use windlass_manifests::{Manifests, Part};
use windlass_runtime::{Action, Context, Controller, Reconciler};

/// A web page.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus",
    shortname = "web",
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas")
)]
struct WebsiteSpec {
    #[schemars(length(min = 1))]
    image: String,
    #[serde(default)]
    #[schemars(range(min = 0, max = 9))]
    replicas: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
}

/// The origin of the pages: an enum with data, which schemars describes with `oneOf`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Source {
    Git(String),
    Volume { claim: String },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    replicas: i32,
}

/// A kind of the same program with the derive of Windlass.
#[derive(Clone, Debug, Default, Serialize, Deserialize, windlass_derive::Resource)]
#[resource(group = "example.com", version = "v1", scope = "Cluster", crate = windlass_api)]
struct Theme {
    metadata: ObjectMeta,
}

fn website(name: &str, image: &str) -> Website {
    let spec = WebsiteSpec { image: image.to_owned(), replicas: 2, source: Some(Source::Git("main".to_owned())) };
    Website::new(name, spec)
}

#[test]
fn kube_and_windlass_types_have_their_resource() {
    let resource = Website::api_resource_of();
    assert_eq!(resource.path(Some("shop")), "/apis/example.com/v1/namespaces/shop/websites");
    assert_eq!(<Theme as Resource>::api_resource().scope, Scope::Cluster);
    assert_eq!(<ConfigMap as Resource>::api_resource().path(None), "/api/v1/configmaps");
    assert_eq!(<Secret as Resource>::api_resource().kind, "Secret");
}

impl Website {
    /// Both libraries have a function `api_resource`.
    fn api_resource_of() -> windlass_api::ApiResource {
        <Self as Resource>::api_resource()
    }
}

/// Writes a ConfigMap with the number of cached websites.
struct Count;

impl Reconciler<Website> for Count {
    type Error = windlass_runtime::Error;

    async fn reconcile(&self, website: Arc<Website>, cx: Context) -> Result<Action, Self::Error> {
        let known = cx.store::<Website>().list().len();
        let count = ConfigMap::named(website.name()).with(|map| {
            map.data = Some([("known".to_owned(), known.to_string())].into());
        });
        cx.client().apply(&count.controlled_by(&*website)).await?;
        let status = WebsiteStatus { replicas: website.spec.replicas };
        if website.status.as_ref() != Some(&status) {
            let mut website = (*website).clone();
            website.status = Some(status);
            cx.client().update_status(&website).await?;
        }
        Ok(Action::await_change())
    }
}

#[tokio::test(start_paused = true)]
async fn derived_type_has_verbs_listers_and_controllers() {
    let env = Environment::start().await;
    env.install_definition(&Website::crd()).await.unwrap();
    let mut manager = env.manager();
    manager.add(Controller::<Website>::new().owns::<ConfigMap>().reconcile(Count));
    env.run(manager);

    let client = env.client();
    let created = client.create(&website("blog", "nginx")).await.unwrap();
    env.eventually::<ConfigMap>("blog", |map| map.data.as_ref().is_some_and(|data| data["known"] == "1")).await;
    let blog = env.eventually::<Website>("blog", |blog| blog.status.is_some()).await;
    assert_eq!((blog.status.unwrap().replicas, blog.metadata.uid), (2, created.metadata.uid));

    let patched = client.patch::<Website>("blog", Patch::Merge(json!({"spec": {"replicas": 3}}))).await.unwrap();
    assert_eq!(patched.spec.replicas, 3);
    assert!(matches!(patched.spec.source, Some(Source::Git(branch)) if branch == "main"));
    assert_eq!(client.list::<Website>().await.unwrap().items.len(), 1);
    client.delete::<Website>("blog").await.unwrap();
    env.eventually_gone::<Website>("blog").await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn schema_of_schemars_is_enforced_by_the_server() {
    let env = Environment::start().await;
    env.define::<Website>().await;
    let client = env.client();
    let error = client.create(&website("empty", "")).await.unwrap_err();
    let error = ErrorChain(&error).to_string();
    assert!(error.contains("spec.image"), "{error}");
    // Unknown fields are pruned, so the schema is structural, and both variants of the enum are in it.
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "a"},
        "spec": {"image": "nginx", "colour": "red", "source": {"volume": {"claim": "c", "size": 1}}},
    }))
    .unwrap();
    let websites = client.dynamic(&<Website as Resource>::api_resource());
    let stored = websites.create(&object).await.unwrap();
    assert_eq!(stored.data["spec"], json!({"image": "nginx", "replicas": 0, "source": {"volume": {"claim": "c"}}}));
    env.stop().await.unwrap();
}

#[test]
fn manifests_contain_the_kube_definition() {
    let by_type = Manifests::new("website-operator").kind::<Website>();
    let by_value = Manifests::new("website-operator").definition(CrdBuilder::declared([Website::crd()]));
    let [files, same] = [by_type, by_value].map(|manifests| {
        manifests.check().unwrap();
        manifests.files(Part::Crds).unwrap()
    });
    assert_eq!(files[0].text, same[0].text);
    assert_eq!(files[0].path, "crd/bases/example.com_websites.yaml");
    assert!(files[0].text.contains("specReplicasPath: .spec.replicas"), "{}", files[0].text);
}
