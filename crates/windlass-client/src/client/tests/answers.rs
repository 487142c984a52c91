//! The handling of response bodies that are read or discarded.

use futures::TryStreamExt as _;
use http::Response;
use serde_json::json;
use windlass_api::{
    ObjectExt as _, Patch,
    k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry},
};

use crate::{
    WatchEvent,
    testing::{End, Fake, chunks},
};

const POD: &str =
    r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"a","managedFields":[{"manager":"m"}]}}"#;

fn owned(pod: &Pod) -> Option<&[ManagedFieldsEntry]> {
    pod.metadata.managed_fields.as_deref()
}

#[tokio::test]
async fn managed_fields_are_omitted_from_responses_on_request() {
    let pod: Pod = serde_json::from_str(POD).unwrap();
    let fake = Fake::json(POD);
    assert_eq!(owned(&fake.client().get::<Pod>("p").await.unwrap()), owned(&pod), "retained by default");
    let client = fake.client().without_managed_fields();
    let patch = Patch::Merge(json!({}));
    let answers = [
        client.get::<Pod>("p").await.unwrap(),
        client.create(&pod).await.unwrap(),
        client.update(&pod).await.unwrap(),
        client.patch::<Pod>("p", patch).await.unwrap(),
        client.apply(&pod).await.unwrap(),
        client.delete::<Pod>("p").await.unwrap().object().unwrap().clone(),
    ];
    for answer in &answers {
        assert_eq!((owned(answer), answer.name()), (None, "p"));
    }
    let list = Fake::json(format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{POD}]}}"#).leak());
    let list = list.client().without_managed_fields().list::<Pod>().await.unwrap();
    assert_eq!(owned(&list.items[0]), None);
    let watched = Fake::json(format!(r#"{{"type":"ADDED","object":{POD}}}"#).leak());
    let mut events = watched.client().without_managed_fields().watch::<Pod>().await.unwrap();
    let event = events.try_next().await.unwrap();
    assert!(matches!(&event, Some(WatchEvent::Added(pod)) if owned(pod).is_none()), "{event:?}");
}

#[tokio::test]
async fn write_with_discarded_response_still_reports_errors() {
    let pod: Pod = serde_json::from_str(POD).unwrap();
    for answer in ["no JSON", POD] {
        let fake = Fake::json(answer);
        let client = fake.client();
        client.create(&pod).discard_response().await.unwrap();
        client.update_status(&pod).discard_response().await.unwrap();
        client.patch::<Pod>("p", Patch::Merge(json!({}))).within("a").discard_response().await.unwrap();
        client.apply(&pod).field_manager("me").discard_response().await.unwrap();
        assert_eq!(
            fake.seen(),
            [
                "POST /api/v1/namespaces/a/pods",
                "PUT /api/v1/namespaces/a/pods/p/status",
                "PATCH /api/v1/namespaces/a/pods/p",
                "PATCH /api/v1/namespaces/a/pods/p?fieldManager=me",
            ]
        );
    }
    // The write succeeded, even if the rest of the response is lost.
    let cut = Fake::new(|_| Response::new(chunks(vec!["{"], End::Broken)));
    cut.client().update(&pod).discard_response().await.unwrap();
    let refused = Fake::failure(409, "").client().update(&pod).discard_response().await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
}
