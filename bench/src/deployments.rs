//! A benchmark with many Deployments: the time from the first apply until all pods are ready, the number of requests,
//! and the resource usage of the control plane.
//!
//! The load is the same for each control plane: one connection with a fixed number of concurrent requests. A watch
//! reports when a Deployment is ready. The request counts are those of the API server.

mod churn;
mod latency;
mod pods;
mod readiness;
mod request_counts;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, future, stream};
use http::Method;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use windlass_api::{BoxError, Entropy};
use windlass_bench::process;
use windlass_client::Client;

use self::{
    latency::{MERGE, Probes},
    readiness::Readiness,
    request_counts::RequestCounts,
};
use crate::{
    objects::{APPLY, JSON},
    request::{json_client, send_as},
};

/// The flags of `windlass-bench deployments`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the control plane
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The number of Deployments
    #[arg(long, default_value_t = 1_000)]
    deployments: usize,
    /// The number of replicas of each Deployment
    #[arg(long, default_value_t = 3)]
    replicas: i32,
    /// The number of concurrent requests
    #[arg(long, default_value_t = 32)]
    requests: usize,
    /// The number of nodes to wait for first
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// A process of the control plane
    #[arg(long = "process", value_name = "NAME=PID", value_parser = crate::server::process)]
    processes: Vec<(String, u32)>,
    /// A process that is measured but not part of the control plane
    #[arg(long = "beside", value_name = "NAME=PID", value_parser = crate::server::process)]
    beside: Vec<(String, u32)>,
    /// Measure the latencies of reads, writes, lists and a watch during the creation, the loaded time and the churn
    #[arg(long)]
    latencies: bool,
    /// The time after the creation in which its history expires, in seconds; the idle time follows
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    rest: u64,
    /// The time for which the CPU time is measured without requests, in seconds
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    idle: u64,
    /// The time for which the CPU time is measured with the requests of --latencies only, in seconds
    #[arg(long, default_value_t = 0, value_name = "SECONDS", requires = "latencies")]
    loaded: u64,
    /// The time for which pods are deleted after the creation, in seconds
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    churn: u64,
    /// The number of pods that are deleted per second
    #[arg(long, default_value_t = 100, value_name = "PODS")]
    churn_rate: u32,
    /// The time for the creation, in seconds; after it, each Deployment is scaled to its number of running pods, and the
    /// other measurements follow with these
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// The timeout of the run, in seconds
    #[arg(long, default_value_t = 1_800)]
    within: u64,
}

/// The label with the name of a Deployment.
const DEPLOYMENT: &str = "app.kubernetes.io/instance";

/// The polling interval for slow changes.
const PAUSE: Duration = Duration::from_millis(100);

/// The time without writes after which all work is done.
const QUIET: Duration = Duration::from_secs(3);

/// The polling interval for request counts; a read takes the real server a hundredth of a second.
const COUNTED_EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let client = json_client(&options.kubeconfig)?;
    let bench = Bench { client, namespace: format!("bench-{}", Entropy::os().name_suffix(6)), options };
    let limit = Duration::from_secs(bench.options.within);
    timeout(limit, bench.run()).await.map_err(|_| format!("not done within {} s", limit.as_secs()))?
}

/// One figure per process, by its name.
type Figures = BTreeMap<String, f64>;

/// The end of the creation.
struct Creation {
    /// The time until all Deployments were applied, if they were.
    applied: Option<Duration>,
    /// The time until all were ready, if they were.
    ready: Option<Duration>,
    ended: Duration,
}

impl Creation {
    /// Returns the number of pods if all are ready.
    fn pods(&self, options: &Options) -> Option<usize> {
        self.ready.map(|_| options.deployments * usize::try_from(options.replicas).unwrap_or_default())
    }
}

struct Bench {
    client: Client,
    namespace: String,
    options: Options,
}

