//! Informers whose server sends protobuf.

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::BoxStream};
use windlass_api::{
    ListItem, ListOptions, ListWatch, ListWatchError, RawEvent, WatchOptions, managed_fields::ManagedFieldsMode,
};
use windlass_protobuf::{is_protobuf, to_protobuf};

use super::*;
use crate::{Index, Transform, options::Verification};

/// A server that sends all objects, bookmarks and errors in protobuf.
#[derive(Debug, Clone)]
struct InProtobuf(FakeListWatch);

/// Converts an object. Bookmarks and the items of lists have no type.
fn encoded(body: &[u8]) -> bytes::Bytes {
    let mut object: Value = serde_json::from_slice(body).unwrap();
    if object["kind"].is_null() {
        object["kind"] = json!("ConfigMap");
        object["apiVersion"] = json!("v1");
    }
    to_protobuf(object.to_string().as_bytes()).unwrap().into()
}

impl ListWatch for InProtobuf {
    fn list(
        &self,
        options: ListOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<ListItem, ListWatchError>>, ListWatchError>> {
        let listed = self.0.list(options);
        async move {
            let items = listed.await?.map(|item| {
                item.map(|item| match item {
                    ListItem::Object(body) => ListItem::Object(encoded(&body)),
                    end @ ListItem::End(_) => end,
                })
            });
            Ok(items.boxed())
        }
        .boxed()
    }

    fn watch(
        &self,
        options: WatchOptions,
    ) -> BoxFuture<'_, Result<BoxStream<'static, Result<RawEvent, ListWatchError>>, ListWatchError>> {
        let watch = self.0.watch(options);
        async move {
            let events = watch.await?.map(|event| event.map(|event| RawEvent { body: encoded(&event.body), ..event }));
            Ok(events.boxed())
        }
        .boxed()
    }
}

fn full(name: &str) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "n", "labels": {"app": "web", "tier": name},
            "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 2,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "m", "uid": "o", "controller": true}],
            "finalizers": ["f"],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}],
        },
        "data": {"k": "v", "zone": format!("zone-{name}")},
    })
}

fn start(fake: &FakeListWatch, options: InformerOptions) -> Maps {
    SharedInformer::new(Arc::new(InProtobuf(fake.clone())), options.entropy(Entropy::seeded(1)))
}

fn get(maps: &Maps, name: &str) -> Option<Cached<ConfigMap>> {
    maps.store().get(&ObjectRef::new(name).within("n"))
}

