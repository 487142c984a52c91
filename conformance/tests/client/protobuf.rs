//! A client that prefers protobuf.

use std::sync::Arc;

use conformance::{Target, on_each_target, unique};
use futures::{StreamExt, TryStreamExt};
use http::header;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_api::{
    ApiResource, DynamicObject, EventType, GroupVersionKind, ListItem, ListOptions, ListWatch, Object, ObjectExt,
    Patch, Resource, WatchOptions,
};
use windlass_client::{Body, Client, ContentType, WatchEvent};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The media types of requests and responses, in the order of the responses.
#[derive(Clone, Default)]
struct Types(Arc<Mutex<Vec<(Option<String>, String)>>>);

impl Types {
    /// Returns the media types of the last request's body and of its response.
    fn last(&self) -> (Option<String>, String) {
        self.0.lock().last().unwrap().clone()
    }
}

/// Returns a client that prefers protobuf, and the media types of its requests.
fn recorded(target: &Target) -> (Client, Types) {
    let types = Types::default();
    let kept = types.clone();
    let transport = target.config.connect().unwrap();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (transport, seen) = (transport.clone(), kept.clone());
        async move {
            let text = |headers: &http::HeaderMap| {
                headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap().to_owned())
            };
            let sent = text(request.headers());
            let response = transport.oneshot(request).await?;
            seen.0.lock().push((sent, text(response.headers()).unwrap_or_default()));
            Ok::<_, windlass_api::BoxError>(response)
        }
    });
    (Client::from_service(service, "default").with_content_type(ContentType::Protobuf), types)
}

async fn namespace(client: &Client) -> String {
    let name = unique("protobuf");
    let namespace: Namespace = read(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    client.create(&namespace).await.unwrap();
    name
}

fn read<K: Object>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

fn config_map(namespace: &str, name: &str) -> ConfigMap {
    read(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": "test"}}}))
}

fn both() -> (Option<String>, String) {
    (Some(PROTOBUF.to_owned()), PROTOBUF.to_owned())
}

#[tokio::test]
async fn verbs_of_built_in_kinds_use_protobuf_and_return_the_objects_of_json() {
    on_each_target(|target| async move {
        let (client, types) = recorded(&target);
        let in_json = target.client.clone().with_content_type(ContentType::Json);
        let ns = namespace(&client).await;
        assert_eq!(types.last(), both());
        let created = client.create(&config_map(&ns, "a")).await.unwrap();
        assert_eq!(types.last(), both());
        let json = in_json.get::<ConfigMap>("a").within(&ns).await.unwrap();
        assert_eq!(created, json);

        let mut changed = client.get::<ConfigMap>("a").within(&ns).await.unwrap();
        assert_eq!(types.last(), (None, PROTOBUF.to_owned()));
        assert_eq!(changed, json);
        changed.labels_mut().insert("x".to_owned(), "y".to_owned());
        client.update(&changed).await.unwrap();
        assert_eq!(types.last(), both());
        assert!(client.update(&changed).await.unwrap_err().is_conflict());
        assert!(client.create(&config_map(&ns, "a")).await.unwrap_err().is_already_exists());
        assert!(client.get::<ConfigMap>("none").within(&ns).await.unwrap_err().is_not_found());

        let merge = Patch::Merge(json!({"data": {"k": "w"}}));
        let patched = client.patch::<ConfigMap>("a", merge).within(&ns).await.unwrap();
        assert_eq!((patched.data.unwrap()["k"].as_str(), types.last().1.as_str()), ("w", PROTOBUF));
        client.apply(&config_map(&ns, "b")).force().await.unwrap();

        let secret: Secret =
            read(json!({"metadata": {"name": "s", "namespace": ns}, "stringData": {"k": "v"}, "data": {"b": "AAH/"}}));
        let stored = client.create(&secret).await.unwrap();
        assert_eq!(stored.data.as_ref().unwrap()["b"].0, [0, 1, 255]);
        assert_eq!(stored.data.as_ref().unwrap()["k"].0, b"v");

        let list = client.list::<ConfigMap>().within(&ns).labels("app=test").await.unwrap();
        assert_eq!(types.last().1, PROTOBUF);
        let expected = in_json.list::<ConfigMap>().within(&ns).labels("app=test").await.unwrap();
        assert_eq!(list.items, expected.items);
        let page = client.list::<ConfigMap>().within(&ns).labels("app=test").limit(1).await.unwrap();
        assert!(page.items.len() == 1 && page.metadata.continue_token.is_some());
        client.delete::<ConfigMap>("a").within(&ns).await.unwrap();
        target
    })
    .await;
}

#[tokio::test]
async fn watches_use_protobuf() {
    on_each_target(|target| async move {
        let (client, types) = recorded(&target);
        let ns = namespace(&client).await;
        let created = client.create(&config_map(&ns, "a")).await.unwrap();
        let version = created.resource_version().unwrap();
        let mut events = client.watch::<ConfigMap>().within(&ns).resource_version(version).await.unwrap();
        assert_eq!(types.last().1, format!("{PROTOBUF};stream=watch"));
        let patch = Patch::Merge(json!({"data": {"k": "w"}}));
        let patched = target.client.patch::<ConfigMap>("a", patch).within(&ns).await.unwrap();
        let next = events.next().await.unwrap().unwrap();
        assert_eq!(next, WatchEvent::Modified(patched));
        client.delete::<ConfigMap>("a").within(&ns).await.unwrap();
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Deleted(map))) if map.name() == "a"));
        target
    })
    .await;
}

