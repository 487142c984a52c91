//! Compacted history: 410 responses with the real server's messages. Only for the embedded server, because the real one
//! compacts minutes after its start.

use std::sync::Arc;

use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use windlass_client::Client;
use windlass_server::{
    Server,
    storage::{MemoryStorage, Revision, Storage},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns the status code of a response and its documents: one, or the events of a watch until it ends.
async fn send(client: &Client, method: Method, path: &str, body: Option<Value>) -> (u16, Vec<Value>) {
    let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let response = client.request(request.body(body).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let documents = serde_json::Deserializer::from_slice(&body).into_iter();
    (code, documents.collect::<Result<_, _>>().unwrap())
}

async fn create(client: &Client, name: &str) -> u64 {
    let (code, answer) = send(client, Method::POST, MAPS, Some(json!({"metadata": {"name": name}}))).await;
    assert_eq!(code, 201, "{answer:?}");
    answer[0]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn compacted_version_is_gone_for_watch_list_and_page() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let client = Client::from_service(Server::builder().storage(Arc::clone(&storage)).build().service(), "default");
    let first = create(&client, "a").await;
    create(&client, "b").await;
    let (_, page) = send(&client, Method::GET, &format!("{MAPS}?limit=1"), None).await;
    let token = page[0]["metadata"]["continue"].as_str().unwrap().to_owned();
    let last = create(&client, "c").await;
    storage.compact(Revision(last)).await.unwrap();

    let (code, events) =
        send(&client, Method::GET, &format!("{MAPS}?watch=true&timeoutSeconds=5&resourceVersion={first}"), None).await;
    assert_eq!((code, events.len()), (200, 1), "the failure is an event, and the last one: {events:?}");
    assert_eq!(events[0]["type"], "ERROR");
    let status = &events[0]["object"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("too old resource version: {first} (")), "{message}");

    let exactly = format!("{MAPS}?resourceVersion={first}&resourceVersionMatch=Exact");
    let (code, answer) = send(&client, Method::GET, &exactly, None).await;
    assert_eq!((code, &answer[0]["reason"]), (410, &json!("Expired")));
    assert_eq!(answer[0]["message"], "The resourceVersion for the provided list is too old.");

    let (code, answer) = send(&client, Method::GET, &format!("{MAPS}?limit=1&continue={token}"), None).await;
    assert_eq!((code, &answer[0]["reason"]), (410, &json!("Expired")));
    // The response contains a token for an inconsistent continuation.
    let token = answer[0]["metadata"]["continue"].as_str().unwrap();
    let (code, answer) = send(&client, Method::GET, &format!("{MAPS}?continue={token}"), None).await;
    let names: Vec<_> = answer[0]["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!((code, names), (200, vec![&json!("b"), &json!("c")]));
}
