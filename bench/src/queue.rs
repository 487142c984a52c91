//! A benchmark of the work queue with one busy producer, the same workload as for client-go.

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::time::Instant;
use windlass_queue::WorkQueue;

/// The number of different keys.
const KEYS: u64 = 10_000;

/// The flags of `windlass-bench queue`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The number of adds
    #[arg(long, default_value_t = 5_000_000)]
    adds: u64,
    /// The number of workers
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// The type of the keys
    #[arg(long, value_enum, default_value_t)]
    keys: Keys,
}

/// The type of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Keys {
    /// References to strings without reference counts, comparable to Go's strings
    #[default]
    Borrowed,
    /// `Arc<str>`: producer and workers change a counter in the key
    Counted,
}

pub(crate) async fn run(options: &Options) {
    let names = (0..KEYS).map(|key| format!("namespace-{}/pod-{key}", key % 50));
    match options.keys {
        // Ten thousand short strings, leaked for the lifetime of the process.
        Keys::Borrowed => measure::<&'static str>(options, names.map(|name| &*name.leak()).collect()).await,
        Keys::Counted => measure::<Arc<str>>(options, names.map(Arc::from).collect()).await,
    }
}

async fn measure<K: Clone + Eq + Hash + Send + Sync + 'static>(options: &Options, keys: Vec<K>) {
    let queue = WorkQueue::<K>::new();
    let processed = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..options.workers)
        .map(|_| {
            let (queue, processed) = (queue.clone(), processed.clone());
            tokio::spawn(async move {
                while let Some(key) = queue.get().await {
                    processed.fetch_add(1, Ordering::Relaxed);
                    queue.done(&key);
                }
            })
        })
        .collect();

    let started = Instant::now();
    let producer = {
        let (queue, adds) = (queue.clone(), options.adds);
        // The producer never waits. On its own thread, it does not block the workers on its runtime thread.
        tokio::task::spawn_blocking(move || {
            for key in keys.iter().cycle().take(usize::try_from(adds).unwrap_or(usize::MAX)) {
                queue.add(key.clone());
            }
        })
    };
    producer.await.expect("adding to a queue does not panic");
    queue.shut_down_with_drain().await;
    for worker in workers {
        worker.await.expect("a worker does not panic");
    }
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = options.adds as f64 / seconds;
    let line = json!({
        "bench": "queue", "adds": options.adds, "workers": options.workers,
        "processed": processed.load(Ordering::Relaxed), "seconds": seconds, "adds_per_second": rate,
    });
    println!("{line}");
}
