//! The requests to etcd and Polaris, and invalid responses. The tests with real servers are in `real_registries.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use registry_sync::{Entry, Etcd, Instance, Polaris, Registry, RegistryError};
use serde_json::{Value, json};
use windlass::{Client, ObjectKey, client::Body};

/// Returns a client whose requests are answered by a function of method, path and body.
fn answered_by(answer: impl Fn(&str, &Value) -> (u16, String) + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            let call = format!("{} {}", request.method(), request.uri());
            let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let (status, text) = answer(&call, &serde_json::from_slice(&body).unwrap_or_default());
            let mut response = Response::new(Full::new(Bytes::from(text)));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    Client::from_service(service, "default")
}

fn web() -> ObjectKey {
    ObjectKey::new("web").within("shop")
}

fn entry(addresses: &[&str]) -> Entry {
    let instance = |address: &&str| Instance::at(address, BTreeMap::new()).unwrap();
    Entry { instances: addresses.iter().map(instance).collect() }
}

/// A minimal etcd: sorted keys, and three calls.
fn etcd(keys: Arc<Mutex<BTreeMap<String, String>>>) -> Client {
    answered_by(move |call, body| {
        let text = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
        let mut keys = keys.lock();
        let within = |body: &Value| text(&body["key"])..text(&body["range_end"]);
        let header = json!({"revision": "7"});
        let answer = match call {
            "POST /v3/kv/range" => {
                let pair = |(key, value): (&String, &String)| json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
                let kvs: Vec<_> = keys.range(within(body)).map(pair).collect();
                json!({"header": header, "kvs": kvs, "count": kvs.len().to_string()})
            }
            "POST /v3/kv/deleterange" => {
                let range = within(body);
                keys.retain(|key, _| !range.contains(key));
                json!({"header": header})
            }
            "POST /v3/kv/txn" => {
                for change in body["success"].as_array().unwrap() {
                    if let Some(put) = change.get("requestPut") {
                        keys.insert(text(&put["key"]), text(&put["value"]));
                    } else {
                        keys.remove(&text(&change["requestDeleteRange"]["key"]));
                    }
                }
                json!({"header": header, "succeeded": true})
            }
            other => panic!("{other} is no call of etcd"),
        };
        (200, answer.to_string())
    })
}

#[tokio::test]
async fn etcd_has_the_entries_of_the_grpc_resolver() {
    let keys = Arc::new(Mutex::new(BTreeMap::from([("other/shop/web/10.0.0.9:80".to_owned(), "theirs".to_owned())])));
    let registry = Etcd::new(etcd(Arc::clone(&keys)), "/kubernetes/");
    registry.put(&web(), &entry(&["10.0.0.1:80", "10.0.0.2:80"])).await.unwrap();
    registry.put(&web(), &entry(&["10.0.0.2:80", "10.0.0.3:80"])).await.unwrap();
    let ours: Vec<_> = keys
        .lock()
        .iter()
        .filter(|(key, _)| key.starts_with("kubernetes/"))
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    assert_eq!(
        ours,
        [
            r#"kubernetes/shop/web/10.0.0.2:80 {"Op":0,"Addr":"10.0.0.2:80","Metadata":null}"#,
            r#"kubernetes/shop/web/10.0.0.3:80 {"Op":0,"Addr":"10.0.0.3:80","Metadata":null}"#,
        ]
    );
    assert_eq!(registry.entries().await.unwrap(), [(web(), entry(&["10.0.0.2:80", "10.0.0.3:80"]))].into());
    registry.remove(&web()).await.unwrap();
    assert_eq!(registry.entries().await.unwrap(), BTreeMap::new());
    assert_eq!(keys.lock().len(), 1, "keys outside the prefix are not changed");
}

#[tokio::test]
async fn unreadable_value_in_etcd_is_rewritten() {
    let keys = Arc::new(Mutex::new(BTreeMap::new()));
    let registry = Etcd::new(etcd(Arc::clone(&keys)), "kubernetes");
    let wanted = entry(&["10.0.0.1:80"]);
    registry.put(&web(), &wanted).await.unwrap();
    keys.lock().values_mut().for_each(|value| *value = "moo".to_owned());
    assert_ne!(registry.entries().await.unwrap().remove(&web()), registry.shows(&wanted));
    registry.put(&web(), &wanted).await.unwrap();
    assert_eq!(registry.entries().await.unwrap().remove(&web()), Some(wanted));
    assert_eq!(registry.shows(&Entry::default()), None, "an empty entry has no key");
}

/// None of these responses may count as an empty registry, or as a successful write.
#[tokio::test]
async fn malformed_responses_are_errors() {
    for (status, nonsense) in [
        (200, ""),
        (200, "moo"),
        (200, "{}"),
        (200, "[]"),
        (200, r#"{"kvs":[{"key":"%%%"}]}"#),
        (200, r#"{"header":{},"kvs":[{"key":"%%%"}]}"#),
        (502, "<html>bad gateway</html>"),
        (400, r#"{"code":3,"message":"etcdserver: no"}"#),
        (503, r#"{"code":14,"message":"etcdserver: no leader"}"#),
    ] {
        let nobody = || answered_by(move |_, _| (status, nonsense.to_owned()));
        let etcd = Etcd::new(nobody(), "kubernetes");
        let polaris = Polaris::new(nobody(), "token").unwrap();
        for registry in [&etcd as &dyn Registry, &polaris] {
            assert!(registry.entries().await.is_err(), "{status} {nonsense}");
            assert!(registry.put(&web(), &entry(&["10.0.0.1:80"])).await.is_err(), "{status} {nonsense}");
        }
        assert!(polaris.remove(&web()).await.is_err() && polaris.add_namespace("shop").await.is_err());
        if !nonsense.contains("header") {
            assert!(etcd.remove(&web()).await.is_err(), "{status} {nonsense}");
        }
    }
}

#[tokio::test]
async fn polaris_service_of_another_owner_is_rejected_and_kept() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&written);
    let client = answered_by(move |call, _| {
        if !call.starts_with("GET") {
            log.lock().push(call.to_owned());
        }
        let services = json!([{"name": "web", "namespace": "shop", "metadata": {}}]);
        let there = json!({"code": 400_201, "info": "existed resource", "responses": [{"code": 400_201, "info": "existed resource"}]});
        let found = json!({"code": 200_000, "info": "execute success", "amount": 1, "services": services});
        match call {
            "POST /naming/v1/services" => (400, there.to_string()),
            call if call.starts_with("GET /naming/v1/services") => (200, found.to_string()),
            other => panic!("{other} is not to be called"),
        }
    });
    let registry = Polaris::new(client, "token").unwrap();
    let refused = registry.put(&web(), &entry(&["10.0.0.1:80"])).await.unwrap_err();
    assert!(matches!(&refused, RegistryError::Refused { why, .. } if why.contains("another owner")), "{refused}");
    registry.remove(&web()).await.unwrap();
    assert_eq!(*written.lock(), ["POST /naming/v1/services"]);
    assert_eq!(registry.entries().await.unwrap(), BTreeMap::new());
}
