//! A controller of custom resources, to measure the cost of a reconcile that writes a child and a status.
//!
//! The programs in `bench/client-go/controller` and `bench/kube-rs` do the same, and print the same lines.

mod count;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::Instant;
use windlass_api::{BoxError, Changed, ConditionStatus, Conditions as _, ErrorChain, NewCondition, ObjectExt as _};
use windlass_bench::{
    process,
    widget::{Widget, settings_of},
};
use windlass_client::{Client, Config};
use windlass_runtime::{
    Action, Context, Controller, LeaderElection, Manager, Result, Watch, metrics::Registry, predicate, shutdown,
};

use self::count::Count;

/// Reconcile the objects of `windlass-bench populate`, and print the figures
#[derive(Debug, Parser)]
#[command(name = "windlass-bench-controller")]
struct Options {
    /// The kubeconfig of the server
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The number of objects
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// The number of concurrent reconciles
    #[arg(long, default_value_t = 8)]
    concurrency: usize,
    /// Instead of measuring, hold a leader election, print a line after this number of reconciles, and continue until
    /// SIGTERM
    #[arg(long, value_name = "RECONCILES")]
    stop_after: Option<u64>,
}

/// The time without reconciles after which the work is done.
const QUIET: Duration = Duration::from_secs(1);

const READY: &str = "Ready";

// The allocator of distributed operators; the kube-rs program uses it, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// The program mostly waits for the network, so a second thread would only cost wake-ups.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-bench-controller: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), BoxError> {
    let client = Client::new(Config::from_file(&options.kubeconfig)?)?.without_rate_limit();
    let count = Arc::new(Count::default());
    let mut manager = Manager::builder(client).registry(&Registry::new());
    if options.stop_after.is_some() {
        manager = manager.leader_election(LeaderElection::new("bench").namespace("default").release_on_stop());
    }
    let mut manager = manager.build();
    let counted = Arc::clone(&count);
    manager.add(
        Controller::watching(Watch::<Widget>::all().filter(predicate::generation_changed()))
            .owns::<ConfigMap>()
            .concurrency(options.concurrency)
            .reconcile(move |widget, cx| {
                let count = Arc::clone(&counted);
                async move { count.around(reconcile(widget, cx)).await }
            }),
    );

    let (cpu_before, started) = (process::cpu_seconds()?, Instant::now());
    let measured = async {
        if let Some(reconciles) = options.stop_after {
            count.ended(reconciles).await;
            // The line allows the signal, which ends the process until the signal is polled.
            tokio::join!(biased; shutdown::signal(), async {
                println!("{}", json!({"bench": "reconciling", "reconciles": count.all()}));
            });
        } else {
            count.ready(options.objects).await;
            let seconds = started.elapsed().as_secs_f64();
            count.quiet(QUIET).await;
            if let Err(error) = report(&count, seconds, cpu_before) {
                eprintln!("windlass-bench-controller: {error}");
            }
        }
    };
    manager.run(measured).await?;
    if options.stop_after.is_some() {
        println!("{}", json!({"bench": "stopped", "begun": count.begun(), "ended": count.all()}));
    }
    Ok(())
}

/// Reports to [`Count`] whether the reconcile has written the status.
type Wrote = bool;

/// Applies the desired child, and updates the status.
async fn reconcile(widget: Arc<Widget>, cx: Context) -> Result<(Action, Wrote)> {
    let wanted = settings_of(&widget);
    match cx.client().get_opt::<ConfigMap>(wanted.object_ref()).await? {
        None => cx.client().create(&wanted).discard_response().await?,
        Some(found) if found.data != wanted.data => {
            let changed = ConfigMap { data: wanted.data, ..ConfigMap::clone(&found) };
            cx.client().update(&changed).discard_response().await?;
        }
        Some(_) => {}
    }
    let generation = widget.metadata.generation.unwrap_or_default();
    let mut widget = Arc::unwrap_or_clone(widget);
    let status = widget.status.get_or_insert_default();
    let ready = NewCondition::new(READY, ConditionStatus::True, "Configured").observed(generation);
    let changed = status.conditions.set(ready, cx.clock());
    if changed == Changed::No && status.observed_generation == Some(generation) {
        return Ok((Action::await_change(), false));
    }
    status.observed_generation = Some(generation);
    cx.client().update_status(&widget).discard_response().await?;
    Ok((Action::await_change(), true))
}

fn report(count: &Count, seconds: f64, cpu_before: f64) -> Result<(), BoxError> {
    let cpu = process::cpu_seconds()? - cpu_before;
    let (rss, peak) = (process::rss()?, process::peak_rss()?);
    let latency = count.latency();
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (reconciles, objects) = (count.all() as f64, latency.objects as f64);
    println!(
        "{}",
        json!({
            "bench": "reconcile", "objects": latency.objects, "reconciles": count.all(), "failed": count.failed(), "seconds": seconds,
            "objects_per_second": objects / seconds, "reconciles_per_second": reconciles / seconds,
            "p50_ms": latency.median_ms, "p99_ms": latency.p99_ms,
            "cpu_us_per_reconcile": cpu * 1e6 / reconciles, "cpu_us_per_object": cpu * 1e6 / objects,
            "untrimmed_rss_bytes": rss, "rss_bytes": rss, "peak_rss_bytes": peak,
        })
    );
    Ok(())
}