async fn until(what: impl Fn() -> bool) {
    soon(async {
        while !what() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn objects_in_protobuf_are_cached_as_those_in_json() {
    for initial_sync in [InitialSync::Watch, InitialSync::List] {
        let fake = FakeListWatch::new();
        fake.apply(&full("a"));
        let (maps, twin) = (start(&fake, InformerOptions::default().initial_sync(initial_sync)), informer(&fake));
        let diary = Diary::default();
        drop(maps.add_handler(diary.clone()));
        maps.add_index(Index::on_path("zone", ["data", "zone"])).await.unwrap();
        maps.add_index(Index::on_path("absent", ["data", "none"])).await.unwrap();
        let (run, other) = (Run::synced(&maps).await, Run::synced(&twin).await);

        let (one, json) = (get(&maps, "a").unwrap(), get(&twin, "a").unwrap());
        assert!(is_protobuf(&one.encoded()) && !is_protobuf(&json.encoded()));
        assert_eq!(one.meta(), json.meta());
        assert_eq!((one.meta().label("tier"), one.meta().finalizers().len()), (Some("a"), 1));
        assert_eq!(*one.get().unwrap(), *json.get().unwrap());
        assert!(one.get().unwrap().metadata.managed_fields.is_none());
        let as_json: Value = serde_json::from_slice(&one.bytes()).unwrap();
        assert_eq!(as_json["data"], full("a")["data"]);
        assert_eq!(one.at::<String>(&["data", "k"]).unwrap().as_deref(), Some("v"));
        assert_eq!(one.at::<String>(&["data", "x"]).unwrap(), None);
        assert_eq!(one.at::<Vec<String>>(&["metadata", "finalizers"]).unwrap().unwrap(), ["f"]);
        #[derive(serde::Deserialize)]
        struct Data {
            data: std::collections::BTreeMap<String, String>,
        }
        assert_eq!(one.project::<Data>().unwrap().data["k"], "v");
        assert!(one.view(|map| map.data().get("k").as_deref() == Some("v")).unwrap());
        assert_eq!(maps.store().by_index("zone", "zone-a").unwrap().len(), 1);
        assert_eq!(maps.store().index_values("absent").unwrap().len(), 0);

        let version = fake.apply(&full("b"));
        until(|| get(&maps, "b").is_some()).await;
        assert_eq!(
            maps.store().by_index("zone", "zone-b").unwrap()[0].meta().resource_version().as_u64(),
            Some(version)
        );
        fake.bookmark();
        fake.delete(&ObjectKey::new("a").within("n"));
        until(|| get(&maps, "a").is_none()).await;
        let story = diary.take();
        assert!(story[0].starts_with("initial n/a@") && story[1].starts_with("added n/b@"), "{story:?}");
        assert!(story[2].starts_with("deleted n/a@"), "{story:?}");
        run.stop().await;
        other.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn error_event_in_protobuf_causes_a_relist() {
    let fake = FakeListWatch::new();
    fake.apply(&full("a"));
    let errors = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&errors);
    let options = InformerOptions::default().on_error(move |error| {
        seen.lock().push(windlass_api::ErrorChain(error).to_string());
    });
    let maps = start(&fake, options);
    let run = Run::synced(&maps).await;
    let before = fake.requests().len();
    fake.send_error(&Status::expired("the version is too old"));
    fake.apply(&full("b"));
    until(|| get(&maps, "b").is_some()).await;
    assert!(fake.requests().len() > before);
    let errors = errors.lock().clone();
    assert!(errors.iter().any(|error| error.contains("the version is too old")), "{errors:?}");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bodies_in_protobuf_are_compressed_and_verified() {
    let fake = FakeListWatch::new();
    for number in 0..60 {
        fake.apply(&full(&format!("map-{number}")));
    }
    let errors = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&errors);
    let options = InformerOptions::default().budget(0).verification(Verification::Compare).on_error(move |error| {
        seen.lock().push(windlass_api::ErrorChain(error).to_string());
    });
    let maps = start(&fake, options);
    let run = Run::synced(&maps).await;
    let memory = maps.status().memory;
    assert!(memory.compressed > 0 || !cfg!(feature = "compression"), "{memory:?}");
    for number in 0..60 {
        let object = get(&maps, &format!("map-{number}")).unwrap();
        assert!(is_protobuf(&object.encoded()));
        assert_eq!(object.get().unwrap().data.as_ref().unwrap()["zone"], format!("zone-map-{number}"));
    }
    assert!(errors.lock().is_empty(), "{:?}", errors.lock());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_in_protobuf_is_cached() {
    let fake = FakeListWatch::new();
    let mut partial = full("a");
    partial["kind"] = json!("PartialObjectMetadata");
    partial["apiVersion"] = json!("meta.k8s.io/v1");
    partial.as_object_mut().unwrap().remove("data");
    fake.apply(&partial);
    let resource = ConfigMap::api_resource();
    let list_watch = Arc::new(InProtobuf(fake.clone()));
    let maps = SharedInformer::<PartialObject>::for_resource(resource, list_watch, InformerOptions::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(maps.clone().run(async move { _ = stopped.await }));
    soon(maps.has_synced()).await.unwrap();
    let object = maps.store().get(&ObjectRef::new("a").within("n")).unwrap();
    assert!(is_protobuf(&object.encoded()));
    assert_eq!(object.get().unwrap().metadata.labels.as_ref().unwrap()["tier"], "a");
    drop(stop);
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn transform_gets_the_json_of_protobuf() {
    let fake = FakeListWatch::new();
    fake.apply(&full("a"));
    let maps = start(&fake, InformerOptions::default().transform(Transform::without(["/data/k"])));
    let run = Run::synced(&maps).await;
    let object = get(&maps, "a").unwrap();
    let data = object.get().unwrap().data.clone().unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["zone"]);
    run.stop().await;
}

#[test]
fn unusual_and_damaged_protobuf_is_read_or_an_error() {
    use crate::ingest::Ingest;
    let ingest = || Ingest::<ConfigMap>::alone(ConfigMap::api_resource(), ManagedFieldsMode::Drop);
    let value = encoded(full("a").to_string().as_bytes());
    let object = ingest().read(&value).unwrap();
    // Two parts of the metadata, which decoders merge.
    let parts = b"\x0a\x03\x0a\x01a\x0a\x03\x1a\x01n";
    let start = windlass_protobuf::envelope_start("v1", "ConfigMap", parts.len());
    let merged = ingest().read(&[&start, &parts[..]].concat()).unwrap();
    assert_eq!(merged.key(), object.key());
    assert!(!is_protobuf(&merged.encoded()));

    let other = windlass_protobuf::envelope_start("v1", "Secret", 5);
    let error = ingest().read(&[&other, &b"\x0a\x03\x0a\x01a"[..]].concat()).unwrap_err();
    assert_eq!(error.to_string(), "the object is a Secret, not a ConfigMap");
    let error = ingest().read(&value[..value.len() / 2]).unwrap_err();
    assert!(windlass_api::ErrorChain(&error).to_string().contains("cannot decode Unknown.raw at byte"), "{error:?}");
    let nameless = ingest().read(&windlass_protobuf::envelope_start("v1", "ConfigMap", 0)).unwrap_err();
    assert_eq!(nameless.to_string(), "the object has no name");

    // Metadata is read without the rest of the object, whose damage is found when it is decoded.
    let parts = b"\x0a\x03\x0a\x01a\x12\x03\x0a\x05k";
    let start = windlass_protobuf::envelope_start("v1", "ConfigMap", parts.len());
    let damaged = ingest().read(&[&start, &parts[..]].concat()).unwrap();
    let error = windlass_api::ErrorChain(&damaged.get().unwrap_err()).to_string();
    assert!(error.starts_with("decoding ConfigMap a: cannot decode ConfigMap.data at byte"), "{error}");
    assert_eq!(damaged.bytes().len(), 0);
}
