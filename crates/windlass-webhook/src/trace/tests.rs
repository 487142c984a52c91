use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

use super::*;
use crate::{
    Webhooks,
    admission::{Request, Response},
    testing::{review, send},
};

/// The fields of all spans named `webhook`.
#[derive(Clone, Debug, Default)]
struct Recorded(Arc<Mutex<BTreeMap<&'static str, String>>>);

struct Visitor<'v>(&'v mut BTreeMap<&'static str, String>);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorded {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "webhook" {
            attributes.record(&mut Visitor(&mut self.0.lock()));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: Context<'_, S>) {
        if cx.span(id).unwrap().name() == "webhook" {
            values.record(&mut Visitor(&mut self.0.lock()));
        }
    }
}

#[tokio::test]
async fn call_span_names_the_object_and_gets_its_parent() {
    let recorded = Recorded::default();
    let parents: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = parents.clone();
    let path = WebhookPath::validate(&<ConfigMap as windlass_api::Resource>::api_resource());
    let inside = Arc::new(Mutex::new(None));
    let current = inside.clone();
    let handler = move |_: &Request| {
        *current.lock() = Span::current().metadata().map(tracing::Metadata::name);
        Response::allowed()
    };
    let webhooks = Webhooks::builder().handler(path.clone(), handler).build().unwrap();
    let webhooks = webhooks.with_trace_parent(move |span, headers| {
        let name = span.metadata().map_or("none", |metadata| metadata.name());
        seen.lock().push(format!("{name} {}", headers["traceparent"].to_str().unwrap()));
    });
    let call = || async {
        let request = http::Request::post(path.as_str()).header("content-type", "application/json");
        let document = review("CREATE", &json!({}), &json!(null)).to_string();
        send(&webhooks, request.header("traceparent", "00-1-2-01"), document).await
    };
    assert_eq!(call().await.0, 200);
    assert!(parents.lock().is_empty() && inside.lock().is_none(), "disabled spans cost nothing");

    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(recorded.clone()));
    // With a single dispatcher, a thread without a subscriber that reaches the span first would disable it for all.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    assert_eq!(call().await.0, 200);
    assert_eq!(*parents.lock(), ["webhook 00-1-2-01"]);
    assert_eq!(*inside.lock(), Some("webhook"));
    let name = format!("POST {path}");
    let expected = [
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("http.route", path.as_str()),
        ("k8s.admission.operation", "CREATE"),
        ("k8s.admission.uid", "u-1"),
        ("k8s.namespace.name", "shop"),
        ("k8s.object.name", "web"),
        ("k8s.resource.name", "configmaps"),
        ("otel.kind", "server"),
        ("otel.name", name.as_str()),
        ("url.path", path.as_str()),
    ];
    assert_eq!(*recorded.0.lock(), expected.into_iter().map(|(name, value)| (name, value.to_owned())).collect());
}
