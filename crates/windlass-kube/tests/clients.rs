//! kube-rs clients over Windlass clients: against the embedded server, in process and over a socket.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::{
        controller::{Action, Controller},
        watcher,
    },
};
use windlass_api::{
    Status,
    k8s_openapi::{
        api::core::v1::{ConfigMap, Secret},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use windlass_envtest::{Environment, RequestMatcher};

fn colours() -> ConfigMap {
    let metadata = ObjectMeta { name: Some("colours".to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some([("door".to_owned(), "blue".to_owned())].into()), ..ConfigMap::default() }
}

/// Calls each kind of verb once.
async fn verbs(client: kube::Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let stored = maps.create(&PostParams::default(), &colours()).await.unwrap();
    let params = WatchParams::default().labels("paint=yes");
    let mut events = maps.watch(&params, &stored.resource_version().unwrap()).await.unwrap().boxed();

    let label = serde_json::json!({"metadata": {"labels": {"paint": "yes"}}});
    maps.patch("colours", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    let Some(WatchEvent::Added(seen)) = events.try_next().await.unwrap() else { panic!("the label selects the map") };
    assert_eq!(seen.labels()["paint"], "yes");

    let listed = maps.list(&ListParams::default().labels("paint=yes")).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    maps.delete("colours", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("colours").await.unwrap().is_none());
    let error = maps.get("colours").await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
}

#[tokio::test]
async fn kube_client_works_in_process() {
    let env = Environment::start().await;
    let requests = env.record(RequestMatcher::writes().of::<ConfigMap>());
    let client = windlass_kube::client(&env.client());
    assert_eq!(client.default_namespace(), "default");
    verbs(client).await;
    assert_eq!(requests.take().len(), 3, "the environment records the requests");
    env.stop().await.unwrap();
}

#[tokio::test]
async fn kube_client_works_over_a_socket_with_one_configuration() {
    let env = Environment::builder().listen().start().await.unwrap();
    let config = env.config().unwrap();
    verbs(windlass_kube::client_from(&config).unwrap()).await;
    env.stop().await.unwrap();
}

#[tokio::test]
async fn fault_of_the_environment_reaches_a_kube_client() {
    let env = Environment::start().await;
    let maps = Api::<ConfigMap>::default_namespaced(windlass_kube::client(&env.client()));
    let fault = env.on(RequestMatcher::writes().of::<ConfigMap>()).once().fail(Status::internal("not today"));
    let error = maps.create(&PostParams::default(), &colours()).await.unwrap_err().to_string();
    assert!(error.contains("not today"), "{error}");
    maps.create(&PostParams::default(), &colours()).await.unwrap();
    assert_eq!(fault.hits(), 1);
    env.stop().await.unwrap();
}

/// A kube-rs controller: copies ConfigMaps to Secrets.
async fn copy(map: Arc<ConfigMap>, client: Arc<kube::Client>) -> Result<Action, kube::Error> {
    let metadata = ObjectMeta { name: map.metadata.name.clone(), ..ObjectMeta::default() };
    let secret = Secret { metadata, string_data: map.data.clone(), ..Secret::default() };
    let secrets = Api::<Secret>::default_namespaced((*client).clone());
    secrets.patch(&map.name_any(), &PatchParams::apply("copier"), &Patch::Apply(&secret)).await?;
    Ok(Action::await_change())
}

#[tokio::test]
async fn kube_controller_runs_on_the_embedded_server() {
    let env = Environment::start().await;
    let client = windlass_kube::client(&env.client());
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let retry = |_: Arc<ConfigMap>, _: &kube::Error, _: Arc<kube::Client>| Action::requeue(Duration::from_secs(1));
    let controller = Controller::new(maps.clone(), watcher::Config::default());
    let running = tokio::spawn(controller.run(copy, retry, Arc::new(client)).for_each(|_| async {}));

    maps.create(&PostParams::default(), &colours()).await.unwrap();
    let copied = |secret: &Secret| secret.data.as_ref().is_some_and(|data| data["door"].0 == b"blue");
    env.eventually::<Secret>("colours", copied).await;
    running.abort();
    env.stop().await.unwrap();
}
