//! Failures that are reported clearly and do not stop the informer.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::{BoxError, EventType, Object, Resource};

use super::*;
use crate::{CacheMetrics, DecodeError, Decoding, Transform};

type Errors = Arc<Mutex<Vec<String>>>;

fn troubled(fake: &FakeListWatch, options: InformerOptions) -> (Maps, Errors) {
    let errors = Errors::default();
    let log = Arc::clone(&errors);
    let hook = move |error: &InformerError| log.lock().push(format!("{error}: {}", crate::error::causes(error)));
    let options = options.entropy(Entropy::seeded(1)).on_error(hook);
    (Maps::new(Arc::new(fake.clone()), options), errors)
}

/// Fails on objects with `data.bad`.
fn picky() -> Transform {
    Transform::on_json(|object| match object.pointer("/data/bad") {
        Some(why) => Err(BoxError::from(format!("bad: {why}"))),
        None => Ok(()),
    })
}

#[tokio::test(start_paused = true)]
async fn transform_applies_to_handlers_and_readers() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let (informer, errors) = troubled(&fake, InformerOptions::default().transform(Transform::without(["/data"])));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let _registration = informer.add_handler(move |news: Notification<ConfigMap>| {
        log.lock().push(news.object().get().unwrap().data.clone());
    });
    let run = Run::synced(&informer).await;
    fake.apply(&map("a"));
    fake.delete(&key("a"));
    settle().await;
    assert_eq!((&*seen.lock(), errors.lock().len()), (&vec![None; 3], 0));
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn transform_runs_once_per_object_with_either_queue() {
    let queues: [fn(Maps) -> Maps; 3] =
        [|maps| maps, |maps| maps.with_queue(OneByOne::new), |maps| maps.with_queue(DeltaFifo::new)];
    for with_queue in queues {
        let fake = FakeListWatch::new();
        fake.apply(&map("a"));
        fake.apply(&map("b"));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&calls);
        let transform = Transform::on_json(move |object| {
            let Value::Object(meta) = &object["metadata"] else { return Err("no metadata".into()) };
            log.lock().push(format!("{}@{}", meta["name"], meta["resourceVersion"]).replace('"', ""));
            Ok(())
        });
        let options = InformerOptions::default().resync(Duration::from_mins(1)).transform(transform);
        let informer = with_queue(troubled(&fake, options).0);
        let diary = Diary::default();
        let _registration = informer.add_handler(diary.clone());
        let run = Run::synced(&informer).await;
        sleep(Duration::from_mins(3)).await;
        assert!(diary.take().contains(&"updated n/a@2 n/a@2".to_owned()), "a resync delivers the current objects");
        assert_eq!(std::mem::take(&mut *calls.lock()), ["a@2", "b@3"]);
        fake.disconnect();
        fake.delete(&key("b"));
        fake.apply(&map("c"));
        fake.compact();
        sleep(Duration::from_mins(3)).await;
        assert!(diary.take().contains(&"missed n/b@3".to_owned()), "a tombstone");
        assert_eq!(*calls.lock(), ["a@2", "c@5"], "the repeated and the new object");
        run.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failing_transform_omits_object_but_not_its_deletion() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let (informer, errors) = troubled(&fake, InformerOptions::default().transform(picky()));
    let diary = Diary::default();
    let _registration = informer.add_handler(diary.clone());
    let run = Run::synced(&informer).await;
    let mut bad = map("a");
    bad["data"] = json!({"bad": 7});
    fake.apply(&bad);
    fake.apply(&map("b"));
    settle().await;
    assert_eq!(*errors.lock(), ["reading one of configmaps: transforming n/a: bad: 7"]);
    assert_eq!(diary.take(), ["initial n/a@2", "added n/b@4"]);
    assert_eq!(informer.store().len(), 2, "a in its previous state");
    fake.delete(&key("a"));
    settle().await;
    assert_eq!(diary.take(), ["deleted n/a@5"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_transform_may_not_make_another_object_of_one() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let rename = Transform::on_json(|object| {
        object["metadata"]["name"] = json!("b");
        Ok(())
    });
    let (informer, errors) = troubled(&fake, InformerOptions::default().transform(rename));
    let run = Run::synced(&informer).await;
    assert!(informer.store().is_empty());
    let why = "it changed the object's name, namespace, uid or resourceVersion";
    assert_eq!(*errors.lock(), [format!("reading one of configmaps: transforming n/a: {why}")]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failing_index_omits_the_object_from_it_only() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let (informer, errors) = troubled(&fake, InformerOptions::default());
    let index = Index::on_meta("bad", |meta| {
        assert_ne!(&**meta.name(), "b", "expected panic of the test");
        [Arc::clone(meta.name())]
    });
    soon(informer.add_index(index)).await.unwrap();
    let run = Run::synced(&informer).await;
    fake.apply(&map("b"));
    fake.apply(&map("c"));
    settle().await;
    let store = informer.store();
    assert_eq!((store.len(), store.index_values("bad").unwrap().len()), (3, 2));
    assert_eq!(errors.lock().len(), 1);
    let error = errors.lock()[0].clone();
    assert!(error.starts_with("computing the values of n/b in the index \"bad\" of configmaps: "), "{error}");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_and_nameless_objects_are_reported_and_skipped() {
    let fake = FakeListWatch::new();
    let (informer, errors) = troubled(&fake, InformerOptions::default());
    let run = Run::synced(&informer).await;
    for garbage in ["", "{", "\u{0}\u{0}", "[1,2]", r#"{"metadata":{"namespace":"n"}}"#, r#"{"metadata":7}"#] {
        fake.send(EventType::Modified, garbage);
    }
    fake.send(EventType::Deleted, "garbage");
    fake.apply(&map("a"));
    settle().await;
    assert_eq!((informer.store().len(), errors.lock().len(), fake.open_streams()), (1, 7, 1));
    assert!(errors.lock().iter().all(|error| error.starts_with("reading one of configmaps: ")), "{:?}", errors.lock());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn panicking_error_hook_is_contained() {
    let fake = FakeListWatch::new();
    let options = InformerOptions::default().on_error(|_| panic!("expected panic of the test"));
    let informer = Maps::new(Arc::new(fake.clone()), options);
    let run = Run::synced(&informer).await;
    fake.send(EventType::Added, "garbage");
    fake.apply(&map("a"));
    settle().await;
    assert_eq!(informer.store().len(), 1);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_hundred_megabytes_is_an_object() {
    let fake = FakeListWatch::new();
    let (informer, errors) = troubled(&fake, InformerOptions::default());
    let run = Run::synced(&informer).await;
    let data = "x".repeat(100 << 20);
    let head = r#"{"metadata":{"name":"big","namespace":"n","uid":"u","resourceVersion":"2"},"data":{"k":""#;
    fake.send(EventType::Added, [head, &data, "\"}}"].concat());
    fake.apply(&map("a"));
    settle().await;
    let big = informer.store().get(&ObjectRef::new("big").within("n")).unwrap();
    assert_eq!(big.get().unwrap().data.as_ref().unwrap()["k"].len(), data.len());
    assert_eq!((informer.store().len(), errors.lock().len()), (2, 0));
    run.stop().await;
}

/// A handler that always panics.
#[derive(Debug)]
struct Hysteric;

impl CacheMetrics for Hysteric {
    fn listed(&self, _: usize, _: Duration) {
        panic!("expected panic of the test");
    }

    fn watch_opened(&self) {
        panic!("expected panic of the test");
    }

    fn watch_ended(&self, _: u64, _: Duration) {
        panic!("expected panic of the test");
    }

    fn event(&self, _: EventType) {
        panic!("expected panic of the test");
    }

    fn failed(&self, _: &InformerError) {
        panic!("expected panic of the test");
    }

    fn decoding_failed(&self, _: &DecodeError) {
        panic!("expected panic of the test");
    }

    fn stored(&self, _: usize) {
        panic!("expected panic of the test");
    }

    fn handler_panicked(&self) {
        panic!("expected panic of the test");
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_metrics_are_contained() {
    let fake = FakeListWatch::new();
    let mut odd = map("odd");
    odd["data"] = json!("no map");
    fake.apply(&odd);
    for how in [InitialSync::List, InitialSync::Watch] {
        let (informer, errors) =
            troubled(&fake, InformerOptions::default().initial_sync(how).metrics(Arc::new(Hysteric)));
        let calls = Arc::new(Mutex::new(0));
        let count = Arc::clone(&calls);
        let _registration = informer.add_handler(move |news: Notification<ConfigMap>| {
            *count.lock() += 1;
            assert!(news.object().get().is_ok(), "expected panic of the test");
        });
        let run = Run::synced(&informer).await;
        fake.send(EventType::Added, "garbage");
        fake.break_connections();
        settle().await;
        let version = fake.apply(&map("a")).into();
        soon(informer.wait_for(&version)).await.unwrap();
        settle().await;
        assert_eq!((informer.store().len(), *calls.lock(), errors.lock().len()), (2, 2, 2), "{how:?}");
        run.stop().await;
        fake.delete(&key("a"));
    }
}

/// A type whose decoder panics on an object with the name `bad`.
#[derive(Clone, Debug, serde::Serialize)]
struct Fussy(PartialObject);

impl<'de> serde::Deserialize<'de> for Fussy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = PartialObject::deserialize(deserializer)?;
        assert!(object.metadata.name.as_deref() != Some("bad"), "expected panic of the test");
        Ok(Self(object))
    }
}

impl Object for Fussy {
    fn metadata(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_decoder_is_contained() {
    let fake = FakeListWatch::new();
    fake.apply(&map("bad"));
    for decoding in [Decoding::OnUse, Decoding::Early] {
        let options = InformerOptions::default().entropy(Entropy::seeded(1)).decoding(decoding);
        let list_watch = Arc::new(fake.clone());
        let informer = SharedInformer::<Fussy>::for_resource(ConfigMap::api_resource(), list_watch, options);
        let running = tokio::spawn(informer.clone().run(std::future::pending()));
        soon(informer.has_synced()).await.unwrap();
        let version = fake.apply(&map("good")).into();
        soon(informer.wait_for(&version)).await.unwrap();
        let get = |name: &str| informer.store().get(&ObjectRef::new(name).within("n")).unwrap().get();
        let error = get("bad").unwrap_err();
        assert_eq!(crate::error::causes(&error), "the decoder panicked: expected panic of the test", "{decoding:?}");
        assert_eq!(get("good").unwrap().0.metadata.name.as_deref(), Some("good"));
        running.abort();
    }
}
