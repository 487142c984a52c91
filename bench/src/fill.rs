//! A benchmark of one server with very many objects: creates ConfigMaps until there are enough, and lists them in pages.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::{BoxError, Entropy};
use windlass_bench::process;
use windlass_client::{Client, Config};

use crate::{
    load::{Address, OBJECT, Objects, RANDOM, Request, Width},
    median,
    objects::JSON,
    rate,
    request::send,
};

/// The flags of `windlass-bench fill`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The process of the server, for its memory and its CPU time
    #[arg(long, value_name = "PID")]
    process: u32,
    /// The number of objects
    #[arg(long, default_value_t = 1_000_000)]
    objects: usize,
    /// The bytes of data in each object; a multiple of 8. They are random characters of base64
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// The number of objects at the begin and at the end for which the rate is measured
    #[arg(long, default_value_t = 20_000)]
    sample: usize,
    /// The number of connections
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// The number of concurrent requests per connection
    #[arg(long, default_value_t = 32)]
    requests: usize,
    /// The number of objects in a page
    #[arg(long, default_value_t = 500)]
    page: usize,
    /// The idle time before memory is read
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    settle: u64,
}

/// The maximum time for all objects.
const LONGEST: Duration = Duration::from_hours(1);

/// The metadata of a list.
#[derive(Debug, Deserialize)]
struct Page {
    metadata: PageMeta,
    items: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default)]
    remaining_item_count: usize,
}

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let config = Config::from_file(&options.kubeconfig)?;
    let (address, client) = (Address::of(&config)?, Client::new(config)?.without_rate_limit());
    let namespace = format!("bench-{}", Entropy::os().name_suffix(6));
    let object = json!({"metadata": {"name": namespace}});
    send(&client, Method::POST, "/api/v1/namespaces", &object).await?;
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let settle = Duration::from_secs(options.settle);
    tokio::time::sleep(settle).await;
    let empty = process::rss_of(options.process)?;
    create(&options, &address, &collection)?;
    tokio::time::sleep(settle).await;
    let full = process::rss_of(options.process)?;
    let each = full.saturating_sub(empty) / (options.objects as u64).max(1);
    let peak = process::peak_rss_of(options.process)?;
    print(
        &options,
        &json!({"rss_bytes_empty": empty, "rss_bytes": full, "peak_rss_bytes": peak, "rss_bytes_per_object": each}),
    );
    list(&options, &client, &collection).await
}

/// Creates the objects, and measures the rate of the first and of the last ones.
fn create(options: &Options, address: &Address, collection: &str) -> Result<(), BoxError> {
    let data = RANDOM.repeat(options.size / RANDOM.len());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{OBJECT}")}, "data": {"data": data}});
    let body = serde_json::to_vec(&map)?;
    let request = Request { method: "POST", path: collection, content_type: JSON, body: &body };
    let width = Width { connections: options.connections, requests: options.requests };
    let sample = options.sample.min(options.objects / 2);
    let begun = Instant::now();
    let mut rates = Vec::new();
    for numbers in [0..sample, sample..options.objects - sample, options.objects - sample..options.objects] {
        let before = process::cpu_seconds_of(options.process)?;
        let created =
            tokio::task::block_in_place(|| address.load(&request, Objects::Numbers(numbers), width, LONGEST))?;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let cpu = (process::cpu_seconds_of(options.process)? - before) * 1e6 / (created.requests as f64).max(1.0);
        rates.push((created.per_second(), cpu));
    }
    let figures = json!({
        "bytes_sent_per_object": body.len(),
        "seconds": begun.elapsed().as_secs_f64(),
        "creates_per_second_at_the_begin": rates[0].0,
        "creates_per_second_at_the_end": rates[2].0,
        "cpu_microseconds_per_create_at_the_begin": rates[0].1,
        "cpu_microseconds_per_create_at_the_end": rates[2].1,
    });
    print(options, &figures);
    Ok(())
}

/// Lists all objects in pages. Checks the number of items and of remaining items on each page.
async fn list(options: &Options, client: &Client, collection: &str) -> Result<(), BoxError> {
    let (begun, mut next, mut seen, mut took) = (Instant::now(), String::new(), 0, Vec::new());
    let before = process::cpu_seconds_of(options.process)?;
    loop {
        let started = Instant::now();
        let path = format!("{collection}?limit={}&continue={next}", options.page);
        let answer = send(client, Method::GET, &path, &Value::Null).await?;
        took.push(started.elapsed().as_secs_f64());
        let page: Page = serde_json::from_slice(&answer)?;
        seen += page.items.len();
        if seen + page.metadata.remaining_item_count != options.objects {
            let PageMeta { remaining_item_count, .. } = page.metadata;
            return Err(format!("{seen} objects and {remaining_item_count} remaining ones").into());
        }
        next = page.metadata.next;
        if next.is_empty() {
            break;
        }
    }
    let cpu = process::cpu_seconds_of(options.process)? - before;
    let (pages, seconds) = (took.len(), begun.elapsed());
    // The median of some neighbors, because a single page takes about a millisecond.
    let around = |at: usize| median(&mut took[at.saturating_sub(10)..(at + 11).min(pages)].to_vec()) * 1e3;
    let figures = json!({
        "pages": pages,
        "ms_per_page_first": around(0),
        "ms_per_page_middle": around(pages / 2),
        "ms_per_page_last": around(pages - 1),
        "seconds_for_all_pages": seconds.as_secs_f64(),
        "server_cpu_seconds": cpu,
        "objects_per_second": rate(seen, seconds),
    });
    print(options, &figures);
    Ok(())
}

/// Prints figures.
fn print(options: &Options, figures: &Value) {
    let mut line = json!({"bench": "fill", "objects": options.objects, "size": options.size});
    if let (Some(line), Some(figures)) = (line.as_object_mut(), figures.as_object()) {
        line.extend(figures.clone());
    }
    println!("{line}");
}
