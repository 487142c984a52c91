//! Requests that are forwarded to other API servers.

use std::convert::Infallible;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::StreamExt as _;
use http::Response;
use http_body::Frame;
use http_body_util::{Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use windlass_api::BoxError;

use super::*;
use crate::{AdmissionConfiguration, AdmissionPlugins, FrontProxy, ProxyIdentity, User};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const THINGS: &str = "/apis/things.example.com/v1/namespaces/default/things";

type BackendBody = UnsyncBoxBody<Bytes, BoxError>;

/// An API server for `things.example.com/v1`, as `extension.default.svc`.
struct Backend {
    port: u16,
    ca: String,
    state: Arc<BackendState>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct BackendState {
    /// The number of certificates that the last client presented.
    certificates: Mutex<usize>,
    is_broken: AtomicBool,
    is_legacy: AtomicBool,
    /// Only the OpenAPI document of version 2 fails.
    is_undescribed: AtomicBool,
    /// The number of requests for it that were answered with 304.
    unchanged: AtomicUsize,
}

impl Backend {
    async fn start() -> Self {
        let identity = TlsIdentity::generate(["extension.default.svc"]).unwrap();
        let clients = TlsIdentity::generate::<String>([]).unwrap();
        Self::with(identity, clients.ca_pem()).await
    }

    /// Starts a server that accepts certificates of a CA.
    async fn with(identity: TlsIdentity, client_ca: &str) -> Self {
        let identity = identity.with_client_ca(client_ca).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, ca) = (listener.local_addr().unwrap().port(), identity.ca_pem().to_owned());
        let mut config = (*identity.config()).clone();
        config.alpn_protocols.clear();
        let (acceptor, state) = (TlsAcceptor::from(Arc::new(config)), Arc::<BackendState>::default());
        let mut task = JoinSet::new();
        let serving = Arc::clone(&state);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&serving));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    *state.certificates.lock() = stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len);
                    let answer = service_fn(|request| answer(&state, request));
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        Self { port, ca, state, _task: task }
    }

    /// Registers the server with a service, as an administrator does.
    async fn register(&self, service: &Service) {
        let external =
            json!({"metadata": {"name": "extension"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
        assert_eq!(post(service, "/api/v1/namespaces/default/services", external).await.code, 201);
        let registered = post(service, API_SERVICES, self.api_service()).await;
        assert_eq!(registered.code, 201, "{}", registered.body);
    }

    fn api_service(&self) -> Value {
        json!({"metadata": {"name": "v1.things.example.com"}, "spec": {
            "group": "things.example.com", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 10,
            "caBundle": BASE64_STANDARD.encode(&self.ca),
            "service": {"namespace": "default", "name": "extension", "port": self.port}}})
    }
}

async fn answer(state: &BackendState, request: Request<Incoming>) -> Result<Response<BackendBody>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let kind = json!({"group": "things.example.com", "version": "v1", "kind": "Thing"});
    let (mut code, mut content_type, text) = match head.uri.path() {
        _ if state.is_broken.load(Ordering::Relaxed) => (500, "text/plain", "broken".to_owned()),
        "/apis" if state.is_legacy.load(Ordering::Relaxed) => (404, "text/plain", String::new()),
        "/apis" => {
            let things = json!({"resource": "things", "responseKind": kind, "scope": "Namespaced",
                "singularResource": "thing", "verbs": ["get", "list"]});
            let version = json!({"version": "v1", "resources": [things], "freshness": "Current"});
            let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [
                {"metadata": {"name": "things.example.com"}, "versions": [version]}]});
            (200, AGGREGATED, list.to_string())
        }
        "/apis/things.example.com/v1" => {
            let things = json!({"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
                "verbs": ["get"]});
            (200, "application/json", json!({"kind": "APIResourceList", "resources": [things]}).to_string())
        }
        "/openapi/v3" => {
            let address = json!({"serverRelativeURL": "/openapi/v3/apis/things.example.com/v1?hash=1"});
            (
                200,
                "application/json",
                json!({"paths": {"apis/things.example.com/v1": address, "version": {}}}).to_string(),
            )
        }
        "/openapi/v2" if state.is_undescribed.load(Ordering::Relaxed) => (500, "text/plain", String::new()),
        "/openapi/v2" if head.headers.contains_key(header::IF_NONE_MATCH) => {
            assert_eq!(head.headers[header::IF_NONE_MATCH], "\"first\"");
            state.unchanged.fetch_add(1, Ordering::Relaxed);
            (304, "application/json", String::new())
        }
        "/openapi/v2" => {
            let paths = json!({"/apis/things.example.com/v1/things": {}, "/apis/others.example.com/v1/others": {}});
            (200, "application/json", json!({"paths": paths, "definitions": {}}).to_string())
        }
        path if path.ends_with("/incomplete") => {
            let frames = [Ok(Frame::data(Bytes::from_static(b"incomplete"))), Err("broken".into())];
            // The first frame is sent before the error.
            let frames = futures::stream::iter(frames).then(async |frame| {
                time::sleep(Duration::from_millis(10)).await;
                frame
            });
            return Ok(Response::new(StreamBody::new(frames.boxed()).boxed_unsync()));
        }
        path if path.ends_with("/moved") => (302, "text/plain", String::new()),
        path => {
            let headers: serde_json::Map<String, Value> = head
                .headers
                .keys()
                .map(|name| {
                    let all = head.headers.get_all(name).iter().map(|value| value.to_str().unwrap());
                    (name.to_string(), all.collect::<Vec<_>>().join("|").into())
                })
                .collect();
            let echo = json!({"method": head.method.as_str(), "path": path, "query": head.uri.query(),
                "headers": headers, "body": String::from_utf8_lossy(&body)});
            (201, "application/x-echo", echo.to_string())
        }
    };
    if code == 302 {
        (code, content_type) = (302, "text/plain");
    }
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, content_type);
    let response = if code == 302 { response.header(header::LOCATION, "/elsewhere") } else { response };
    let response = response.header(header::ETAG, "\"first\"").header("x-own", "1");
    Ok(response.body(Full::from(text).map_err(Into::into).boxed_unsync()).unwrap())
}