#[tokio::test]
async fn list_watch_yields_protobuf_of_objects_and_of_metadata() {
    on_each_target(|target| async move {
        let (client, _) = recorded(&target);
        let ns = namespace(&client).await;
        client.create(&config_map(&ns, "a")).await.unwrap();
        for kind in ["ConfigMap", "PartialObjectMetadata"] {
            let list_watch = client.list_watch(&ConfigMap::api_resource(), Some(&ns));
            let list_watch = if kind == "ConfigMap" { list_watch } else { list_watch.metadata_only() };
            let labels = ListOptions { labels: Some("app=test".to_owned()), ..ListOptions::default() };
            let items: Vec<_> = list_watch.list(labels).await.unwrap().try_collect().await.unwrap();
            let [ListItem::Object(object), ListItem::End(meta)] = &items[..] else { panic!("{items:?}") };
            assert_eq!(windlass_protobuf::type_of(object).unwrap().1, kind);
            assert!(!meta.resource_version.is_empty());
            let labels = WatchOptions { labels: Some("app=test".to_owned()), ..WatchOptions::default() };
            let event = list_watch.watch(labels).await.unwrap().next().await.unwrap().unwrap();
            assert_eq!(
                (event.event_type, windlass_protobuf::type_of(&event.body).unwrap().1),
                (EventType::Added, kind.into())
            );
            assert_eq!(windlass_protobuf::meta(&event.body), windlass_protobuf::meta(object));
        }
        target
    })
    .await;
}

#[tokio::test]
async fn custom_resources_are_json_and_their_metadata_is_protobuf() {
    on_each_target(|target| async move {
        let (client, types) = recorded(&target);
        let ns = namespace(&client).await;
        let group = format!("{}.example.com", unique("proto"));
        let crd: CustomResourceDefinition = read(json!({
            "metadata": {"name": format!("websites.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": "Website", "plural": "websites"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }));
        client.create(&crd).await.unwrap();
        assert_eq!(types.last(), both());
        let name = format!("websites.{group}");
        conformance::eventually("the CRD is established", || async {
            let crd = client.get::<CustomResourceDefinition>(&*name).await.unwrap();
            let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
            conditions
                .iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True")
                .then_some(())
        })
        .await;
        let resource = ApiResource::namespaced(GroupVersionKind::new(group.clone(), "v1", "Website"), "websites");
        let websites = client.dynamic(&resource);
        let site: DynamicObject = read(json!({"apiVersion": format!("{group}/v1"), "kind": "Website",
            "metadata": {"name": "w", "namespace": ns}, "spec": {"image": "nginx"}}));
        conformance::eventually("the resource is served", || async { websites.create(&site).await.ok().map(drop) })
            .await;
        assert_eq!(types.last(), (Some("application/json".to_owned()), "application/json".to_owned()));
        websites.get("w").within(&ns).await.unwrap();
        assert_eq!(types.last().1, "application/json");
        let metadata = client.metadata(&resource).get("w").within(&ns).await.unwrap();
        assert_eq!((metadata.name(), types.last().1.as_str()), ("w", PROTOBUF));
        client.delete::<CustomResourceDefinition>(name).await.unwrap();
        target
    })
    .await;
}
