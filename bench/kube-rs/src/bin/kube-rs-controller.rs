//! The equivalent of `windlass-bench-controller`: the same controller and the same output.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Config, Error, Resource,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{
        WatchStreamExt,
        controller::{self, Action, Controller},
        predicates,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use kube_rs_peer::{Outcome, cpu, memory};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{sync::Notify, time::Instant};

/// The time without reconciles after which the work is done.
const QUIET: Duration = Duration::from_secs(1);

// The same allocator as in windlass-bench-controller.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// The output of kube's derive, without the schema.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Widget {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: Spec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Spec {
    settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
}

impl k8s_openapi::Resource for Widget {
    const API_VERSION: &'static str = "bench.windlass.dev/v1";
    const GROUP: &'static str = "bench.windlass.dev";
    const KIND: &'static str = "Widget";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "widgets";
    type Scope = k8s_openapi::NamespaceResourceScope;
}

impl k8s_openapi::Metadata for Widget {
    type Ty = ObjectMeta;
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The shared state of the reconcilers.
struct Shared {
    client: Client,
    children: Store<ConfigMap>,
    count: Count,
}

/// The counters, as in windlass-bench.
#[derive(Default)]
struct Count {
    ended: AtomicU64,
    failed: AtomicU64,
    took: Mutex<Vec<Duration>>,
    progress: Notify,
}

// One thread, as in windlass-bench-controller.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let flag = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let path = flag("--kubeconfig").ok_or("expected --kubeconfig PATH")?;
    let objects: usize = flag("--objects").map_or(Ok(10_000), |objects| objects.parse())?;
    let concurrency: u16 = flag("--concurrency").map_or(Ok(8), |concurrency| concurrency.parse())?;
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;

    let (cpu_before, started) = (cpu()?, Instant::now());
    let (widgets, widgets_writer) = reflector::store::<Widget>();
    let (children, children_writer) = reflector::store::<ConfigMap>();
    let roots = watcher(Api::<Widget>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(widgets_writer)
        .touched_objects()
        .predicate_filter(predicates::generation, Default::default());
    let owned = watcher(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(children_writer)
        .touched_objects();
    let shared = Arc::new(Shared { client, children, count: Count::default() });
    let running = Controller::for_stream(roots, widgets)
        .owns_stream(owned)
        .with_config(controller::Config::default().concurrency(concurrency))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(5)), shared.clone())
        .for_each(async |_| ());
    let running = tokio::spawn(running);
    shared.count.ready(objects).await;
    let seconds = started.elapsed().as_secs_f64();
    shared.count.quiet(QUIET).await;

    let cpu = cpu()? - cpu_before;
    let (rss, peak) = (memory("VmRSS:")?, memory("VmHWM:")?);
    let mut took = shared.count.took.lock().unwrap().clone();
    took.sort_unstable();
    let at = |percent: usize| took[took.len() * percent / 100].as_secs_f64() * 1e3;
    let reconciles = shared.count.ended.load(Relaxed);
    println!(
        "{}",
        json!({
            "bench": "reconcile", "objects": took.len(), "reconciles": reconciles,
            "failed": shared.count.failed.load(Relaxed), "seconds": seconds,
            "objects_per_second": took.len() as f64 / seconds, "reconciles_per_second": reconciles as f64 / seconds,
            "p50_ms": at(50), "p99_ms": at(99),
            "cpu_us_per_reconcile": cpu * 1e6 / reconciles as f64, "cpu_us_per_object": cpu * 1e6 / took.len() as f64,
            "untrimmed_rss_bytes": rss, "rss_bytes": rss, "peak_rss_bytes": peak,
        })
    );
    running.abort();
    Ok(())
}

async fn reconcile(widget: Arc<Widget>, shared: Arc<Shared>) -> Result<Action, Error> {
    let start = Instant::now();
    let result = bring_about(&widget, &shared).await;
    shared.count.note(start.elapsed(), &result);
    result.map(|_| Action::await_change())
}

/// Applies the desired child and updates the status. Returns whether the status was written.
async fn bring_about(widget: &Widget, shared: &Shared) -> Result<bool, Error> {
    let (name, namespace) = (widget.metadata.name.as_deref().unwrap(), widget.metadata.namespace.as_deref().unwrap());
    let children = Api::<ConfigMap>::namespaced(shared.client.clone(), namespace);
    match shared.children.get(&ObjectRef::new(name).within(namespace)) {
        None => {
            let wanted = ConfigMap {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    namespace: Some(namespace.to_owned()),
                    owner_references: Some(widget.controller_owner_ref(&()).into_iter().collect()),
                    ..ObjectMeta::default()
                },
                data: Some(widget.spec.settings.clone()),
                ..ConfigMap::default()
            };
            children.create(&PostParams::default(), &wanted).await?;
        }
        Some(found) if found.data.as_ref() != Some(&widget.spec.settings) => {
            let changed = ConfigMap { data: Some(widget.spec.settings.clone()), ..ConfigMap::clone(&found) };
            children.replace(name, &PostParams::default(), &changed).await?;
        }
        Some(_) => {}
    }
    let generation = widget.metadata.generation;
    let mut status = widget.status.clone().unwrap_or_default();
    let is_ready = |it: &Condition| it.type_ == "Ready" && it.status == "True" && it.observed_generation == generation;
    if status.observed_generation == generation && status.conditions.iter().any(is_ready) {
        return Ok(false);
    }
    status.observed_generation = generation;
    status.conditions = vec![Condition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: "Configured".to_owned(),
        message: String::new(),
        observed_generation: generation,
        last_transition_time: Time(Timestamp::now()),
    }];
    let changed = Widget { status: Some(status), ..widget.clone() };
    let widgets = Api::<Widget>::namespaced(shared.client.clone(), namespace);
    widgets.replace_status(name, &PostParams::default(), &changed).await?;
    Ok(true)
}

impl Count {
    fn note(&self, took: Duration, result: &Result<bool, Error>) {
        match result {
            Ok(true) => self.took.lock().unwrap().push(took),
            Ok(false) => {}
            Err(_) => drop(self.failed.fetch_add(1, Relaxed)),
        }
        self.ended.fetch_add(1, Relaxed);
        self.progress.notify_one();
    }

    /// Waits for this number of written statuses.
    async fn ready(&self, objects: usize) {
        while self.took.lock().unwrap().len() < objects {
            self.progress.notified().await;
        }
    }

    /// Waits until no reconcile has ended for this time.
    async fn quiet(&self, time: Duration) {
        while tokio::time::timeout(time, self.progress.notified()).await.is_ok() {}
    }
}
