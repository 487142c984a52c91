//! The types of gateway-api, which are those of kube 4, in a Windlass controller.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use gateway_api::{gatewayclasses, httproutes};
use windlass_api::{
    ObjectBuilder as _, ObjectExt as _, Resource as _, Scope, crd::CustomResource as _,
    k8s_openapi::api::core::v1::ConfigMap,
};
use windlass_envtest::Environment;
use windlass_kube::kube_4::Compat;
use windlass_runtime::{Action, Context, Controller};

type HttpRoute = Compat<httproutes::HttpRoute>;
type GatewayClass = Compat<gatewayclasses::GatewayClass>;

/// Writes the host names of a route to a ConfigMap.
async fn reconcile(route: Arc<HttpRoute>, cx: Context) -> windlass_runtime::Result<Action> {
    let hosts = route.spec.hostnames.clone().unwrap_or_default().join(",");
    let routes = cx.store::<HttpRoute>().list().len().to_string();
    let data = [("hosts".to_owned(), hosts), ("routes".to_owned(), routes)].into();
    let map = ConfigMap::named(route.name()).with(|map| map.data = Some(data));
    cx.client().apply(&map.controlled_by(&*route)).await?;
    Ok(Action::await_change())
}

#[test]
fn wrapped_kinds_keep_their_resource() {
    let resource = HttpRoute::api_resource();
    assert_eq!(resource.path(Some("a")), "/apis/gateway.networking.k8s.io/v1/namespaces/a/httproutes");
    assert_eq!(GatewayClass::api_resource().scope, Scope::Cluster);
    assert_eq!(HttpRoute::definition().metadata.name.as_deref(), Some("httproutes.gateway.networking.k8s.io"));
}

#[tokio::test(start_paused = true)]
async fn http_route_is_reconciled_and_owns_children() {
    let env = Environment::start().await;
    let mut definition = HttpRoute::definition();
    // API servers require it for groups under k8s.io. gateway-api does not set it.
    let approval =
        ("api-approved.kubernetes.io".to_owned(), "https://github.com/kubernetes-sigs/gateway-api".to_owned());
    definition.annotations_mut().extend([approval]);
    env.install_definition(&definition).await.unwrap();
    let mut manager = env.manager();
    manager.add(Controller::<HttpRoute>::new().owns::<ConfigMap>().reconcile(reconcile));
    env.run(manager);

    let mut route = httproutes::HttpRoute::new("shop", httproutes::HttpRouteSpec::default());
    route.spec.hostnames = Some(vec!["shop.example.com".to_owned()]);
    let stored = env.client().create(&HttpRoute::new(route).unwrap()).await.unwrap();
    assert_eq!((stored.name(), stored.metadata.name.as_deref()), ("shop", Some("shop")));
    assert!(stored.uid().is_some());

    let serves = |hosts: &'static str| {
        let stored = stored.clone();
        move |map: &ConfigMap| map.is_controlled_by(&stored) && map.data.as_ref().unwrap()["hosts"] == hosts
    };
    env.eventually::<ConfigMap>("shop", serves("shop.example.com")).await;

    let mut changed = stored.clone();
    changed.spec.hostnames = Some(vec!["example.com".to_owned()]);
    changed.labels_mut().insert("a".to_owned(), "b".to_owned());
    let changed = env.client().update(&changed).await.unwrap();
    assert_eq!(changed.labels()["a"], "b", "the metadata of Windlass is written");
    env.eventually::<ConfigMap>("shop", serves("example.com")).await;
    env.client().delete::<HttpRoute>("shop").await.unwrap();
    env.eventually_gone::<HttpRoute>("shop").await;
    env.stop().await.unwrap();
}
