//! The features of an environment, in process and with a paused clock.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use windlass_api::{
    ApiResource, DynamicObject, GroupVersionKind, ObjectBuilder as _, ObjectExt as _,
    k8s_openapi::{
        api::core::v1::{ConfigMap, Secret},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use windlass_derive::Resource;
use windlass_envtest::{Environment, Error, KubernetesVersion, RequestMatcher, User, Verb};
use windlass_runtime::{Action, Context, Controller};

#[derive(Clone, Debug, Default, Serialize, Deserialize, Resource)]
#[resource(group = "shop.example.com", version = "v1", k8s_openapi = k8s_openapi)]
struct Website {
    metadata: ObjectMeta,
    spec: WebsiteSpec,
    #[serde(default)]
    status: WebsiteStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebsiteSpec {
    image: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct WebsiteStatus {
    #[serde(default)]
    ready: bool,
}

fn website(name: &str) -> Website {
    let mut website = Website { spec: WebsiteSpec { image: "nginx".to_owned() }, ..Website::default() };
    (website.metadata.name, website.metadata.namespace) = (Some(name.to_owned()), Some("default".to_owned()));
    website
}

/// Creates a ConfigMap with the website's name, then marks the website as ready.
async fn reconcile(site: Arc<Website>, cx: Context) -> windlass_runtime::Result<Action> {
    let config = ConfigMap {
        data: Some([("image".to_owned(), site.spec.image.clone())].into()),
        ..ConfigMap::named(site.name()).in_namespace("default")
    };
    cx.client().apply(&config).await?;
    let mut ready = (*site).clone();
    ready.status.ready = true;
    cx.client().update_status(&ready).await?;
    Ok(Action::await_change())
}

async fn with_operator() -> Environment {
    let env = Environment::start().await;
    env.install::<Website>().await;
    let mut manager = env.manager();
    manager.add(Controller::<Website>::new().reconcile(reconcile));
    env.run(manager);
    env
}

#[tokio::test(start_paused = true)]
async fn an_operator_is_tested_in_process() {
    let env = with_operator().await;
    env.client().create(&website("blog")).await.unwrap();
    let config = env.eventually::<ConfigMap>("blog", |_| true).await;
    assert_eq!(config.data.unwrap()["image"], "nginx");
    let site = env.eventually::<Website>("blog", |site| site.status.ready).await;
    env.client().delete::<ConfigMap>("blog").await.unwrap();
    env.eventually_gone::<ConfigMap>("blog").await;
    assert_eq!(env.eventually_all::<Website>(|all| all.len() == 1).await[0].uid(), site.uid());
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn controller_waits_for_a_kind_that_is_installed_later() {
    let env = Environment::start().await;
    let mut manager = env.manager();
    manager.add(Controller::<Website>::new().reconcile(reconcile));
    env.run(manager);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(env.client().create(&website("blog")).await.unwrap_err().is_not_found(), "the kind is unknown");
    env.install::<Website>().await;
    env.client().create(&website("blog")).await.unwrap();
    // After a minute without the kind, the cache waits for up to half a minute, plus a random part, before it tries again.
    let expect = env.expect().patience(Duration::from_mins(5));
    expect.object::<Website>("blog", |site| site.status.ready).await;
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn eventually_fails_with_the_last_state() {
    let env = Environment::start().await;
    env.client().create(&ConfigMap::named("colors").in_namespace("default")).await.unwrap();
    let waiting = tokio::spawn({
        let expect = env.expect().patience(Duration::from_hours(1));
        async move { expect.object::<ConfigMap>("colors", |config| config.data.is_some()).await }
    });
    let told = waiting.await.unwrap_err().into_panic();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.contains("tests/environment.rs:"), "{told}");
    assert!(told.contains("ConfigMap colors did not reach the expected state within 3600s"), "{told}");
    assert!(told.contains("\"name\": \"colors\"") && !told.contains("managedFields"), "{told}");

    let missing = tokio::spawn({
        let expect = env.expect();
        async move { expect.object::<ConfigMap>("shapes", |_| true).await }
    });
    let told = missing.await.unwrap_err().into_panic();
    assert!(told.downcast_ref::<String>().unwrap().ends_with("last seen: it does not exist"));

    let broken = tokio::spawn({
        let (expect, client) = (env.expect(), env.client());
        async move {
            let changed = expect.always::<ConfigMap>("colors", |config| config.is_some());
            let (_, ()) = tokio::join!(async { client.delete::<ConfigMap>("colors").await.unwrap() }, changed);
        }
    });
    let told = broken.await.unwrap_err().into_panic();
    assert!(told.downcast_ref::<String>().unwrap().contains("the condition stopped holding"));
    env.expect().patience(Duration::from_mins(1)).always::<ConfigMap>("colors", |config| config.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn runs_with_one_seed_are_equal_and_use_tokios_clock() {
    let run = async |seed| {
        let env = Environment::builder().seed(seed).start().await.unwrap();
        let first = env.client().create(&ConfigMap::named("a")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(90)).await;
        let second = env.client().create(&ConfigMap::named("b")).await.unwrap();
        let time = |config: &ConfigMap| config.metadata.creation_timestamp.clone().unwrap().0;
        assert_eq!(time(&second).duration_since(time(&first)).as_secs(), 90);
        (first.uid().unwrap().to_owned(), time(&first))
    };
    let (one, again, other) = (run(1).await, run(1).await, run(2).await);
    assert_eq!(one, again);
    assert_ne!(one.0, other.0);
}

#[tokio::test(start_paused = true)]
async fn added_users_have_their_own_identity() {
    let env = Environment::start().await;
    let client = env.client_as(User::new("alice").in_groups(["developers", "system:masters"])).unwrap();
    let recorder = env.record(RequestMatcher::any().verb(Verb::Create));
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#)
        .unwrap();
    let answer: serde_json::Value = client.request_json(request).await.unwrap();
    assert_eq!(answer["status"]["userInfo"]["username"], "alice");
    assert_eq!(answer["status"]["userInfo"]["groups"][0], "developers");
    let requests = recorder.requests();
    assert_eq!((requests.len(), requests[0].sent.resource.as_str()), (1, "selfsubjectreviews"));
    assert_eq!(requests[0].sent.json()["kind"], "SelfSubjectReview");
    assert!(matches!(env.kubeconfig().unwrap_err(), Error::Unsupported(_)));
}

#[tokio::test(start_paused = true)]
async fn definitions_come_from_files_and_from_text() {
    let folder = std::env::temp_dir().join(format!("windlass-envtest-crds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let definition = |plural: &str, kind: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.example.com}}\n\
             spec:\n  group: example.com\n  scope: Namespaced\n  names: {{plural: {plural}, kind: {kind}}}\n  versions:\n  \
             - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        \
             properties:\n          spec: {{type: object, properties: {{size: {{type: integer, default: 3}}}}}}\n"
        )
    };
    let text = format!(
        "{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: not-installed}}\n",
        definition("boxes", "Box")
    );
    std::fs::write(folder.join("boxes.yaml"), text).unwrap();
    std::fs::write(folder.join("README.md"), "no manifest").unwrap();
    let env = Environment::builder().crds(&folder).start().await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(env.install_manifests(&definition("lids", "Lid")).await.unwrap(), ["lids.example.com"]);

    let resource = ApiResource::namespaced(GroupVersionKind::new("example.com", "v1", "Box"), "boxes");
    let mut object = DynamicObject::new(&resource, "b").within("default");
    object.data.insert("spec".to_owned(), serde_json::json!({}));
    let object = env.client().dynamic(&resource).create(&object).await.unwrap();
    assert_eq!(object.data["spec"]["size"], 3);
    assert!(env.client().get_opt::<ConfigMap>("not-installed").await.unwrap().is_none());

    let error = env.install_from(&folder).await.unwrap_err();
    assert!(matches!(&error, Error::File { path, .. } if *path == folder), "{error}");
    let error = env.install_manifests("kind: [").await.unwrap_err();
    assert_eq!(error.to_string(), "reading manifests");
    let error = env.install_manifests(&definition("boxes.", "Box")).await.unwrap_err();
    assert!(error.to_string().contains("installing CustomResourceDefinition boxes..example.com"), "{error}");
}

async fn nothing<K>(_: Arc<K>, _: Context) -> windlass_runtime::Result<Action> {
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn manager_error_is_reported_at_environment_stop() {
    let env = Environment::start().await;
    let mut manager = env.manager();
    manager.add(Controller::<Secret>::new().named("same").reconcile(nothing));
    manager.add(Controller::<ConfigMap>::new().named("same").reconcile(nothing));
    env.run(manager);
    let error = env.stop().await.unwrap_err();
    assert!(matches!(error, Error::Manager(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn environment_serves_the_selected_kubernetes_version() {
    for version in KubernetesVersion::ALL {
        let env = Environment::builder().kubernetes(*version).start().await.unwrap();
        let served = env.client().server_version().await.unwrap();
        assert!(served.git_version.starts_with(&format!("{}+", version.release())), "{}", served.git_version);
        env.stop().await.unwrap();
    }
}
