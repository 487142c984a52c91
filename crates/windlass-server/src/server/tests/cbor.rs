//! Tests that objects in CBOR have the same content as in JSON.

use http::header;
use http_body_util::Full;
use windlass_cbor::{from_json, to_json};

use super::*;

const CBOR: &str = "application/cbor";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WEBSITES: &str = "/apis/example.com/v1/namespaces/default/websites";

/// A response with its body in the encoding of its Content-Type.
struct Encoded {
    code: u16,
    content_type: String,
    frames: Vec<Bytes>,
}

impl Encoded {
    fn json(&self) -> Value {
        assert_eq!(self.content_type, CBOR);
        let json = to_json(&self.frames.concat()).unwrap();
        serde_json::from_slice(&json).unwrap()
    }
}

fn with_cbor() -> Service {
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    let builder = Server::builder().clock(Clock::from_fn(move || now)).entropy(Entropy::seeded(1));
    builder.cbor(true).build().service()
}

async fn ask(service: &Service, method: &str, path: &str, accept: &str, sent: (&str, Vec<u8>)) -> Encoded {
    let mut request = request(method, path).header(header::ACCEPT, accept);
    if !sent.0.is_empty() {
        request = request.header(header::CONTENT_TYPE, sent.0);
    }
    let request = request.body(Full::new(Bytes::from(sent.1))).unwrap();
    let (parts, mut body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    let content_type = parts.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    Encoded { code: parts.status.as_u16(), content_type, frames }
}

async fn read(service: &Service, path: &str) -> Encoded {
    ask(service, "GET", path, CBOR, ("", Vec::new())).await
}

async fn write(service: &Service, method: &str, path: &str, content_type: &str, object: &Value) -> Encoded {
    ask(service, method, path, CBOR, (content_type, from_json(object.to_string().as_bytes()).unwrap())).await
}

async fn define_websites(service: &Service) {
    let properties = json!({"count": {"type": "integer"}, "ratio": {"type": "number"}, "text": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Website", "plural": "websites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    assert_eq!(write(service, "POST", CRDS, CBOR, &crd).await.code, 201);
    while get(service, WEBSITES).await.code != 200 {
        tokio::task::yield_now().await;
    }
}

fn website(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn custom_resources_are_read_and_written_in_cbor() {
    let service = with_cbor();
    define_websites(&service).await;
    let spec = json!({"count": -3, "ratio": 0.5, "text": "ü \"quoted\"\n"});
    let created = write(&service, "POST", WEBSITES, CBOR, &website("a", spec.clone())).await;
    assert_eq!(created.code, 201);
    let path = format!("{WEBSITES}/a");
    let stored = get(&service, &path).await.json();
    assert_eq!((&created.json(), &stored["spec"]), (&stored, &spec));
    let read_back = read(&service, &path).await;
    assert!(windlass_cbor::is_cbor(&read_back.frames.concat()));
    assert_eq!(read_back.json(), stored);

    let mut changed = stored.clone();
    changed["spec"]["count"] = json!(7);
    assert_eq!(write(&service, "PUT", &path, CBOR, &changed).await.json()["spec"]["count"], 7);
    let applied = website("b", json!({"count": 1}));
    let apply = format!("{WEBSITES}/b?fieldManager=m");
    let answer = write(&service, "PATCH", &apply, "application/apply-patch+cbor", &applied).await;
    assert_eq!((answer.code, &answer.json()["metadata"]["managedFields"][0]["operation"]), (201, &json!("Apply")));
    let deleted = read(&service, &format!("{WEBSITES}/none")).await;
    assert_eq!((deleted.code, &deleted.json()["reason"]), (404, &json!("NotFound")));
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    let deleted = write(&service, "DELETE", &path, CBOR, &options).await;
    assert_eq!((deleted.code, &deleted.json()["status"]), (200, &json!("Success")));
}

#[tokio::test]
async fn long_list_is_sent_in_pieces_with_a_definite_length() {
    let service = with_cbor();
    for index in 0..200 {
        let data = json!({"metadata": {"name": format!("m{index}")}, "data": {"k": "x".repeat(1000)}});
        assert_eq!(post(&service, CONFIG_MAPS, data).await.code, 201);
    }
    let list = get(&service, CONFIG_MAPS).await.json();
    let in_cbor = read(&service, CONFIG_MAPS).await;
    assert!(in_cbor.frames.len() > 3, "{} pieces", in_cbor.frames.len());
    assert_eq!(in_cbor.frames[0][..4], [0xd9, 0xd9, 0xf7, 0xa4]);
    assert_eq!(in_cbor.json(), list);
    let accept = "application/cbor;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let json = accepting(&service, CONFIG_MAPS, &accept.replace("cbor", "json")).await.json();
    assert_eq!(ask(&service, "GET", CONFIG_MAPS, accept, ("", Vec::new())).await.json(), json);
    let empty = "/api/v1/namespaces/none/configmaps";
    assert_eq!(read(&service, empty).await.json(), get(&service, empty).await.json());
}

#[tokio::test(start_paused = true)]
async fn watch_is_a_cbor_sequence_and_watchers_share_its_items() {
    let service = with_cbor();
    let path = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion=0");
    let open = async |accept: &str| {
        let request = request("GET", &path).header(header::ACCEPT, accept).body(String::new()).unwrap();
        service.clone().oneshot(request).await.unwrap()
    };
    let metadata = "application/cbor;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let (first, second, partial) = (open(CBOR).await, open(CBOR).await, open(metadata).await);
    assert_eq!(first.headers()[header::CONTENT_TYPE], "application/cbor-seq");
    let mut bodies = [first.into_body(), second.into_body(), partial.into_body()];
    let created = post(&service, CONFIG_MAPS, config_map("a")).await.json();
    let next = async |body: &mut Body| body.frame().await.unwrap().unwrap().into_data().unwrap();
    let event = |frame: &[u8]| serde_json::from_slice::<Value>(&to_json(frame).unwrap()).unwrap();
    for body in &mut bodies {
        assert_eq!(event(&next(body).await)["type"], "BOOKMARK");
    }
    let (item, same) = (next(&mut bodies[0]).await, next(&mut bodies[1]).await);
    assert_eq!(event(&item), json!({"type": "ADDED", "object": created}));
    // The object has the tag, too.
    assert_eq!(item.windows(3).filter(|bytes| *bytes == windlass_cbor::SELF_DESCRIBED).count(), 2);
    assert_eq!(item.as_ptr(), same.as_ptr(), "encoded once");
    let partial = event(&next(&mut bodies[2]).await);
    assert_eq!(partial["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(partial["object"]["metadata"], created["metadata"]);
}

#[tokio::test]
async fn bodies_that_are_not_cbor_are_bad_requests() {
    let service = with_cbor();
    define_websites(&service).await;
    let twice = vec![0xd9, 0xd9, 0xf7, 0xa2, 0x44, b'k', b'i', b'n', b'd', 0x01, 0x44, b'k', b'i', b'n', b'd', 0x02];
    for path in [CONFIG_MAPS, WEBSITES] {
        for body in [twice.clone(), b"{}".to_vec(), Vec::from([0xa1])] {
            let answer = ask(&service, "POST", path, "application/json", (CBOR, body)).await;
            let status: Value = serde_json::from_slice(&answer.frames.concat()).unwrap();
            assert_eq!((answer.code, &status["reason"]), (400, &json!("BadRequest")), "{status}");
        }
    }
    let path = format!("{WEBSITES}/a?fieldManager=m");
    let patch = ("application/apply-patch+cbor", vec![0xa1]);
    let answer = ask(&service, "PATCH", &path, CBOR, patch).await;
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert_eq!((answer.code, &*message), (400, "error decoding YAML: unexpected EOF"));
    let mut trailing = from_json(config_map("a").to_string().as_bytes()).unwrap();
    let length = trailing.len();
    trailing.extend([0x01, 0x02]);
    let extraneous = format!("cbor: 2 bytes of extraneous data starting at index {length}");
    for (body, problem) in
        [(Vec::new(), "EOF"), (vec![0xff], "cbor: unexpected \"break\" code"), (trailing, &extraneous)]
    {
        let answer = ask(&service, "POST", WEBSITES, CBOR, (CBOR, body)).await;
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(&format!(" group/version/kind: {problem} (")), "{message}");
    }
}

#[tokio::test]
async fn answers_that_are_not_offered_in_cbor_are_refused_in_json() {
    let service = with_cbor();
    for (path, accept) in [
        (CONFIG_MAPS, "application/cbor;as=Table;g=meta.k8s.io;v=v1"),
        ("/api", CBOR),
        ("/apis", CBOR),
        ("/version", CBOR),
    ] {
        let answer = ask(&service, "GET", path, accept, ("", Vec::new())).await;
        assert_eq!((answer.code, &*answer.content_type), (406, "application/json"), "{path}");
    }
    let missing = ask(&service, "GET", &format!("{CONFIG_MAPS}/none"), CBOR, ("", Vec::new())).await;
    assert_eq!((missing.code, &*missing.content_type), (404, CBOR), "other errors are in CBOR");
}

#[tokio::test]
async fn content_types_are_not_case_sensitive() {
    let service = with_cbor();
    for (name, media_type) in [("a", "application/CBOR"), ("b", "Application/Cbor; charset=utf-8")] {
        let body = from_json(config_map(name).to_string().as_bytes()).unwrap();
        assert_eq!(ask(&service, "POST", CONFIG_MAPS, CBOR, (media_type, body)).await.code, 201);
    }
}

#[tokio::test]
async fn base64_of_bytes_is_accepted_in_both_forms() {
    let service = with_cbor();
    let secrets = "/api/v1/namespaces/default/secrets";
    // {"metadata":{"name":"s"},"data":{"k":22(h'00ff')}}, as Go encodes bytes.
    let mut body = from_json(br#"{"metadata":{"name":"s"},"data":{"k":"AP8="}}"#).unwrap();
    let text = body.windows(4).position(|bytes| bytes == b"AP8=").unwrap() - 1;
    body.splice(text..text + 5, [0xd6, 0x42, 0x00, 0xff]);
    let created = ask(&service, "POST", secrets, CBOR, (CBOR, body)).await;
    assert_eq!((created.code, &created.json()["data"]["k"]), (201, &json!("AP8=")));
}

#[tokio::test]
async fn server_without_cbor_rejects_it() {
    let service = server().service();
    let body = from_json(config_map("a").to_string().as_bytes()).unwrap();
    assert_eq!(ask(&service, "POST", CONFIG_MAPS, "application/json", (CBOR, body.clone())).await.code, 415);
    assert_eq!(ask(&service, "GET", CONFIG_MAPS, CBOR, ("", Vec::new())).await.code, 406);
    let preferred = "application/cbor,application/json;q=0.9";
    assert_eq!(ask(&service, "GET", CONFIG_MAPS, preferred, ("", Vec::new())).await.content_type, "application/json");
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let patch = ("application/apply-patch+cbor", body);
    assert_eq!(ask(&service, "PATCH", &path, "application/json", patch).await.code, 415);
}
