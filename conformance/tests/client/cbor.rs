//! A client that prefers CBOR, with an embedded server that serves it. The real server needs the flag
//! `--feature-gates=CBORServingAndStorage=true`, which changes recorded errors, so it is a server of its own: the one in the
//! kubeconfig that [`WITH_CBOR`] names, if the variable is set.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use http::header;
use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::ServiceExt as _;
use windlass_api::{
    ApiResource, DynamicObject, GroupVersionKind, ListItem, ListOptions, ListWatch, ListWatchError, Object, ObjectExt,
    Patch, RawEvent, WatchOptions,
};
use windlass_cache::{InformerOptions, InitialSync, SharedInformer};
use windlass_client::{Body, Client, Config, ContentType, Kubeconfig, Transport, WatchEvent, config::Selection};
use windlass_server::Server;

use conformance::{eventually, unique};

/// The environment variable with the kubeconfig of a kube-apiserver that serves CBOR.
const WITH_CBOR: &str = "WINDLASS_CBOR_KUBECONFIG";

type Informer = SharedInformer<DynamicObject>;

const CBOR: &str = "application/cbor";
const JSON: &str = "application/json";

/// The media types of requests and responses, in the order of the responses.
type Types = Arc<Mutex<Vec<(String, String)>>>;

/// A server with CBOR.
struct Target {
    /// A client that prefers CBOR.
    cbor: Client,
    json: Client,
    types: Types,
    namespace: String,
    websites: ApiResource,
}

impl Target {
    /// Returns the available servers, each with a kind of custom resources.
    async fn all() -> Vec<Self> {
        let embedded = Server::builder().cbor(true).build().service();
        let embedded = tower::service_fn(move |request: http::Request<Body>| {
            let answered = embedded.clone().oneshot(request);
            async move { answered.await.map(|response| response.map(Body::wrap)).map_err(windlass_api::BoxError::from) }
        });
        let mut targets = vec![Self::new(embedded).await];
        if let Some(path) = std::env::var_os(WITH_CBOR) {
            let kubeconfig = Kubeconfig::read(&path).unwrap();
            let transport: Transport =
                Config::from_kubeconfig(&kubeconfig, &Selection::default()).unwrap().connect().unwrap();
            targets.push(Self::new(transport).await);
        }
        targets
    }

