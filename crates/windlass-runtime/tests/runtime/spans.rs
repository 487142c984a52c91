//! Spans: names, fields and parents of reconciles and their requests.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use parking_lot::Mutex;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    filter::LevelFilter,
    layer::{Context as LayerContext, SubscriberExt as _},
    registry::LookupSpan,
};
use windlass_api::{ObjectExt as _, k8s_openapi::api::core::v1::ConfigMap};
use windlass_runtime::{Action, Context, Controller, Error, Result};

use crate::{
    fake::{Fake, Run, config, eventually},
    objects::Objects,
};

/// The closed spans.
#[derive(Clone, Default)]
struct Closed(Arc<Mutex<Vec<Span>>>);

#[derive(Clone, Debug)]
struct Span {
    name: String,
    parent: Option<String>,
    fields: Fields,
}

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

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Closed {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: LayerContext<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        cx.span(id).unwrap().extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, cx: LayerContext<'_, S>) {
        values.record(cx.span(id).unwrap().extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_close(&self, id: Id, cx: LayerContext<'_, S>) {
        let span = cx.span(&id).unwrap();
        let fields = span.extensions().get::<Fields>().unwrap().clone();
        let parent = span.parent().map(|parent| parent.name().to_owned());
        self.0.lock().push(Span { name: span.name().to_owned(), parent, fields });
    }
}

/// Writes a config if the object has data, and fails otherwise.
async fn reconcile(object: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    if object.data.is_none() {
        return Err(Error::terminal("no data"));
    }
    cx.client().create(&config(&format!("{}-copy", object.name()))).await?;
    Ok(Action::await_change())
}

/// Reconciles one object without data, then with it. Returns the spans of a level.
async fn spans(level: LevelFilter) -> Vec<Span> {
    let closed = Closed::default();
    // The level is a layer of its own: with two dispatchers, a filter of one layer loses spans.
    let subscriber = tracing_subscriber::registry().with(level).with(closed.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single dispatcher, a thread without a subscriber that reaches the span first would disable it for all.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let (fake, server) = (Fake::new(), Objects::default());
    let mut manager = fake.manager_of(server.client()).build();
    manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
    let run = Run::start(manager);
    let reconciles = || closed.0.lock().iter().filter(|span| span.name == "reconcile").count();
    fake.put(&config("a"));
    eventually("the failed reconcile", || reconciles() == 1).await;
    let mut object = config("a");
    object.data = Some([("k".to_owned(), "v".to_owned())].into());
    fake.put(&object);
    eventually("the reconcile", || reconciles() == 2).await;
    run.stop().await.unwrap();
    let closed = closed.0.lock();
    closed.clone()
}

#[tokio::test(start_paused = true)]
async fn reconcile_span_has_its_trigger_and_contains_its_requests() {
    let spans = spans(LevelFilter::DEBUG).await;
    let reconciles: Vec<_> = spans.iter().filter(|span| span.name == "reconcile").map(|span| &span.fields.0).collect();
    assert_eq!(reconciles[0]["trigger"], "added configmaps ns/a");
    assert_eq!(reconciles[0]["otel.status_code"], "ERROR");
    assert_eq!(reconciles[1]["trigger"], "updated configmaps ns/a");
    assert_eq!(reconciles[1].get("otel.status_code"), None);
    for fields in reconciles {
        let by_name = ["controller", "key", "k8s.namespace.name"].map(|name| fields[name].as_str());
        assert_eq!(by_name, ["configmap", "ns/a", "ns"]);
        assert!(!fields["id"].is_empty());
    }
    let requests: Vec<_> = spans.iter().filter(|span| span.name == "request").collect();
    let [request] = &requests[..] else { panic!("{spans:?}") };
    assert_eq!(request.parent.as_deref(), Some("reconcile"));
    assert_eq!(request.fields.0["otel.name"], "POST /api/v1/namespaces/{namespace}/configmaps");
    assert_eq!(request.fields.0["http.response.status_code"], "201");
}

#[tokio::test(start_paused = true)]
async fn spans_at_info_have_neither_triggers_nor_requests() {
    let spans = spans(LevelFilter::INFO).await;
    assert!(spans.iter().all(|span| span.name == "reconcile" && !span.fields.0.contains_key("trigger")), "{spans:?}");
}