impl Bench {
    async fn run(&self) -> Result<(), BoxError> {
        self.prepare().await?;
        let (cpu, counts, load) = (self.cpu()?, self.counts().await?, process::load_average()?);
        let mut readiness = Readiness::watch(&self.client, &self.namespace, self.options.replicas).await?;

        let (probes, mut tables) = (self.probes().await?, String::new());
        let started = Instant::now();
        let creation = self.create(started, &mut readiness).await?;
        let at_ready = self.cpu()?;
        self.end_probes(probes, "creation", &mut tables)?;
        let pods = if let Some(pods) = creation.pods(&self.options) { pods } else { self.end_creation().await? };
        let (quiet, after) = self.settle(started).await?;

        let counts = after.since(&counts);
        println!(
            "{}",
            json!({
                "bench": "deployments", "deployments": self.options.deployments, "replicas": self.options.replicas,
                "applied_seconds": creation.applied.map(|time| time.as_secs_f64()),
                "ready_seconds": creation.ready.map(|time| time.as_secs_f64()),
                "pods": pods, "pods_seconds": creation.ended.as_secs_f64(),
                "settled_seconds": quiet.map(|time| time.as_secs_f64()),
                "load_before": load, "load_after": process::load_average()?,
            })
        );
        println!("{}", counts.figures());
        println!("{}", counts.busiest());
        let spent = |now: Figures| {
            now.into_iter()
                .map(|(name, now)| {
                    let before = cpu[&name];
                    (name, now - before)
                })
                .collect()
        };
        print("cpu_until_ready", &spent(at_ready));
        print("cpu_seconds", &spent(self.cpu()?));
        print("peak_rss_bytes", &self.of_each(peak)?);
        self.without_requests("rest", self.options.rest).await?;
        self.without_requests("idle", self.options.idle).await?;
        if self.options.loaded > 0 {
            self.loaded(&mut tables).await?;
        }
        if self.options.churn > 0 {
            self.churn(&mut tables).await?;
        }
        print!("{tables}");
        Ok(())
    }

    /// Applies the Deployments, and waits until all are ready or until the limit.
    async fn create(&self, started: Instant, readiness: &mut Readiness) -> Result<Creation, BoxError> {
        let mut applied = None;
        let apply = async {
            applied = Some(self.apply(started).await?);
            Ok(())
        };
        let creation = future::try_join(apply, readiness.all(self.options.deployments));
        let limit = self.options.limit.map_or(Duration::MAX, Duration::from_secs);
        let ready = match timeout(limit, creation).await {
            Ok(created) => Some(created?.1 - started),
            Err(_) => None,
        };
        Ok(Creation { applied, ready, ended: ready.unwrap_or_else(|| started.elapsed()) })
    }

    /// Scales each Deployment to its number of running pods. Returns their sum.
    async fn end_creation(&self) -> Result<usize, BoxError> {
        let running = pods::running(&self.client, &self.namespace).await?;
        let scales = stream::iter(0..self.options.deployments).map(|at| {
            let name = name(at);
            let scale = json!({"spec": {"replicas": running.get(&name).copied().unwrap_or_default()}});
            let path = format!("/apis/apps/v1/namespaces/{}/deployments/{name}/scale", self.namespace);
            async move {
                match self.send(Method::PATCH, &path, MERGE, &scale).await {
                    // A Deployment that has not been created needs no change.
                    Err(error) if !error.to_string().contains(": 404 Not Found: ") => Err(error),
                    _ => Ok(()),
                }
            }
        });
        scales.buffer_unordered(self.options.requests).try_for_each(async |()| Ok(())).await?;
        Ok(running.values().sum())
    }

    /// Prints the latencies of a phase, and adds their table. Failures are errors unless the creation has a limit.
    fn end_probes(&self, probes: Option<Probes>, phase: &str, tables: &mut String) -> Result<(), BoxError> {
        let Some(latencies) = probes.map(Probes::end) else { return Ok(()) };
        println!("{}", latencies.figures(phase));
        let failures = latencies.failures();
        if !failures.is_empty() && self.options.limit.is_none() {
            return Err(failures.join("; ").into());
        }
        let failures: String = failures.iter().map(|failure| format!("\n{failure}\n")).collect();
        tables.extend(["\n", &latencies.table(phase), &failures]);
        Ok(())
    }

    /// Starts to measure latencies, on connections that have no other requests.
    async fn probes(&self) -> Result<Option<Probes>, BoxError> {
        if !self.options.latencies {
            return Ok(None);
        }
        Probes::start(|| json_client(&self.options.kubeconfig), &self.namespace).await.map(Some)
    }

