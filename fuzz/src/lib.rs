//! Common code of the fuzz targets: an in-process API server that stores nothing, a client with fixed responses, and a
//! generator of well-formed JSON.
//!
//! Requests use the server's public service, without special entry points. A panic ends the process, even if the server
//! would catch it.

mod answered;
pub mod json;

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;
use windlass_api::{Clock, Entropy};
use windlass_server::{Server, Service};

pub use answered::answered;

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The server under test. Its state never changes.
pub static TEST_SERVER: LazyLock<TestServer> = LazyLock::new(TestServer::start);

/// The initial objects, each with its collection.
const OBJECTS: &[(&str, &str)] = &[
    (
        "/api/v1/namespaces/default/configmaps",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a":"b"}},"data":{"k":"v"}}"#,
    ),
    (
        "/api/v1/namespaces/default/pods",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","finalizers":["e.io/f"]},"spec":{"containers":[
            {"name":"c","image":"i","env":[{"name":"E","value":"v"}],"ports":[{"containerPort":80}]}],
            "tolerations":[{"key":"k"}],"volumes":[{"name":"v","emptyDir":{}}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/services",
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"selector":{"a":"b"},
            "ports":[{"port":80,"name":"http","targetPort":"web"},{"port":443,"name":"https"}]}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},
            "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%"}},
            "template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.ex.io"},
            "spec":{"group":"ex.io","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[
            {"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object",
            "properties":{"spec":{"type":"object","properties":{
                "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                    "items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"n":{"type":"integer"}}}},
                "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
                "free":{"x-kubernetes-preserve-unknown-fields":true},
                "port":{"x-kubernetes-int-or-string":true}}}}}}}]}}"#,
    ),
    (
        "/apis/ex.io/v1/namespaces/default/foos",
        r#"{"apiVersion":"ex.io/v1","kind":"Foo","metadata":{"name":"x"},
            "spec":{"map":[{"k":"a","n":1}],"set":["a","b"],"free":{"x":[1]},"port":"a"}}"#,
    ),
];

/// A server with its kinds and objects.
pub struct TestServer {
    runtime: Runtime,
    service: Service,
    /// The kinds that support creation.
    kinds: Vec<Kind>,
    /// The existing objects.
    objects: Vec<Kind>,
}

/// A kind, and the path of its objects.
#[derive(Clone, Debug)]
pub struct Kind {
    pub api_version: String,
    pub kind: String,
    /// `/api/v1/namespaces/default/pods`
    pub collection: String,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub code: StatusCode,
    pub content_type: String,
    pub body: Bytes,
}

// === impl TestServer ===

