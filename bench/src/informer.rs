//! One informer: what it costs to sync, to hold, to follow, and to read.

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
    Client, Config,
    config::{Kubeconfig, Selection},
};

use self::{
    handling::{Progress, Work},
    reader::Reader,
};
use windlass_bench::process;

/// The flags of `windlass-bench informer`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// A server that asks for no credentials
    #[arg(long, value_name = "URL", conflicts_with = "kubeconfig", required_unless_present = "kubeconfig")]
    server: Option<http::Uri>,
    /// A server, by a kubeconfig
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// How many updates to wait for after the sync
    #[arg(long, default_value_t = 0)]
    updates: u64,
    /// Bytes of bodies that are kept uncompressed; the cache's default without
    #[arg(long)]
    budget: Option<usize>,
    /// Which resource to follow, in all namespaces
    #[arg(long, value_enum, default_value_t = Followed::Pods)]
    resource: Followed,
    /// What the handler does with an object
    #[arg(long, value_enum, default_value_t = Work::Key)]
    handler: Work,
    /// How the present state is asked for
    #[arg(long, value_enum, default_value_t = Start::List)]
    start: Start,
    /// Index the objects by node, and measure what reading costs
    #[arg(long, value_enum, default_value_t = Reads::None)]
    reads: Reads,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Followed {
    Pods,
    Secrets,
    Configmaps,
    Widgets,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Start {
    /// LIST in pages, then WATCH
    List,
    /// A watch that begins with the present state
    Watch,
}

/// When the cache is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reads {
    /// Never
    None,
    /// After the updates, when nothing changes
    After,
    /// Then, and by one more thread as fast as it can, while the updates come: their own figures are not to be compared
    Throughout,
}

/// The index that `--reads` makes.
const BY_NODE: &str = "node";

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    match options.resource {
        Followed::Pods => follow::<Pod>(Pod::api_resource(), options).await,
        Followed::Secrets => follow::<Secret>(Secret::api_resource(), options).await,
        Followed::Configmaps => follow::<ConfigMap>(ConfigMap::api_resource(), options).await,
        Followed::Widgets => {
            let widgets =
                ApiResource::namespaced(GroupVersionKind::new("bench.windlass.dev", "v1", "Widget"), "widgets");
            follow::<DynamicObject>(widgets, options).await
        }
    }
}

async fn follow<K: Object>(resource: ApiResource, options: Options) -> Result<(), BoxError> {
    process::keep_little();
    let config = match (options.server, &options.kubeconfig) {
        (Some(server), _) => Config::new(server),
        (None, Some(path)) => Config::from_kubeconfig(&Kubeconfig::read(path)?, &Selection::default())?,
        (None, None) => return Err("neither a server nor a kubeconfig".into()),
    };
    let client = Client::new(config)?.without_rate_limit();
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

/// From the first update to the last.
async fn follow_updates(progress: &Progress) -> Result<(), BoxError> {
    let (cpu_before, seen) = (process::cpu_seconds()?, progress.seen());
    progress.first_after(seen).await;
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

/// What was handed to the handlers is let go of by other threads.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}
