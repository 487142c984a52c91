//! Durable storage without a server: commits per second, and the start with many objects.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use serde_json::json;
use tokio::time::Instant;
use windlass_api::BoxError;
use windlass_bench::process;
use windlass_server::storage::{Change, Expect, RangeQuery, Storage};
use windlass_storage::{DiskStorage, Options as StorageOptions};

/// The flags of `windlass-bench storage`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The directory of the storage; measures its start
    directory: PathBuf,
    /// Create this many objects first. Run the command again without it to measure the start in a new process
    #[arg(long, value_name = "OBJECTS")]
    fill: Option<usize>,
    /// The number of concurrent writers
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// The size of a value in bytes
    #[arg(long, default_value_t = 1024)]
    size: usize,
}

/// The number of objects in a page, as of kubectl.
const PAGE: usize = 500;

pub(crate) async fn run(options: &Options) -> Result<(), BoxError> {
    let begun = Instant::now();
    let storage = DiskStorage::open_with(&options.directory, StorageOptions::default())?;
    figure("seconds until the storage is open", begun.elapsed().as_secs_f64());
    if let Some(objects) = options.fill {
        let storage = Arc::new(storage);
        let begun = Instant::now();
        let writers = (0..options.writers).map(|writer| {
            let (storage, size) = (Arc::clone(&storage), options.size);
            let numbers = (writer..objects).step_by(options.writers);
            tokio::spawn(async move { fill(&*storage, numbers, size).await })
        });
        for written in try_join_all(writers).await? {
            written?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        figure("durable creates per second", objects as f64 / begun.elapsed().as_secs_f64());
        return Ok(());
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    figure("MB in use", process::rss()? as f64 / 1e6);
    let begun = Instant::now();
    let page = storage.range(RangeQuery::default().limit(PAGE)).await?;
    figure("ms for a page", begun.elapsed().as_secs_f64() * 1e3);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    figure("objects", page.values.len() as f64 + page.remaining as f64);
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    figure("MB at most", process::peak_rss()? as f64 / 1e6);
    Ok(())
}

async fn fill(storage: &dyn Storage, numbers: impl Iterator<Item = usize>, size: usize) -> Result<(), BoxError> {
    for number in numbers {
        // The same value for all: SQLite does not compress.
        let body = Bytes::from(vec![b'x'; size]);
        let key = format!("/registry/configmaps/namespace-{:03}/object-{number:07}", number % 100);
        storage.commit(&key, Expect::Absent, Change::Put(body)).await?;
    }
    Ok(())
}

fn figure(name: &str, value: f64) {
    println!("{}", json!({"bench": "storage", "figure": name, "value": value}));
}