impl TestServer {
    fn start() -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().build().expect("a runtime needs a thread, which is this one");
        let now = jiff::Timestamp::from_second(1_767_323_045).expect("a time of this century");
        let server = Server::builder().clock(Clock::from_fn(move || now)).entropy(Entropy::seeded(1)).build();
        let mut test_server = Self { runtime, service: server.service(), kinds: Vec::new(), objects: Vec::new() };
        for (collection, object) in OBJECTS {
            test_server.make(collection, object);
            test_server.objects.push(Kind::of(collection, object));
        }
        test_server.kinds = test_server.discover();
        test_server
    }

    /// Creates an object. Retries, because the server may not serve the kind of a new CRD yet.
    fn make(&self, collection: &str, object: &str) {
        self.until(|| {
            let answer = self.ask("POST", collection, JSON, JSON, Bytes::copy_from_slice(object.as_bytes()));
            assert!(matches!(answer.code, StatusCode::CREATED | StatusCode::NOT_FOUND), "{collection}: {answer:?}");
            answer.code == StatusCode::CREATED
        });
    }

    /// Returns every kind that supports creation, from discovery.
    fn discover(&self) -> Vec<Kind> {
        let get = |path: &str| {
            let answer = self.ask("GET", path, JSON, JSON, Bytes::new());
            serde_json::from_slice::<Value>(&answer.body).expect("discovery is JSON")
        };
        let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
        for group in get("/apis")["groups"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let version = version["groupVersion"].as_str().unwrap_or_default();
                versions.push((format!("/apis/{version}"), version.to_owned()));
            }
        }
        let mut kinds = Vec::new();
        for (path, api_version) in versions {
            for resource in get(&path)["resources"].as_array().into_iter().flatten() {
                let name = resource["name"].as_str().unwrap_or_default();
                let creates =
                    resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "create"));
                if name.contains('/') || !creates {
                    continue;
                }
                let namespace = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
                kinds.push(Kind {
                    api_version: api_version.clone(),
                    kind: resource["kind"].as_str().unwrap_or_default().to_owned(),
                    collection: format!("{path}{namespace}/{name}"),
                });
            }
        }
        assert!(kinds.len() > 60, "{} kinds", kinds.len());
        kinds
    }

    /// Returns the kind of that name, or one that the bytes select.
    pub fn kind(&self, name: &[u8]) -> &Kind {
        let named = self.kinds.iter().find(|kind| kind.kind.as_bytes() == name);
        named.unwrap_or_else(|| pick(&self.kinds, name))
    }

    /// Returns an existing object of that kind, or one that the bytes select.
    pub fn object(&self, kind: &[u8]) -> &Kind {
        let named = self.objects.iter().find(|object| object.kind.as_bytes() == kind);
        named.unwrap_or_else(|| pick(&self.objects, kind))
    }

    /// Sends a request and reads the complete response.
    pub fn ask(&self, method: &str, path: &str, content_type: &str, accept: &str, body: Bytes) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, accept)
            .body(body)
            .expect("paths of requests are escaped");
        self.send(request)
    }

    /// Sends a prepared request and reads the complete response.
    pub fn send(&self, request: Request<Bytes>) -> Answer {
        let request = request.map(http_body_util::Full::new);
        self.runtime.block_on(async {
            let (head, body) =
                self.service.clone().oneshot(request).await.expect("every request is answered").into_parts();
            let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            Answer {
                code: head.status,
                content_type: content_type.unwrap_or_default().to_owned(),
                body: body.collect().await.expect("answers are whole").to_bytes(),
            }
        })
    }

    /// Creates a CRD with this schema, creates the object, and deletes the CRD. An accepted CRD must be served, and
    /// must be deleted completely.
    pub fn define(&self, schema: &Value, object: &Value) {
        const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        const NAME: &str = "bars.fuzz.io";
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": NAME},
            "spec": {
                "group": "fuzz.io",
                "scope": "Namespaced",
                "names": {"plural": "bars", "kind": "Bar"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let answer = self.ask("POST", DEFINITIONS, JSON, JSON, definition.to_string().into());
        answer.check();
        if answer.code != StatusCode::CREATED {
            return;
        }
        let mut object = object.clone();
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), "fuzz.io/v1".into());
            fields.insert("kind".to_owned(), "Bar".into());
            fields.insert("metadata".to_owned(), json!({"name": "x"}));
        }
        let body = Bytes::from(object.to_string());
        for (method, path, content_type) in [
            ("POST", "bars?dryRun=All&fieldValidation=Strict", JSON),
            ("PATCH", "bars/x?dryRun=All&fieldManager=m", "application/apply-patch+yaml"),
        ] {
            let path = format!("/apis/fuzz.io/v1/namespaces/default/{path}");
            self.until(|| {
                let answer = self.ask(method, &path, content_type, JSON, body.clone());
                // Until the kind is served, the path does not exist and the response is plain text.
                let served = answer.code != StatusCode::NOT_FOUND;
                if served {
                    answer.check();
                }
                served
            });
        }
        let path = format!("{DEFINITIONS}/{NAME}");
        self.ask("DELETE", &path, JSON, JSON, Bytes::new()).check();
        self.until(|| self.ask("GET", &path, JSON, JSON, Bytes::new()).code == StatusCode::NOT_FOUND);
    }

    /// Retries until the condition is true, because the server works in the background.
    fn until(&self, mut done: impl FnMut() -> bool) {
        for _ in 0..1000 {
            if done() {
                return;
            }
            self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        }
        panic!("it never comes");
    }
}

impl Kind {
    fn of(collection: &str, object: &str) -> Self {
        let object: Value = serde_json::from_str(object).expect("the objects are JSON");
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        Self { api_version: text("apiVersion"), kind: text("kind"), collection: collection.to_owned() }
    }
}

impl Answer {
    /// Checks that the body has the format of its Content-Type.
    pub fn check(&self) {
        match &*self.content_type {
            JSON => drop(serde_json::from_slice::<Value>(&self.body).expect("answers in JSON are JSON")),
            PROTOBUF => assert!(self.body.starts_with(b"k8s\0"), "{self:?}"),
            YAML => drop(std::str::from_utf8(&self.body).expect("answers in YAML are text")),
            other => panic!("{other}: {}", String::from_utf8_lossy(&self.body)),
        }
    }
}

fn pick<'a>(all: &'a [Kind], by: &[u8]) -> &'a Kind {
    let sum = by.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    &all[sum % all.len()]
}

/// Returns the text before and after the first line feed.
pub fn first_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

/// Sends a create request. Input: a line with the kind, then the body. Every response must be well-formed.
pub fn create(data: &[u8], content_type: &str, accept: &str) {
    let (kind, body) = first_line(data);
    let kind = TEST_SERVER.kind(kind);
    for validation in ["Strict", "Ignore"] {
        let path = format!("{}?dryRun=All&fieldValidation={validation}", kind.collection);
        TEST_SERVER.ask("POST", &path, content_type, accept, Bytes::copy_from_slice(body)).check();
    }
}
