//! Tests that protobuf responses have the same content as JSON responses.

use http::header;

use super::*;
use crate::codec::{Format, plan};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Returns the status, the Content-Type and the frames of the body.
async fn ask(service: &Service, method: &str, path: &str, accept: &str) -> (u16, String, Vec<Bytes>) {
    let request = request(method, path).header(header::ACCEPT, accept).body(String::new()).unwrap();
    let (parts, mut body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    (parts.status.as_u16(), parts.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned(), frames)
}

/// Decodes a document of this kind.
fn read(kind: (&str, &str, &str), body: &[u8]) -> Value {
    let decoded =
        plan(kind.0, kind.1, kind.2).unwrap().decode(body, Format::Protobuf, windlass_api::FieldValidation::Warn);
    decoded.unwrap().value
}

/// Decodes the event in a frame into its type and the bytes of the object.
fn event(frame: &[u8]) -> (&str, &[u8]) {
    let (length, message) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
    let kind = &message[2..2 + usize::from(message[1])];
    let object = message.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
    (std::str::from_utf8(kind).unwrap(), &message[object..])
}

#[tokio::test]
async fn objects_lists_and_errors_are_sent_as_protobuf() {
    let service = server().service();
    let config_map_kind = ("", "v1", "ConfigMap");
    let created = post(&service, CONFIG_MAPS, config_map("a")).await.json();
    let path = format!("{CONFIG_MAPS}/a");
    let (code, content_type, body) = ask(&service, "GET", &path, &format!("{PROTOBUF},application/json")).await;
    assert_eq!((code, &*content_type), (200, PROTOBUF));
    assert_eq!(read(config_map_kind, &body.concat()), created);

    for index in 0..200 {
        let data = json!({"metadata": {"name": format!("m{index}")}, "data": {"k": "x".repeat(1000)}});
        assert_eq!(post(&service, CONFIG_MAPS, data).await.code, 201);
    }
    let (code, content_type, body) = ask(&service, "GET", CONFIG_MAPS, PROTOBUF).await;
    assert_eq!((code, &*content_type), (200, PROTOBUF));
    assert!(body.len() > 3, "{} pieces", body.len());
    let list = get(&service, CONFIG_MAPS).await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 201);
    assert_eq!(read(("", "v1", "ConfigMapList"), &body.concat()), list);
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let (_, _, body) = ask(&service, "GET", &format!("{CONFIG_MAPS}?limit=1"), &metadata).await;
    let partial = read(("meta.k8s.io", "v1", "PartialObjectMetadataList"), &body.concat());
    assert_eq!(partial["items"][0]["metadata"], created["metadata"]);
    assert_eq!(partial["metadata"]["remainingItemCount"], 200);

    let status = ("meta.k8s.io", "v1", "Status");
    let (code, content_type, body) = ask(&service, "GET", &format!("{CONFIG_MAPS}/nope"), PROTOBUF).await;
    assert_eq!((code, &*content_type), (404, PROTOBUF));
    assert_eq!(read(status, &body.concat())["message"], r#"configmaps "nope" not found"#);
    let (code, _, body) = ask(&service, "DELETE", &path, PROTOBUF).await;
    assert_eq!((code, &read(status, &body.concat())["status"]), (200, &json!("Success")));
    let (code, content_type, _) =
        ask(&service, "GET", CONFIG_MAPS, &format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,application/json")).await;
    assert_eq!((code, &*content_type), (200, "application/json"));
}

#[tokio::test(start_paused = true)]
async fn protobuf_watchers_share_protobuf_frames() {
    let service = server().service();
    let path = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion=0");
    let open = async |accept: &str| {
        let request = request("GET", &path).header(header::ACCEPT, accept).body(String::new()).unwrap();
        service.clone().oneshot(request).await.unwrap()
    };
    let (first, second, json) = (open(PROTOBUF).await, open(PROTOBUF).await, open("application/json").await);
    assert_eq!(first.headers()[header::CONTENT_TYPE], format!("{PROTOBUF};stream=watch"));
    let mut bodies = [first.into_body(), second.into_body(), json.into_body()];
    let created = post(&service, CONFIG_MAPS, config_map("a")).await.json();
    let next = async |body: &mut Body| body.frame().await.unwrap().unwrap().into_data().unwrap();
    let config_map_kind = ("", "v1", "ConfigMap");

    let (frame, same) = (next(&mut bodies[0]).await, next(&mut bodies[1]).await);
    let (kind, object) = event(&frame);
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(read(config_map_kind, object)["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert_ne!(frame.as_ptr(), same.as_ptr());

    let (frame, same) = (next(&mut bodies[0]).await, next(&mut bodies[1]).await);
    let (kind, object) = event(&frame);
    assert_eq!((kind, read(config_map_kind, object)), ("ADDED", created.clone()));
    assert_eq!(frame.as_ptr(), same.as_ptr(), "encoded once");
    next(&mut bodies[2]).await;
    let text = next(&mut bodies[2]).await;
    assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), json!({"type": "ADDED", "object": created}));
}

#[tokio::test(start_paused = true)]
async fn partial_metadata_is_sent_as_protobuf() {
    let service = server().service();
    let mut object = config_map("a");
    object["metadata"]["annotations"] = json!({"a": "<\n\u{1F600}>"});
    let created = post(&service, CONFIG_MAPS, object).await.json();
    let expected =
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": created["metadata"]});
    let accept = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let kind = ("meta.k8s.io", "v1", "PartialObjectMetadata");

    let (code, content_type, body) = ask(&service, "GET", &format!("{CONFIG_MAPS}/a"), &accept).await;
    assert_eq!((code, &*content_type), (200, PROTOBUF));
    assert_eq!(read(kind, &body.concat()), expected);

    let watch = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Da");
    let (code, _, frames) = ask(&service, "GET", &watch, &accept).await;
    assert_eq!((code, frames.len()), (200, 1));
    let (event, object) = event(&frames[0]);
    assert_eq!((event, read(kind, object)), ("ADDED", expected));
}
