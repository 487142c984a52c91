use std::{collections::BTreeMap, convert::Infallible};

use http::HeaderValue;
use parking_lot::Mutex;
use tracing::{
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::SubscriberExt as _, registry::LookupSpan};
use windlass_api::{ObjectRef, k8s_openapi::api::core::v1::Pod};

use super::*;
use crate::Client;

/// The closed spans: name, parent and fields.
#[derive(Clone, Debug, Default)]
struct Closed(Arc<Mutex<Vec<(String, Option<String>, Fields)>>>);

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Closed {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: tracing_subscriber::layer::Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        cx.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: tracing_subscriber::layer::Context<'_, S>) {
        values.record(cx.span(id).unwrap().extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: Id, cx: tracing_subscriber::layer::Context<'_, S>) {
        let span = cx.span(&id).unwrap();
        let fields = span.extensions().get::<Fields>().unwrap().clone();
        let parent = span.parent().map(|parent| parent.name().to_owned());
        self.0.lock().push((span.name().to_owned(), parent, fields));
    }
}

/// Returns a client whose server answers with this code, and the headers that it received.
fn client(code: u16) -> (Client, Arc<Mutex<Vec<HeaderMap>>>) {
    let received: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
    let headers = received.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        headers.lock().push(request.headers().clone());
        let response = Response::builder().status(code).header("content-type", "application/json");
        let response = response.body(Body::from(r#"{"metadata": {"name": "web-0", "namespace": "shop"}}"#));
        async { Ok::<_, Infallible>(response.unwrap()) }
    });
    (Client::from_service(service, "default"), received)
}

/// Records the spans of this thread until the guards are dropped.
///
/// With a single dispatcher, a thread without a subscriber that reaches the span first would disable it for all threads.
/// The second dispatcher prevents this.
fn record(closed: &Closed) -> (tracing::Dispatch, tracing::subscriber::DefaultGuard) {
    let second = tracing::Dispatch::new(tracing_subscriber::registry());
    (second, tracing::subscriber::set_default(tracing_subscriber::registry().with(closed.clone())))
}

fn pod() -> ObjectRef<Pod> {
    ObjectRef::new("web-0").within("shop")
}

#[tokio::test]
async fn request_span_has_the_fields_of_the_conventions() {
    let closed = Closed::default();
    let _guard = record(&closed);
    let (found, _) = client(200);
    let (missing, _) = client(404);
    let server = "https://example.com:6443/prefix/".parse::<Uri>().unwrap();
    found.with(|policy| policy.server = Some(server)).get::<Pod>(pod()).await.unwrap();
    let outer = tracing::info_span!("outer");
    tracing::Instrument::instrument(async { missing.get::<Pod>(pod()).await.unwrap_err() }, outer).await;

    let spans = closed.0.lock();
    let (name, parent, Fields(fields)) = &spans[0];
    assert_eq!((name.as_str(), parent), ("request", &None));
    let expected = [
        ("http.request.method", "GET"),
        ("http.response.body.size", "52"),
        ("http.response.status_code", "200"),
        ("k8s.namespace.name", "shop"),
        ("k8s.object.name", "web-0"),
        ("k8s.request.verb", "get"),
        ("k8s.resource.name", "pods"),
        ("otel.kind", "client"),
        ("otel.name", "GET /api/v1/namespaces/{namespace}/pods/{name}"),
        ("server.address", "example.com"),
        ("server.port", "6443"),
        ("url.full", "https://example.com:6443/prefix/api/v1/namespaces/shop/pods/web-0"),
        ("url.template", "/api/v1/namespaces/{namespace}/pods/{name}"),
    ];
    assert_eq!(*fields, expected.into_iter().map(|(name, value)| (name, value.to_owned())).collect());

    let (_, parent, Fields(fields)) = &spans[1];
    assert_eq!(parent.as_deref(), Some("outer"));
    assert_eq!((fields["otel.status_code"].as_str(), fields["error.type"].as_str()), ("ERROR", "404"));
}

#[tokio::test]
async fn request_carries_the_headers_of_its_span() {
    let (client, received) = client(200);
    let client = client.with_trace_headers(|span, headers| {
        let name = span.metadata().map_or("none", |metadata| metadata.name());
        headers.insert("traceparent", HeaderValue::from_static(name));
    });
    client.get::<Pod>(pod()).await.unwrap();
    {
        let _guard = record(&Closed::default());
        client.get::<Pod>(pod()).await.unwrap();
    }
    let received: Vec<_> = received.lock().iter().map(|headers| headers["traceparent"].clone()).collect();
    assert_eq!(received, ["none", "request"]);
}

#[tokio::test]
async fn span_ends_with_the_response_body() {
    let closed = Closed::default();
    let _guard = record(&closed);
    let (client, _) = client(200);
    let watch = client.watch::<Pod>().await.unwrap();
    assert!(closed.0.lock().is_empty());
    drop(watch);
    let spans = closed.0.lock();
    let (_, _, Fields(fields)) = &spans[0];
    assert_eq!(fields["k8s.request.verb"], "watch");
    assert_eq!(fields["url.template"], "/api/v1/pods");
}

#[test]
fn template_replaces_namespace_and_name() {
    let operation = |namespace: Option<&str>, name: Option<&str>| Operation {
        verb: Verb::Get,
        resource: "pods".to_owned(),
        subresource: None,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
    };
    for (path, namespace, name, expected) in [
        (
            "/api/v1/namespaces/namespaces/pods/pods/log",
            Some("namespaces"),
            Some("web"),
            "/api/v1/namespaces/{namespace}/pods/pods/log",
        ),
        ("/api/v1/namespaces/shop", None, Some("shop"), "/api/v1/namespaces/{name}"),
        (
            "/apis/apps/v1/namespaces/a/deployments/b/status",
            Some("a"),
            Some("b"),
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            None,
            Some("system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}",
        ),
        ("/api/v1/nodes", None, None, "/api/v1/nodes"),
    ] {
        assert_eq!(template(path, &operation(namespace, name)).as_deref(), Some(expected));
    }
    assert_eq!(template("/healthz", &Operation::request("/healthz")), None);
}
