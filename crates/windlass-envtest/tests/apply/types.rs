//! Server-side applies of objects and of apply configurations, and the fields that they own.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_api::{
    ApplyConfiguration as _, ObjectBuilder as _, ObjectExt as _,
    k8s_openapi::{
        api::{
            apps::v1::{Deployment, DeploymentSpec},
            core::v1::{ConfigMap, PodSpec, PodTemplateSpec},
            networking::v1::{NetworkPolicy, NetworkPolicySpec},
        },
        apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
    },
    managed_fields::Manager,
};
use windlass_derive::{ApplyConfiguration, CustomResource, Schema};
use windlass_envtest::Environment;
use windlass_runtime::{Action, Context, Controller, Result};

use crate::{clients, owned};

/// A web page.
#[derive(Clone, Debug, Default, Serialize, Deserialize, CustomResource, ApplyConfiguration)]
#[resource(group = "example.com", version = "v1", status, crate = windlass_api)]
#[schema(crate = windlass_api)]
struct Website {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: WebsiteSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<WebsiteStatus>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema, ApplyConfiguration)]
#[serde(rename_all = "camelCase")]
#[schema(crate = windlass_api)]
#[apply(crate = windlass_api)]
struct WebsiteSpec {
    /// The image of the web server.
    image: String,
    #[serde(default)]
    max_replicas: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    theme: Option<Theme>,
    #[serde(default)]
    #[schema(list_type = "map", map_keys("path"))]
    pages: Vec<Page>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema, ApplyConfiguration)]
#[schema(crate = windlass_api)]
#[apply(crate = windlass_api, derive(PartialEq))]
struct Page {
    path: String,
    #[serde(default, rename = "heading")]
    title: String,
    #[serde(default)]
    draft: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Schema, ApplyConfiguration)]
#[schema(crate = windlass_api)]
#[apply(crate = windlass_api)]
enum Theme {
    Dark,
    Light,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema, ApplyConfiguration)]
#[schema(crate = windlass_api)]
#[apply(crate = windlass_api)]
struct WebsiteStatus {
    ready: bool,
    #[serde(default)]
    visits: i64,
}

fn deployment(spec: DeploymentSpec) -> Deployment {
    Deployment { spec: Some(spec), ..Deployment::named("web").in_namespace("default") }
}

/// Returns a complete Deployment, without replicas.
fn complete() -> Deployment {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}});
    deployment(serde_json::from_value(spec).unwrap())
}

#[tokio::test(start_paused = true)]
async fn apply_of_replicas_owns_replicas_only() {
    let env = Environment::start().await;
    let (one, other) = clients(&env);
    one.apply(&complete()).await.unwrap();
    let scaled = deployment(DeploymentSpec { replicas: Some(3), ..DeploymentSpec::default() });
    let scaled = other.apply(&scaled).await.unwrap();
    assert_eq!(owned(&scaled, "other"), json!({"f:spec": {"f:replicas": {}}}));
    // The managers apply disjoint fields without conflicts, in any order.
    let applied = one.apply(&complete()).await.unwrap();
    let spec = applied.spec.unwrap();
    assert_eq!((spec.replicas, spec.template.spec.unwrap().containers.len()), (Some(3), 1));
    let annotated = Deployment::named("web").in_namespace("default").annotation("team", "shop");
    let annotated = other.apply(&annotated).await.unwrap();
    assert_eq!(owned(&annotated, "other"), json!({"f:metadata": {"f:annotations": {"f:team": {}}}}));
}

