//! One informer: what it costs to sync, to hold, and to follow.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde::Deserialize;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};
use windlass_api::{ApiResource, BoxError, DynamicObject, GroupVersionKind, Object, Resource};
use windlass_cache::{Cached, InformerOptions, InitialSync, Notification, SharedInformer};
use windlass_client::{
    Client, Config,
    config::{Kubeconfig, Selection},
};

use crate::process;

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
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Followed {
    Pods,
    Secrets,
    Configmaps,
    Widgets,
}

/// What is done with each object.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Work {
    /// Makes its key
    Key,
    /// Reads two of its fields
    View,
    /// Decodes it
    Decode,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Start {
    /// LIST in pages, then WATCH
    List,
    /// A watch that begins with the present state
    Watch,
}

/// What is counted while events come.
#[derive(Debug)]
struct Progress {
    updates: AtomicU64,
    awaited: u64,
    done: Notify,
}

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
    let informer = SharedInformer::<K>::for_resource(resource, list_watch, informing);
    let progress = Arc::new(Progress { updates: AtomicU64::new(0), awaited: options.updates, done: Notify::new() });
    let handler = {
        let progress = progress.clone();
        move |notification: Notification<K>| {
            let (is_update, object) = match &notification {
                Notification::Added { object, .. } => (false, object),
                Notification::Updated { new, .. } => (true, new),
                Notification::Deleted(deleted) => (false, &deleted.object),
            };
            options.handler.deal_with(object);
            if is_update && progress.updates.fetch_add(1, Ordering::Relaxed) + 1 == progress.awaited {
                progress.done.notify_one();
            }
        }
    };
    let registration = informer.add_handler(handler);

    process::trim_allocator();
    let (before, cpu_before, started) = (process::rss()?, process::cpu_seconds()?, Instant::now());
    let running = tokio::spawn(informer.clone().run(std::future::pending()));
    registration.has_synced().await?;
    let (took, cpu) = (started.elapsed(), process::cpu_seconds()? - cpu_before);
    let peak = process::peak_rss()?;
    // What was handed to the handlers is let go of by other threads.
    tokio::time::sleep(Duration::from_millis(200)).await;
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
    if options.updates > 0 {
        let (cpu_before, seen) = (process::cpu_seconds()?, progress.updates.load(Ordering::Relaxed));
        wait_for_first(&progress, seen).await;
        let started = Instant::now();
        progress.done.notified().await;
        let (took, cpu) = (started.elapsed().as_secs_f64(), process::cpu_seconds()? - cpu_before);
        process::trim_allocator();
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let events = (options.updates - seen) as f64;
        println!(
            "{}",
            json!({
                "bench": "updates", "events": events, "seconds": took, "cpu_us_per_event": cpu * 1e6 / events,
                "events_per_second": events / took, "rss_bytes": process::rss()?,
            })
        );
    }
    running.abort();
    Ok(())
}

/// Looks every millisecond: the events are too many to be told of each.
async fn wait_for_first(progress: &Progress, seen: u64) {
    while progress.updates.load(Ordering::Relaxed) == seen {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Work {
    fn deal_with<K: Object>(self, object: &Cached<K>) {
        #[derive(Deserialize)]
        struct View {
            status: Option<Status>,
        }
        #[derive(Deserialize)]
        struct Status {
            phase: Option<String>,
        }
        match self {
            Self::Key => {
                std::hint::black_box(object.object_ref());
            }
            Self::View => {
                let view = object.project::<View>().ok().and_then(|view| view.status).and_then(|status| status.phase);
                std::hint::black_box(view);
            }
            Self::Decode => {
                std::hint::black_box(object.get().is_ok());
            }
        }
    }
}
