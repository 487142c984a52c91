//! A benchmark of one informer: sync, memory, updates and reads.

mod handling;
mod reader;
mod reads;
mod warm_up;

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::json;
use tokio::time::Instant;
use windlass_api::{ApiResource, BoxError, DynamicObject, GroupVersionKind, Object, Resource};
use windlass_cache::{Index, InformerOptions, InitialSync, SharedInformer};
use windlass_client::{
    Client, Config, ContentType,
    config::{Kubeconfig, Selection},
};

use self::{
    handling::{FiveFields, Progress, Work},
    reader::Reader,
};
use windlass_bench::process;

/// The flags of `windlass-bench informer`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The URL of a server that needs no credentials
    #[arg(long, value_name = "URL", conflicts_with = "kubeconfig", required_unless_present = "kubeconfig")]
    server: Option<http::Uri>,
    /// The kubeconfig of a server
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// The number of updates to wait for after the sync
    #[arg(long, default_value_t = 0)]
    updates: u64,
    /// The bytes of bodies that remain uncompressed; defaults to the cache's default
    #[arg(long)]
    budget: Option<usize>,
    /// The resource to follow, in all namespaces
    #[arg(long, value_enum, default_value_t = ObjectKind::Pods)]
    resource: ObjectKind,
    /// The handler's work for an object
    #[arg(long, value_enum, default_value_t = Work::Key)]
    handler: Work,
    /// How to read the initial state
    #[arg(long, value_enum, default_value_t = Start::List)]
    start: Start,
    /// The preferred encoding of the objects
    #[arg(long, value_enum, default_value_t = Encoding::Json)]
    encoding: Encoding,
    /// Index the objects by node, and measure reads
    #[arg(long, value_enum, default_value_t = Reads::None)]
    reads: Reads,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ObjectKind {
    Pods,
    Secrets,
    Configmaps,
    Widgets,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Start {
    /// LIST in pages, then WATCH
    List,
    /// A streaming list, as a watch
    Watch,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Encoding {
    Json,
    Protobuf,
}

/// When to measure reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reads {
    /// Never
    None,
    /// After the updates, when nothing changes
    After,
    /// After the updates, and also by another thread during the updates; figures of the updates are then not comparable
    Throughout,
}

/// The index for `--reads`.
const BY_NODE: &str = "node";

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    match options.resource {
        ObjectKind::Pods => follow::<Pod>(Pod::api_resource(), options).await,
        ObjectKind::Secrets => follow::<Secret>(Secret::api_resource(), options).await,
        ObjectKind::Configmaps => follow::<ConfigMap>(ConfigMap::api_resource(), options).await,
        ObjectKind::Widgets => {
            let widgets =
                ApiResource::namespaced(GroupVersionKind::new("bench.windlass.dev", "v1", "Widget"), "widgets");
            follow::<DynamicObject>(widgets, options).await
        }
    }
}

async fn follow<K: Object + FiveFields>(resource: ApiResource, options: Options) -> Result<(), BoxError> {
    process::keep_little();
    let config = match (options.server, &options.kubeconfig) {
        (Some(server), _) => Config::new(server),
        (None, Some(path)) => Config::from_kubeconfig(&Kubeconfig::read(path)?, &Selection::default())?,
        (None, None) => return Err("neither a server nor a kubeconfig".into()),
    };
    let content_type = match options.encoding {
        Encoding::Json => ContentType::Json,
        Encoding::Protobuf => ContentType::Protobuf,
    };
    let client = Client::new(config.with_content_type(content_type))?.without_rate_limit();
    let mut informing = InformerOptions::default().initial_sync(match options.start {
        Start::List => InitialSync::List,
        Start::Watch => InitialSync::Watch,
    });
    informing = informing.page_size(500);
    if let Some(budget) = options.budget {
        informing = informing.budget(budget);
    }
    let list_watch = Arc::new(client.list_watch(&resource, None));
    warm_up::warm_up::<K>(resource.clone(), list_watch.clone(), informing.clone().initial_sync(InitialSync::List))
        .await?;
    let informer = SharedInformer::<K>::for_resource(resource, list_watch, informing);
    if options.reads != Reads::None {
        informer.add_index(Index::on_path(BY_NODE, ["spec", "nodeName"])).await?;
    }
    let progress = Arc::new(Progress::new(options.updates));
    let registration = informer.add_handler(handling::handler(options.handler, progress.clone()));

    process::trim_allocator();
    let (before, cpu_before, started) = (process::rss()?, process::cpu_seconds()?, Instant::now());
    let running = tokio::spawn(informer.clone().run(std::future::pending()));
    registration.has_synced().await?;
    let (took, cpu) = (started.elapsed(), process::cpu_seconds()? - cpu_before);
    let peak = process::peak_rss()?;
    settle().await;
    process::trim_allocator();
    let objects = informer.store().len();
    let after = process::rss()?;
    println!(
        "{}",
        json!({
            "bench": "informer", "objects": objects, "sync_seconds": took.as_secs_f64(), "cpu_seconds": cpu, "rss_bytes": after,
            "rss_bytes_per_object": after.saturating_sub(before) / (objects as u64).max(1), "peak_rss_bytes": peak,
        })
    );
    let reader = (options.reads == Reads::Throughout).then(|| Reader::start(informer.store()));
    if options.updates > 0 {
        follow_updates(&progress).await?;
    }
    let waits = reader.map(Reader::stop).transpose()?;
    if options.reads != Reads::None {
        let mut figures = reads::measure(&informer.store())?;
        figures.extend(waits.into_iter().flat_map(reader::Waits::figures));
        println!("{}", serde_json::Value::from(figures));
    }
    running.abort();
    Ok(())
}

/// Measures from the first update to the last.
async fn follow_updates(progress: &Progress) -> Result<(), BoxError> {
    let (cpu_before, seen) = (process::cpu_seconds()?, progress.seen());
    progress.begun().await;
    let started = Instant::now();
    progress.all().await;
    let (took, cpu) = (started.elapsed().as_secs_f64(), process::cpu_seconds()? - cpu_before);
    settle().await;
    let untrimmed = process::rss()?;
    process::trim_allocator();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let events = (progress.awaited - seen) as f64;
    println!(
        "{}",
        json!({
            "bench": "updates", "events": events, "seconds": took, "cpu_us_per_event": cpu * 1e6 / events,
            "events_per_second": events / took, "rss_bytes": process::rss()?, "untrimmed_rss_bytes": untrimmed,
        })
    );
    Ok(())
}

/// Lets other threads drop the objects that the handlers released.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}