    async fn new<S>(transport: S) -> Self
    where
        S: tower::Service<http::Request<Body>, Response = http::Response<Body>, Error = windlass_api::BoxError>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
        let types = Types::default();
        let seen = Arc::clone(&types);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (transport, seen) = (transport.clone(), Arc::clone(&seen));
            async move {
                let text = |headers: &http::HeaderMap| {
                    headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap()).to_owned()
                };
                let sent = text(request.headers());
                let response = transport.oneshot(request).await?;
                seen.lock().push((sent, text(response.headers())));
                Ok::<_, windlass_api::BoxError>(response)
            }
        });
        let json = Client::from_service(service, "default");
        let cbor = json.clone().with_content_type(ContentType::Cbor);
        let namespace = unique("cbor");
        let object: Namespace = read(json!({"metadata": {"name": namespace}}));
        cbor.create(&object).await.unwrap();
        let group = format!("{}.example.com", unique("cbor"));
        let crd: CustomResourceDefinition = read(json!({
            "metadata": {"name": format!("websites.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"kind": "Website", "plural": "websites"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }));
        cbor.create(&crd).await.unwrap();
        let websites = ApiResource::namespaced(GroupVersionKind::new(group, "v1", "Website"), "websites");
        let (lister, resource) = (json.clone(), websites.clone());
        eventually("the resource is served", || async { lister.dynamic(&resource).list().await.ok().map(drop) }).await;
        Self { cbor, json, types, namespace, websites }
    }

    /// Returns the media types of the last request's body and of its response.
    fn last(&self) -> (String, String) {
        self.types.lock().last().unwrap().clone()
    }

    fn website(&self, name: &str, spec: &Value) -> DynamicObject {
        read(json!({"apiVersion": self.websites.api_version(), "kind": "Website", "spec": spec,
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"app": "test"}}}))
    }
}

fn read<K: Object>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

fn both() -> (String, String) {
    (CBOR.to_owned(), CBOR.to_owned())
}

#[tokio::test]
async fn custom_resources_in_cbor_are_those_in_json() {
    for target in Target::all().await {
        let ns = &*target.namespace;
        let (cbor, json) = (target.cbor.dynamic(&target.websites), target.json.dynamic(&target.websites));
        let spec = json!({"integers": [0, -1, 23, 24, 255, 256, 65536, 4_294_967_296_i64, i64::MAX, i64::MIN],
            "floats": [0.5, 1.1, 1e300, -2.5, 65504.5], "text": "ü€😀\"\\\n\t", "empty": {"": [], "o": {}},
            "others": [true, false], "long": "x".repeat(70_000), "many": (0..300).collect::<Vec<_>>()});
        let created = cbor.create(&target.website("a", &spec)).await.unwrap();
        assert_eq!(target.last(), both());
        let stored = json.get("a").within(ns).await.unwrap();
        assert_eq!(target.last(), (String::new(), JSON.to_owned()));
        assert_eq!((&created, &stored.data["spec"]), (&stored, &spec));
        assert_eq!(cbor.get("a").within(ns).await.unwrap(), stored);
        assert_eq!(target.last(), (String::new(), CBOR.to_owned()));

        let mut changed = stored.clone();
        changed.labels_mut().insert("x".to_owned(), "y".to_owned());
        let updated = cbor.update(&changed).await.unwrap();
        assert_eq!(target.last(), both());
        assert_eq!(updated, json.get("a").within(ns).await.unwrap());
        assert!(cbor.update(&changed).await.unwrap_err().is_conflict());
        assert!(cbor.create(&target.website("a", &spec)).await.unwrap_err().is_already_exists());
        assert!(cbor.get("none").within(ns).await.unwrap_err().is_not_found());
        assert_eq!(target.last().1, CBOR);
        let merge = Patch::Merge(json!({"spec": {"integers": null}}));
        let patched = cbor.patch("a", merge).within(ns).await.unwrap();
        assert_eq!((&patched.data["spec"]["integers"], &*target.last().1), (&Value::Null, CBOR));
        let applied = cbor.apply(&target.website("b", &json!({"replicas": 3}))).force().await.unwrap();
        assert_eq!(target.last(), ("application/apply-patch+cbor".to_owned(), CBOR.to_owned()));
        assert_eq!(applied, json.get("b").within(ns).await.unwrap());
        // The conflict of another field manager.
        let other = target.website("b", &json!({"replicas": 4}));
        assert!(cbor.apply(&other).field_manager("other").await.unwrap_err().is_conflict());

        let list = cbor.list().within(ns).labels("app=test").await.unwrap();
        assert_eq!(target.last().1, CBOR);
        assert_eq!(list.items, json.list().within(ns).labels("app=test").await.unwrap().items);
        let page = cbor.list().within(ns).limit(1).await.unwrap();
        assert!(page.items.len() == 1 && page.metadata.continue_token.is_some());
        let metadata = target.cbor.metadata(&target.websites).get("a").within(ns).await.unwrap();
        assert_eq!((metadata.name(), &*target.last().1), ("a", CBOR));
        cbor.delete("a").within(ns).await.unwrap();
    }
}

#[tokio::test]
async fn built_in_kinds_in_cbor_are_those_in_json() {
    for target in Target::all().await {
        let secret: Secret = read(json!({"metadata": {"name": "s", "namespace": target.namespace},
            "stringData": {"k": "v"}, "data": {"b": "AAH/"}}));
        let created = target.cbor.create(&secret).await.unwrap();
        assert_eq!(target.last(), both());
        let data = created.data.as_ref().unwrap();
        assert_eq!((&*data["b"].0, &*data["k"].0), (&[0, 1, 255][..], &b"v"[..]));
        assert_eq!(created, target.json.get::<Secret>("s").within(&*target.namespace).await.unwrap());
        let list = target.cbor.list::<Secret>().within(&*target.namespace).await.unwrap();
        assert_eq!((list.items, &*target.last().1), (vec![created], CBOR));
    }
}

#[tokio::test]
async fn both_encodings_are_used_for_their_kinds() {
    for target in Target::all().await {
        let client = target.json.clone().with_content_type(ContentType::ProtobufAndCbor);
        let secret: Secret = read(json!({"metadata": {"name": "s", "namespace": target.namespace}}));
        client.create(&secret).await.unwrap();
        assert_eq!(target.last().1, "application/vnd.kubernetes.protobuf");
        client.dynamic(&target.websites).create(&target.website("a", &json!({}))).await.unwrap();
        assert_eq!(target.last(), both());
    }
}

#[tokio::test]
async fn watches_use_cbor() {
    for target in Target::all().await {
        let ns = &*target.namespace;
        let (cbor, json) = (target.cbor.dynamic(&target.websites), target.json.dynamic(&target.websites));
        let created = cbor.create(&target.website("a", &json!({"n": 1}))).await.unwrap();
        let version = created.resource_version().unwrap();
        let mut events = cbor.watch().within(ns).resource_version(version).await.unwrap();
        assert_eq!(target.last().1, "application/cbor-seq");
        let patched = json.patch("a", Patch::Merge(json!({"spec": {"n": 2}}))).within(ns).await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap(), WatchEvent::Modified(patched));
        json.delete("a").within(ns).await.unwrap();
        assert!(matches!(events.next().await, Some(Ok(WatchEvent::Deleted(site))) if site.name() == "a"));
    }
}