    /// Measures the CPU time of the control plane without requests of this program.
    async fn without_requests(&self, phase: &str, seconds: u64) -> Result<(), BoxError> {
        if seconds > 0 {
            let (cpu, started) = (self.cpu()?, Instant::now());
            sleep(Duration::from_secs(seconds)).await;
            print(&format!("{phase}_cores"), &self.cores(&cpu, started)?);
        }
        Ok(())
    }

    /// Measures the CPU time of the control plane while the probes are its only load.
    async fn loaded(&self, tables: &mut String) -> Result<(), BoxError> {
        let (probes, cpu, started) = (self.probes().await?, self.cpu()?, Instant::now());
        sleep(Duration::from_secs(self.options.loaded)).await;
        print("loaded_cores", &self.cores(&cpu, started)?);
        self.end_probes(probes, "loaded", tables)
    }

    /// Deletes pods at a constant rate; the control plane replaces them. Prints the number of pods that run in the end,
    /// which shows if the control plane has kept up.
    async fn churn(&self, tables: &mut String) -> Result<(), BoxError> {
        let (probes, cpu, started) = (self.probes().await?, self.cpu()?, Instant::now());
        let Options { churn, churn_rate, .. } = self.options;
        let client = json_client(&self.options.kubeconfig)?;
        let deleted = churn::delete(&client, &self.namespace, churn_rate, Duration::from_secs(churn)).await?;
        let (seconds, cores) = (started.elapsed().as_secs_f64(), self.cores(&cpu, started)?);
        let running: usize = pods::running(&self.client, &self.namespace).await?.values().sum();
        println!("{}", json!({"bench": "churn", "deleted": deleted, "seconds": seconds, "running": running}));
        print("churn_cores", &cores);
        print("churn_peak_rss_bytes", &self.of_each(peak)?);
        self.end_probes(probes, "churn", tables)
    }

    /// Returns the average number of cores that each process has used since a time.
    fn cores(&self, before: &Figures, since: Instant) -> Result<Figures, BoxError> {
        let seconds = since.elapsed().as_secs_f64();
        Ok(self.cpu()?.into_iter().map(|(name, now)| (name.clone(), (now - before[&name]) / seconds)).collect())
    }