#[tokio::test(start_paused = true)]
async fn defaults_are_owned_only_on_request() {
    let env = Environment::start().await;
    let client = env.client().with_field_owner("me");
    let spec = NetworkPolicySpec { policy_types: Some(vec!["Ingress".to_owned()]), ..NetworkPolicySpec::default() };
    let spec = NetworkPolicySpec { pod_selector: Some(LabelSelector::default()), ..spec };
    let policy = NetworkPolicy { spec: Some(spec), ..NetworkPolicy::named("all").in_namespace("default") };
    let applied = client.apply(&policy).await.unwrap();
    assert_eq!(owned(&applied, "me"), json!({"f:spec": {"f:podSelector": {}, "f:policyTypes": {}}}));
    let template = PodTemplateSpec { spec: Some(PodSpec::default()), ..PodTemplateSpec::default() };
    let spec = DeploymentSpec { template, ..DeploymentSpec::default() };
    client.clone().with_field_owner("one").apply(&complete()).await.unwrap();
    let applied = client.apply(&deployment(spec.clone())).await.unwrap();
    assert_eq!(owned(&applied, "me"), json!({"f:spec": {"f:template": {"f:spec": {}}}}));
    let conflict = client.apply(&deployment(spec)).own_defaults().await.unwrap_err();
    assert!(conflict.is_conflict(), "the selector has another value: {conflict}");
}

#[tokio::test(start_paused = true)]
async fn apply_configuration_owns_what_it_sets() {
    let env = Environment::start().await;
    env.define::<Website>().await;
    let (one, other) = clients(&env);
    let pages = [PageApply::new().path("/").title("Home"), PageApply::new().path("/a").draft(false)];
    let config = WebsiteApply::named("shop")
        .in_namespace("default")
        .label("app", "shop")
        .spec(WebsiteSpecApply::new().image("nginx").pages(pages).headers(BTreeMap::new()));
    let website: Website = one.apply(&config).await.unwrap();
    assert_eq!((website.spec.pages[0].title.as_str(), website.spec.max_replicas), ("Home", 0));
    let expected = json!({
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {
            "f:image": {},
            "f:headers": {},
            "f:pages": {
                r#"k:{"path":"/"}"#: {".": {}, "f:path": {}, "f:heading": {}},
                r#"k:{"path":"/a"}"#: {".": {}, "f:path": {}, "f:draft": {}},
            },
        },
    });
    assert_eq!(owned(&website, "one"), expected);

    let zero = WebsiteApply::named("shop").in_namespace("default");
    let zero = zero.spec(WebsiteSpecApply::new().max_replicas(0).theme(Theme::Dark));
    let website = other.apply(&zero).await.unwrap();
    assert_eq!((website.spec.image.as_str(), website.spec.theme), ("nginx", Some(Theme::Dark)));
    assert_eq!(owned(&website, "other"), json!({"f:spec": {"f:maxReplicas": {}, "f:theme": {}}}));
    assert_eq!(owned(&website, "one"), expected);
}

