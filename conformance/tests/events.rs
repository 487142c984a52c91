//! Events with each server, in both APIs.

use conformance::{eventually, on_each_target, unique};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Event},
    events::v1::Event as SeriesEvent,
};
use tokio::sync::oneshot;
use windlass_api::{ObjectBuilder as _, ObjectExt as _};
use windlass_client::Client;
use windlass_runtime::{
    Manager,
    events::{EventApi, Note},
};

/// Records the same event three times for a new object, and returns the object.
async fn say(client: &Client, api: EventApi) -> ConfigMap {
    let map = ConfigMap::named(unique("events")).in_namespace("default");
    let map = client.create(&map).await.expect("a map can be made");
    let manager = Manager::builder(client.clone()).event_api(api).build();
    let recorder = manager.cluster().recorder("painter");
    for _ in 0..3 {
        recorder.record(&map, Note::normal("Painted", "painted it blue").action("Painting").related(&map));
    }
    let (stop, stopped) = oneshot::channel::<()>();
    drop(stop);
    manager.run(async { drop(stopped.await) }).await.expect("it ends well");
    map
}

#[tokio::test]
async fn repeated_core_event_increments_its_count() {
    on_each_target(|target| async {
        let map = say(&target.client, EventApi::Core).await;
        let of_map = format!("involvedObject.name={}", map.name());
        let events = target.client.list::<Event>().within("default").fields(of_map).await.unwrap().items;
        let [event] = &events[..] else { panic!("one: {events:?}") };
        assert_eq!((event.count, event.action.as_deref()), (Some(3), Some("Painting")));
        assert_eq!(event.involved_object.uid.as_deref(), map.uid());
        target
    })
    .await;
}

#[tokio::test]
async fn repeated_event_is_a_series_visible_in_both_apis() {
    on_each_target(|target| async {
        let map = say(&target.client, EventApi::Series).await;
        let client = &target.client;
        let event = eventually("the event", || async {
            let events = client.list::<SeriesEvent>().within("default").await.unwrap().items;
            let of_map =
                |event: &SeriesEvent| event.regarding.as_ref().is_some_and(|it| it.uid.as_deref() == map.uid());
            events.into_iter().find(of_map)
        })
        .await;
        assert_eq!(event.series.as_ref().map(|series| series.count), Some(3));
        assert_eq!((event.action.as_deref(), event.note.as_deref()), (Some("Painting"), Some("painted it blue")));
        let core = client.get::<Event>(windlass_api::ObjectRef::new(event.name()).within("default")).await.unwrap();
        assert_eq!(core.series.and_then(|series| series.count), Some(3));
        target
    })
    .await;
}