/// Waits until the condition of the API service has a reason, and returns its message.
async fn reason_becomes(service: &Service, reason: &str) -> String {
    let seen = async {
        loop {
            let object = get(service, &format!("{API_SERVICES}/v1.things.example.com")).await.json();
            let condition = &object["status"]["conditions"][0];
            if condition["reason"] == reason {
                return condition["message"].as_str().unwrap().to_owned();
            }
            time::sleep(Duration::from_millis(5)).await;
        }
    };
    time::timeout(DEADLINE, seen).await.unwrap()
}

/// Waits until the aggregated discovery document has an entry for the version, and returns it.
async fn version_becomes(service: &Service, freshness: &str) -> Value {
    let seen = async {
        loop {
            let list = accepting(service, "/apis", AGGREGATED).await.json();
            let groups = list["items"].as_array().unwrap();
            let found = groups.iter().find(|group| group["metadata"]["name"] == "things.example.com");
            if let Some(version) = found.map(|group| &group["versions"][0]).filter(|v| v["freshness"] == freshness) {
                return version.clone();
            }
            time::sleep(Duration::from_millis(5)).await;
        }
    };
    time::timeout(DEADLINE, seen).await.unwrap()
}

#[tokio::test]
async fn requests_are_forwarded_with_the_user_and_without_credentials() {
    let backend = Backend::start().await;
    let mut proxies = FrontProxy::of_names(["proxy"]);
    proxies.group_headers.push("X-Other-Group".to_owned());
    proxies.extra_header_prefixes.push("X-Other-Extra-".to_owned());
    let server = Server::builder().front_proxy(proxies).build();
    let service = server.service();
    backend.register(&service).await;
    assert_eq!(reason_becomes(&service, "Passed").await, "all checks passed");

    let extra = ("example.com/Scope".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
    let mut user = User::new("jane").in_groups(["system:masters", "devs"]).with_uid("u-1");
    user.extra.extend([extra]);
    let sent = request("POST", &format!("{THINGS}/a%20b?x=1&y=%2F"))
        .header(header::AUTHORIZATION, "Bearer secret")
        .header("X-Remote-User", "admin")
        .header("X-Remote-Group", "system:masters")
        .header("X-Remote-Extra-Forged", "1")
        .header("Connection", "close, X-Hop")
        .header("X-Hop", "1")
        .header("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0")
        .header("X-Other-Group", "system:masters")
        .header("X-Other-Extra-Scope", "all")
        .header("X-Kept", "2")
        .body("the body".to_owned())
        .unwrap();
    let answer = send(&service.clone().acting_as(user), sent).await;
    assert_eq!((answer.code, answer.header("content-type"), answer.header("x-own")), (201, "application/x-echo", "1"));
    let echo = answer.json();
    let expected =
        json!({"method": "POST", "path": format!("{THINGS}/a%20b"), "query": "x=1&y=%2F", "body": "the body"});
    for field in ["method", "path", "query", "body"] {
        assert_eq!(echo[field], expected[field], "{field}");
    }
    let headers = &echo["headers"];
    for (name, value) in [
        ("x-remote-user", "jane"),
        ("x-remote-uid", "u-1"),
        ("x-remote-group", "system:masters|devs|system:authenticated"),
        ("x-remote-extra-example.com%2fscope", "a|b"),
        ("x-kept", "2"),
        ("user-agent", "test/1"),
        ("audit-id", answer.header("audit-id")),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    let removed = ["authorization", "sec-websocket-protocol", "x-remote-extra-forged", "x-hop"];
    for name in removed.into_iter().chain(["x-other-group", "x-other-extra-scope"]) {
        assert!(headers[name].is_null(), "{name}");
    }
    let upgrade = request("POST", THINGS).header("Connection", "Upgrade").header("Upgrade", "SPDY/3.1");
    assert_eq!(send(&service, upgrade.body(String::new()).unwrap()).await.code, 501);
    let refused = get(&service.clone().acting_as(User::new("joe")), THINGS).await;
    assert_eq!(refused.verdict(), (403, "Forbidden".to_owned()));
    let redirect = get(&service, &format!("{THINGS}/moved")).await;
    assert_eq!((redirect.code, redirect.header("location")), (502, ""));
}

#[tokio::test]
async fn incomplete_response_of_another_server_is_incomplete() {
    let backend = Backend::start().await;
    let server = Server::builder().token("TOKEN").build();
    backend.register(&server.service()).await;
    reason_becomes(&server.service(), "Passed").await;
    let path = format!("{THINGS}/incomplete");
    let answer = server.service().oneshot(request("GET", &path).body(String::new()).unwrap()).await.unwrap();
    let error = answer.into_body().collect().await.unwrap_err();
    assert!(error.to_string().starts_with("the response is incomplete: "), "{error}");
    let running = sockets::Running::of(server, None).await;
    let sent = running.raw(sockets::head("GET", &path, "")).await;
    assert!(sent.contains("incomplete") && !sent.contains("\r\n0\r\n"), "{sent}");
    running.stop().await;
}

#[tokio::test]
async fn discovery_contains_the_groups_of_other_servers() {
    let backend = Backend::start().await;
    let service = server().service();
    backend.register(&service).await;
    let version = version_becomes(&service, "Current").await;
    assert_eq!(version["resources"][0]["resource"], "things");
    let groups = get(&service, "/apis").await.json();
    let names: Vec<_> =
        groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names.last(), Some(&"things.example.com"));
    let group = get(&service, "/apis/things.example.com").await.json();
    assert_eq!(group["preferredVersion"]["groupVersion"], "things.example.com/v1");
    let resources = get(&service, "/apis/things.example.com/v1").await.json();
    assert_eq!(resources["resources"][0]["name"], "things");
    let index = get(&service, "/openapi/v3").await.json();
    let address = index["paths"]["apis/things.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(get(&service, address).await.json()["path"], "/openapi/v3/apis/things.example.com/v1");
    let paths = get(&service, "/openapi/v2").await.json()["paths"].take();
    assert!(paths.get("/apis/things.example.com/v1/things").is_some());
    assert!(paths.get("/apis/others.example.com/v1/others").is_none(), "no API service exists for it");

    let path = format!("{API_SERVICES}/v1.things.example.com");
    assert_eq!(send(&service, request("DELETE", &path).body(String::new()).unwrap()).await.code, 200);
    let gone = async {
        while get(&service, "/apis/things.example.com").await.code != 404 {
            time::sleep(Duration::from_millis(5)).await;
        }
    };
    time::timeout(DEADLINE, gone).await.unwrap();
    assert_eq!(get(&service, THINGS).await.code, 404);
    let paths = get(&service, "/openapi/v2").await.json()["paths"].take();
    assert!(paths.get("/apis/things.example.com/v1/things").is_none());
}

#[tokio::test]
async fn openapi_of_another_server_is_kept_and_read_only_if_changed() {
    async fn is_described(service: &Service) -> bool {
        let document = get(service, "/openapi/v2").await.json();
        document["paths"].get("/apis/things.example.com/v1/things").is_some()
    }
    /// A change of the service causes a check.
    async fn check(service: &Service, round: u32) {
        let patch = json!({"metadata": {"annotations": {"round": round.to_string()}}}).to_string();
        let path = "/api/v1/namespaces/default/services/extension";
        let patch = request("PATCH", path).header(header::CONTENT_TYPE, "application/merge-patch+json").body(patch);
        assert_eq!(send(service, patch.unwrap()).await.code, 200);
    }
    let backend = Backend::start().await;
    let service = server().service();
    backend.register(&service).await;
    version_becomes(&service, "Current").await;
    let described = async {
        while !is_described(&service).await {
            time::sleep(Duration::from_millis(5)).await;
        }
    };
    time::timeout(DEADLINE, described).await.unwrap();

    backend.state.is_broken.store(true, Ordering::Relaxed);
    check(&service, 1).await;
    version_becomes(&service, "Stale").await;
    assert!(is_described(&service).await, "the server does not answer");

    backend.state.is_undescribed.store(true, Ordering::Relaxed);
    backend.state.is_broken.store(false, Ordering::Relaxed);
    check(&service, 2).await;
    version_becomes(&service, "Current").await;
    assert!(is_described(&service).await, "only this document fails");
    assert_eq!(backend.state.unchanged.load(Ordering::Relaxed), 0);

    backend.state.is_broken.store(true, Ordering::Relaxed);
    check(&service, 3).await;
    version_becomes(&service, "Stale").await;
    backend.state.is_undescribed.store(false, Ordering::Relaxed);
    backend.state.is_broken.store(false, Ordering::Relaxed);
    check(&service, 4).await;
    let unchanged = async {
        while backend.state.unchanged.load(Ordering::Relaxed) == 0 {
            time::sleep(Duration::from_millis(5)).await;
        }
    };
    time::timeout(DEADLINE, unchanged).await.unwrap();
    assert!(is_described(&service).await, "the document is unchanged");
}

#[tokio::test]
async fn kinds_of_other_servers_can_be_owners() {
    let backend = Backend::start().await;
    let plugins = AdmissionPlugins::new(&["OwnerReferencesPermissionEnforcement"], &[]).unwrap();
    let service = Server::builder().admission(AdmissionConfiguration::new(plugins).unwrap()).build().service();
    backend.register(&service).await;
    version_becomes(&service, "Current").await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": ["things.example.com"], "resources": ["things/finalizers"], "resourceNames": ["mine"], "verbs": ["update"]}]);
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    post(&service, &format!("{path}/roles"), json!({"metadata": {"name": "editor"}, "rules": rules})).await;
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editor"});
    let binding = json!({"metadata": {"name": "editor"}, "roleRef": reference, "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]});
    post(&service, &format!("{path}/rolebindings"), binding).await;
    let eve = service.clone().acting_as(User::new("eve"));
    for (kind, owner, code, message) in [
        ("Thing", "mine", 201, ""),
        ("Thing", "other", 403, "refers to a resource you can't set finalizers on"),
        ("Other", "mine", 403, "no matches for kind \"Other\" in version \"things.example.com/v1\""),
    ] {
        let reference = json!({"apiVersion": "things.example.com/v1", "kind": kind, "name": owner, "uid": "u",
            "blockOwnerDeletion": true});
        let object = json!({"metadata": {"name": "c", "ownerReferences": [reference]}});
        let answer = post(&eve, CONFIG_MAPS, object).await;
        assert_eq!(answer.code, code, "{}", answer.body);
        assert!(answer.json()["message"].as_str().unwrap_or_default().contains(message), "{}", answer.body);
    }
}

#[tokio::test]
async fn servers_without_aggregated_discovery_are_read_by_version() {
    let backend = Backend::start().await;
    backend.state.is_legacy.store(true, Ordering::Relaxed);
    let service = server().service();
    backend.register(&service).await;
    let version = version_becomes(&service, "Current").await;
    assert_eq!(version["resources"][0]["resource"], "things");
    assert_eq!(version["resources"][0]["scope"], "Namespaced");
}

#[tokio::test]
async fn unavailable_server_affects_only_its_own_version() {
    let backend = Backend::start().await;
    backend.state.is_broken.store(true, Ordering::Relaxed);
    let service = server().service();
    let registered = post(&service, API_SERVICES, backend.api_service()).await;
    assert_eq!(registered.code, 201);
    let message = reason_becomes(&service, "ServiceNotFound").await;
    assert_eq!(message, "service/extension in \"default\" is not present");
    let unavailable = get(&service, THINGS).await;
    assert_eq!((unavailable.code, &*unavailable.body), (503, "service unavailable\n"));
    assert_eq!(version_becomes(&service, "Stale").await, json!({"version": "v1", "freshness": "Stale"}));
    let text = get(&service, "/metrics").await.body;
    assert!(text.contains("aggregator_unavailable_apiservice{name=\"v1.things.example.com\"} 1\n"), "{text}");

    let external =
        json!({"metadata": {"name": "extension"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    assert_eq!(post(&service, "/api/v1/namespaces/default/services", external).await.code, 201);
    let url = format!("https://localhost:{}/apis/things.example.com/v1", backend.port);
    let message = reason_becomes(&service, "FailedDiscoveryCheck").await;
    assert_eq!(message, format!("failing or missing response from {url}: bad status from {url}: 500"));
    assert_eq!(get(&service, "/apis/apps/v1").await.code, 200);

    // It is checked again without a change of any object.
    backend.state.is_broken.store(false, Ordering::Relaxed);
    reason_becomes(&service, "Passed").await;
    assert_eq!(version_becomes(&service, "Current").await["resources"][0]["resource"], "things");
    assert_eq!(get(&service, THINGS).await.code, 201);
}

#[tokio::test]
async fn ready_endpoint_of_a_service_is_used() {
    let backend = Backend::start().await;
    let service = server().service();
    assert_eq!(post(&service, API_SERVICES, backend.api_service()).await.code, 201);
    let port = json!({"name": "https", "port": backend.port, "targetPort": backend.port});
    let other = json!({"name": "https", "port": 1, "targetPort": 1});
    let services = "/api/v1/namespaces/default/services";
    let object = json!({"metadata": {"name": "extension"}, "spec": {"ports": [other]}});
    assert_eq!(post(&service, services, object).await.code, 201);
    let message = reason_becomes(&service, "ServicePortError").await;
    assert_eq!(message, format!("service/extension in \"default\" is not listening on port {}", backend.port));
    let merge = "application/merge-patch+json";
    let path = format!("{services}/extension");
    assert_eq!(with_body(&service, "PATCH", &path, merge, json!({"spec": {"ports": [port]}})).await.code, 200);
    let message = reason_becomes(&service, "EndpointsNotFound").await;
    assert_eq!(message, "cannot find endpointslices for service/extension in \"default\"");
    let slice = json!({"metadata": {"name": "extension-1", "labels": {"kubernetes.io/service-name": "extension"}},
        "addressType": "IPv4", "ports": [{"name": "https", "port": backend.port}],
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    assert_eq!(post(&service, slices, slice).await.code, 201);
    let message = reason_becomes(&service, "MissingEndpoints").await;
    let expected = "endpointslices for service/extension in \"default\" have no addresses with port name \"https\"";
    assert_eq!(message, expected);
    // Loopback addresses are not valid in endpoints, so this one is from a range for documentation.
    let ready = json!({"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}]});
    assert_eq!(with_body(&service, "PATCH", &format!("{slices}/extension-1"), merge, ready).await.code, 200);
    let message = reason_becomes(&service, "FailedDiscoveryCheck").await;
    let url = format!("https://192.0.2.1:{}/apis/things.example.com/v1", backend.port);
    assert!(message.starts_with(&format!("failing or missing response from {url}: ")), "{message}");
}

#[tokio::test]
async fn certificate_of_the_proxy_is_presented() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(Vec::new()).unwrap().signed_by(&key, &issuer).unwrap().pem();
    let identity = ProxyIdentity::from_pem(&certificate, &key.serialize_pem()).unwrap();
    assert!(ProxyIdentity::from_pem(&certificate, "no key").is_err());

    let backend = Backend::with(TlsIdentity::generate(["extension.default.svc"]).unwrap(), &ca).await;
    let server = Server::builder().proxy_identity(identity).build();
    let service = server.service();
    backend.register(&service).await;
    reason_becomes(&service, "Passed").await;
    assert_eq!(get(&service, THINGS).await.code, 201);
    assert_eq!(*backend.state.certificates.lock(), 1);
}

#[tokio::test]
async fn self_signed_certificate_of_a_ca_is_trusted_if_it_is_in_the_bundle() {
    // As `openssl req -x509` creates it.
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["extension.default.svc".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    let identity = TlsIdentity::from_pem(&certificate, &key.serialize_pem(), &certificate).unwrap();
    let clients = TlsIdentity::generate::<String>([]).unwrap();
    let backend = Backend::with(identity, clients.ca_pem()).await;
    let service = server().service();
    backend.register(&service).await;
    assert_eq!(reason_becomes(&service, "Passed").await, "all checks passed");
}

#[tokio::test]
async fn certificate_of_another_server_is_not_trusted() {
    let backend = Backend::start().await;
    let service = server().service();
    let external =
        json!({"metadata": {"name": "extension"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    assert_eq!(post(&service, "/api/v1/namespaces/default/services", external).await.code, 201);
    let mut registration = backend.api_service();
    let other = TlsIdentity::generate::<String>([]).unwrap();
    registration["spec"]["caBundle"] = BASE64_STANDARD.encode(other.ca_pem()).into();
    assert_eq!(post(&service, API_SERVICES, registration).await.code, 201);
    let message = reason_becomes(&service, "FailedDiscoveryCheck").await;
    assert!(message.contains("certificate"), "{message}");
    // Without verification it is available.
    let path = format!("{API_SERVICES}/v1.things.example.com");
    let change = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    assert_eq!(with_body(&service, "PATCH", &path, "application/merge-patch+json", change).await.code, 200);
    reason_becomes(&service, "Passed").await;
}