    /// Creates the namespace, waits until it accepts pods, and waits for the nodes.
    async fn prepare(&self) -> Result<(), BoxError> {
        let namespace = json!({"metadata": {"name": self.namespace}});
        self.send(Method::POST, "/api/v1/namespaces", JSON, &namespace).await?;
        while self.client.get_opt::<ServiceAccount>("default").within(&*self.namespace).await?.is_none() {
            sleep(PAUSE).await;
        }
        let is_usable = |node: &Node| {
            let spec = node.spec.as_ref();
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            spec.is_none_or(|spec| spec.taints.as_ref().is_none_or(Vec::is_empty))
                && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        while self.client.list::<Node>().await?.iter().filter(|node| is_usable(node)).count() < self.options.nodes {
            sleep(PAUSE).await;
        }
        self.counts_at_rest().await?;
        Ok(())
    }

    /// Applies the Deployments as fast as the server accepts them.
    async fn apply(&self, started: Instant) -> Result<Duration, BoxError> {
        let applies = stream::iter(0..self.options.deployments).map(|at| async move {
            let name = name(at);
            let path =
                format!("/apis/apps/v1/namespaces/{}/deployments/{name}?fieldManager=bench&force=true", self.namespace);
            self.send(Method::PATCH, &path, APPLY, &deployment(&name, self.options.replicas)).await.map(drop)
        });
        applies.buffer_unordered(self.options.requests).try_for_each(async |()| Ok(())).await?;
        Ok(started.elapsed())
    }

    /// Waits until writes have stopped, or for the limit. Returns the time of the last write, if they have stopped, and
    /// the request counts.
    async fn settle(&self, started: Instant) -> Result<(Option<Duration>, RequestCounts), BoxError> {
        let limit = self.options.limit.map_or(Duration::MAX, Duration::from_secs);
        match timeout(limit, self.counts_at_rest()).await {
            Ok(rested) => rested.map(|(since, counts)| (Some(since.saturating_duration_since(started)), counts)),
            Err(_) => Ok((None, self.counts().await?)),
        }
    }

    async fn counts_at_rest(&self) -> Result<(Instant, RequestCounts), BoxError> {
        let (mut since, mut known) = (Instant::now(), self.counts().await?);
        while since.elapsed() < QUIET {
            sleep(COUNTED_EVERY).await;
            let (at, counts) = (Instant::now(), self.counts().await?);
            if counts.writes() != known.writes() {
                (since, known) = (at, counts);
            }
        }
        Ok((since, known))
    }

    async fn counts(&self) -> Result<RequestCounts, BoxError> {
        let text = self.send(Method::GET, "/metrics", JSON, &Value::Null).await?;
        RequestCounts::read(std::str::from_utf8(&text)?)
    }

    fn cpu(&self) -> Result<Figures, BoxError> {
        self.of_each(process::cpu_seconds_of)
    }

    /// Returns the figure of each process, and the sum over the control plane.
    fn of_each(&self, figure: fn(u32) -> Result<f64, BoxError>) -> Result<Figures, BoxError> {
        let Options { processes, beside, .. } = &self.options;
        let mut figures = Figures::from([("sum".to_owned(), 0.0)]);
        for (name, process) in processes {
            let value = figure(*process).map_err(|error| format!("{name}, process {process}: {error}"))?;
            *figures.entry(name.clone()).or_default() += value;
            *figures.entry("sum".to_owned()).or_default() += value;
        }
        for (name, process) in beside {
            *figures.entry(name.clone()).or_default() += figure(*process)?;
        }
        Ok(figures)
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Bytes, BoxError> {
        send_as(&self.client, method, path, kind, body).await
    }
}

fn print(bench: &str, figures: &Figures) {
    let mut line = json!(figures);
    line["bench"] = json!(bench);
    println!("{line}");
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn peak(process: u32) -> Result<f64, BoxError> {
    Ok(process::peak_rss_of(process)? as f64)
}

fn name(at: usize) -> String {
    format!("deployment-{at}")
}

/// Returns a Deployment of a web server, as Helm charts define it.
fn deployment(name: &str, replicas: i32) -> Value {
    let labels = json!({"app.kubernetes.io/name": "web", DEPLOYMENT: name});
    let probe = json!({"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10});
    let environment: Vec<_> =
        (0..6).map(|at| json!({"name": format!("SETTING_{at}"), "value": format!("value {at} of {name}")})).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "web", "image": "registry.example/web:1.2.3", "env": environment,
                    "ports": [{"containerPort": 8080, "name": "http"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    "livenessProbe": probe, "readinessProbe": probe,
                }]},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
    use windlass_api::ObjectExt as _;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn no_deployment_selects_the_pods_of_another() {
        let of = |name: &str| serde_json::from_value::<Deployment>(deployment(name, 3)).unwrap();
        let (one, other) = (of("one"), of("other"));
        let (selects, spec) =
            (|of: &Deployment| of.spec.clone().unwrap().selector.match_labels, one.spec.clone().unwrap());
        assert_eq!((one.name(), spec.replicas), ("one", Some(3)));
        assert_eq!(selects(&one), spec.template.metadata.unwrap().labels);
        assert_ne!(selects(&one), selects(&other));
    }

    #[tokio::test]
    async fn creation_with_limit_keeps_the_running_pods() {
        let server = windlass_server::Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        let Flags { options } = Flags::parse_from(["bench", "--kubeconfig=none", "--deployments=2", "--limit=0"]);
        let bench = Bench { client: client.clone(), namespace: "default".to_owned(), options };
        let mut readiness = Readiness::watch(&client, "default", 3).await.unwrap();
        let created = bench.create(Instant::now(), &mut readiness).await.unwrap();
        assert_eq!((created.ready, created.pods(&bench.options)), (None, None));
        assert_eq!(bench.end_creation().await.unwrap(), 0, "no Deployment has been applied");

        bench.apply(Instant::now()).await.unwrap();
        for pod in ["a", "b"] {
            let labels = json!({DEPLOYMENT: "deployment-1"});
            let pod = json!({"metadata": {"name": pod, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let mut pod = client.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
            pod.status = serde_json::from_value(json!({"phase": "Running"})).unwrap();
            client.update_status(&pod).await.unwrap();
        }
        assert_eq!(bench.end_creation().await.unwrap(), 2);
        let deployments = client.list::<Deployment>().await.unwrap();
        let replicas: Vec<_> =
            deployments.iter().map(|deployment| deployment.spec.as_ref().unwrap().replicas).collect();
        assert_eq!(replicas, [Some(0), Some(2)]);
    }
}
