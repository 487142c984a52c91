//! A benchmark of many test environments in one process.

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use windlass_api::{BoxError, k8s_openapi::api::core::v1::Namespace};
use windlass_bench::process;
use windlass_envtest::Environment;

/// The flags of `windlass-bench environments`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The number of environments
    #[arg(long, default_value_t = 500)]
    number: usize,
}

/// The durations of one environment.
struct Durations {
    start: Duration,
    /// The time until the first response. The first request creates the default objects of a cluster.
    first: Duration,
}

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    // One after the other: the delay that a user sees.
    let mut alone = Vec::new();
    for _ in 0..options.number {
        alone.push(start().await?.1);
    }
    // All at once; none is dropped before all have started.
    let started = Instant::now();
    let all = join_all((0..options.number).map(|_| tokio::spawn(start()))).await;
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().collect::<Result<Vec<_>, _>>()?;
    let median = |of: fn(&Durations) -> Duration| {
        let mut all: Vec<_> = alone.iter().map(of).collect();
        all.sort_unstable();
        all.get(all.len() / 2).map_or(0, Duration::as_micros)
    };
    let figures = json!({
        "bench": "environments",
        "environments": all.len(),
        "start_us": median(|took| took.start),
        "first_answer_us": median(|took| took.first),
        "together_seconds": started.elapsed().as_secs_f64(),
        "peak_rss_bytes": process::peak_rss()?,
    });
    println!("{figures}");
    Ok(())
}

async fn start() -> Result<(Environment, Durations), BoxError> {
    let began = Instant::now();
    let env = Environment::start().await;
    let start = began.elapsed();
    env.client().get::<Namespace>("default").await?;
    Ok((env, Durations { start, first: began.elapsed() }))
}