#[tokio::test]
async fn list_watch_yields_json_of_objects_and_of_metadata() {
    for target in Target::all().await {
        target.cbor.dynamic(&target.websites).create(&target.website("a", &json!({"n": 1}))).await.unwrap();
        for kind in ["Website", "PartialObjectMetadata"] {
            let list_watch = target.cbor.list_watch(&target.websites, Some(&target.namespace));
            let list_watch = if kind == "Website" { list_watch } else { list_watch.metadata_only() };
            let items: Vec<_> = list_watch.list(ListOptions::default()).await.unwrap().try_collect().await.unwrap();
            let [ListItem::Object(object), ListItem::End(meta)] = &items[..] else { panic!("{items:?}") };
            assert_eq!(target.last().1, CBOR);
            assert_eq!(serde_json::from_slice::<Value>(object).unwrap()["kind"], kind);
            assert!(!meta.resource_version.is_empty());
            let mut events: BoxStream<'_, Result<RawEvent, ListWatchError>> =
                list_watch.watch(WatchOptions::default()).await.unwrap();
            let event = events.next().await.unwrap().unwrap();
            let (listed, watched): (Value, Value) =
                (serde_json::from_slice(object).unwrap(), serde_json::from_slice(&event.body).unwrap());
            assert_eq!(listed, watched);
        }
    }
}

#[tokio::test]
async fn informers_follow_a_server_that_sends_cbor() {
    for target in Target::all().await {
        let ns = &*target.namespace;
        let (cbor, json) = (target.cbor.dynamic(&target.websites), target.json.dynamic(&target.websites));
        let created = cbor.create(&target.website("a", &json!({"n": 1}))).await.unwrap();
        for sync in [InitialSync::List, InitialSync::default()] {
            let list_watch = Arc::new(target.cbor.list_watch(&target.websites, Some(ns)));
            let options = InformerOptions::default().initial_sync(sync);
            let informer = Informer::for_resource(target.websites.clone(), list_watch, options);
            let (stop, stopped) = oneshot::channel::<()>();
            let task = tokio::spawn(informer.clone().run(async move { drop(stopped.await) }));
            let patch = Patch::Merge(json!({"metadata": {"labels": {"sync": unique("sync")}}}));
            let mut patched = json.patch("a", patch).within(ns).await.unwrap();
            // Informers drop them.
            patched.metadata.managed_fields = None;
            assert!(patched.resource_version() > created.resource_version());
            eventually("the informer has the last state", || async {
                let objects = informer.store().list();
                let [object] = &objects[..] else { return None };
                (Some(object.meta().resource_version().as_str()) == patched.resource_version()).then_some(())
            })
            .await;
            let encoded = informer.store().list()[0].encoded();
            assert_eq!(serde_json::from_slice::<DynamicObject>(&encoded).unwrap(), patched);
            drop(stop);
            task.await.unwrap();
        }
    }
}