#[tokio::test(start_paused = true)]
async fn extracted_fields_keep_their_owner_when_applied() {
    let env = Environment::start().await;
    env.define::<Website>().await;
    let (one, other) = clients(&env);
    let site = || WebsiteApply::named("shop").in_namespace("default");
    let spec = WebsiteSpecApply::new().image("nginx").pages([PageApply::new().path("/").title("Home")]);
    one.apply(&site().spec(spec)).await.unwrap();
    other.apply(&site().label("app", "shop").spec(WebsiteSpecApply::new().max_replicas(2))).await.unwrap();
    let status = site().status(WebsiteStatusApply::new().ready(true));
    other.apply(&status).subresource("status").await.unwrap();

    let live = one.get::<Website>("shop").await.unwrap();
    let before = owned(&live, "one");
    let mut mine = WebsiteApply::extract(&live, Manager::new("one")).unwrap().unwrap();
    let spec = mine.spec.as_mut().unwrap();
    assert_eq!(spec.pages, Some(vec![PageApply::new().path("/").title("Home")]));
    assert!(spec.max_replicas.is_none() && mine.metadata.labels.is_none() && mine.status.is_none());
    spec.image = Some("caddy".to_owned());
    let website = one.apply(&mine).await.unwrap();
    assert_eq!((website.spec.image.as_str(), website.spec.max_replicas), ("caddy", 2));
    assert_eq!(owned(&website, "one"), before);

    let status = Manager::new("other").subresource("status");
    let theirs = WebsiteApply::extract(&website, status).unwrap().unwrap();
    assert!(theirs.spec.is_none() && theirs.metadata.name.as_deref() == Some("shop"));
    let status = theirs.status.unwrap();
    assert_eq!((status.ready, status.visits), (Some(true), None));
    assert!(WebsiteApply::extract(&website, Manager::new("none")).unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn built_in_object_is_extracted_and_applied_again() {
    let env = Environment::start().await;
    let (one, other) = clients(&env);
    one.apply(&complete()).await.unwrap();
    other.apply(&deployment(DeploymentSpec { replicas: Some(3), ..DeploymentSpec::default() })).await.unwrap();
    let live = one.get::<Deployment>("web").await.unwrap();
    let mut mine = Deployment::extract(&live, Manager::new("other")).unwrap().unwrap();
    assert_eq!(mine.spec, Some(DeploymentSpec { replicas: Some(3), ..DeploymentSpec::default() }));
    mine.spec.as_mut().unwrap().paused = Some(true);
    let paused = other.apply(&mine).await.unwrap();
    assert_eq!(owned(&paused, "other"), json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
    assert_eq!(owned(&paused, "one"), owned(&live, "one"));
}

#[tokio::test(start_paused = true)]
async fn object_converts_to_a_configuration_of_all_fields() {
    let website = Website {
        metadata: ObjectMeta { name: Some("shop".to_owned()), ..ObjectMeta::default() },
        spec: WebsiteSpec { image: "nginx".to_owned(), pages: vec![Page::default()], ..WebsiteSpec::default() },
        status: None,
    };
    let config = WebsiteApply::from(website).controlled_by(&ConfigMap::named("owner").in_namespace("shop"));
    let value = serde_json::to_value(&config).unwrap();
    assert_eq!(
        value["spec"],
        json!({"image": "nginx", "maxReplicas": 0, "pages": [{"path": "", "heading": "", "draft": false}], "headers": {}})
    );
    assert!(value.get("status").is_none(), "{value}");
    assert_eq!(
        (config.metadata.namespace.as_deref(), config.metadata.owner_references.unwrap().len()),
        (Some("shop"), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn custom_objects_omit_defaults_on_request() {
    let env = Environment::start().await;
    env.define::<Website>().await;
    let (one, other) = clients(&env);
    let site = || WebsiteApply::named("shop").in_namespace("default");
    one.apply(&site().spec(WebsiteSpecApply::new().image("nginx"))).await.unwrap();
    let labelled = Website { metadata: site().label("app", "shop").metadata, ..Website::default() };
    assert!(other.apply(&labelled).await.unwrap_err().is_conflict(), "the image is empty");
    let website = other.apply(&labelled).omit_defaults().await.unwrap();
    assert_eq!(owned(&website, "other")["f:metadata"], json!({"f:labels": {"f:app": {}}}));
    assert!(owned(&website, "other")["f:spec"].get("f:image").is_none());
}

async fn copy(source: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    if source.name() == "source" {
        cx.client().apply(&ConfigMap::named("copy").in_namespace("default").label("app", "copy")).await?;
    }
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn controllers_apply_in_the_name_of_program_and_controller() {
    let env = Environment::start().await;
    let mut manager = env.manager();
    manager.add(Controller::<ConfigMap>::new().named("copier").reconcile(copy));
    env.run(manager);
    env.client().create(&ConfigMap::named("source").in_namespace("default")).await.unwrap();
    env.eventually::<ConfigMap>("copy", |_| true).await;
    let copy = env.client().get::<ConfigMap>("copy").await.unwrap();
    let managers: Vec<_> =
        copy.metadata.managed_fields.unwrap().into_iter().map(|entry| entry.manager.unwrap()).collect();
    assert_eq!(managers, [format!("{}/copier", env.client().field_manager())]);
    env.stop().await.unwrap();
}
