//! A run: namespaces, watches, the phases, and the deletion of everything that was created.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep},
};
use windlass_api::{Clock, Entropy};
use windlass_client::{Client, read_manifests};

use crate::{
    cluster::{Cluster, POLL, count_nodes},
    error::Result,
    executor::Executor,
    plan::plan,
    results::{Facts, PhaseResult, Results},
    samples::Recorder,
    tracker::{Key, Tracker},
    watcher::Watcher,
    workload::{Count, Phase, Scaled, Size, Wait, Workload},
};

/// The default maximum number of requests at the same time.
const CONCURRENCY: usize = 256;
/// The default time limit of each wait.
const TIMEOUT: Duration = Duration::from_mins(15);
/// The time limit of a request.
const REQUEST: Duration = Duration::from_mins(1);
/// The time to wait for the first lists.
const START: Duration = Duration::from_secs(30);

/// The future that ends a run early.
type Stop = Shared<BoxFuture<'static, ()>>;

/// A load test of a cluster.
///
/// ```no_run
/// # async fn example(client: windlass_client::Client) -> windlass_load::Result<()> {
/// use windlass_load::{Load, Size, Workload};
///
/// let workload = Workload::built_in("density").expect("a built-in workload");
/// let load = Load::new(client, workload).size(Size { pods_per_node: Some(10.0), ..Size::default() });
/// let results = load.run(std::future::pending()).await?;
/// println!("{}", windlass_load::report::text(&results));
/// # Ok(())
/// # }
/// ```
#[must_use = "a load does nothing before `run`"]
pub struct Load {
    /// The clients of the requests, each with connections of its own.
    clients: Vec<Client>,
    /// The client of watches.
    observer: Client,
    workload: Workload,
    size: Size,
    seed: Option<u64>,
    reads: f64,
    keep: Keep,
    timeout: Duration,
    concurrency: usize,
    clock: Clock,
    entropy: Entropy,
    progress: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The treatment of the created objects at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// They are deleted.
    #[default]
    Nothing,
    /// They stay.
    Everything,
}

impl Load {
    /// Creates a load test. The client's rate limit and retries are turned off, because they would delay requests.
    pub fn new(client: Client, workload: Workload) -> Self {
        let client = plain(client);
        Self {
            clients: vec![client.clone()],
            observer: client,
            workload,
            size: Size::default(),
            seed: None,
            reads: 1.0,
            keep: Keep::default(),
            timeout: TIMEOUT,
            concurrency: CONCURRENCY,
            clock: Clock::system(),
            entropy: Entropy::os(),
            progress: Arc::new(|_| {}),
        }
    }

    /// Sends the requests with these clients in turn, each with connections of its own. The client of [`Self::new`] then
    /// only watches, so that large responses do not delay events.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn clients(mut self, clients: impl IntoIterator<Item = Client>) -> Self {
        self.clients = clients.into_iter().map(plain).collect();
        assert!(!self.clients.is_empty(), "a load needs a client");
        self
    }

    /// Sets the size. A number of nodes of 0 stands for that of the cluster, which is the default.
    pub fn size(mut self, size: Size) -> Self {
        self.size = size;
        self
    }

    /// Sets the seed of the order of requests, of their objects and of numbers of replicas. Random by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Multiplies the shares of reads. 0 for no reads. Defaults to 1.
    pub fn reads(mut self, factor: f64) -> Self {
        self.reads = factor;
        self
    }

    /// Sets the treatment of the created objects at the end.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the time limit of each wait for controllers, and of the deletion at the end. Defaults to 15 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of requests at the same time. Defaults to 256. Requests beyond it wait, and their latency
    /// includes the wait.
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets the clock that is compared with the server's times. Defaults to the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of the run's ID, and of the seed if it is not set. Defaults to the system's.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets a function that gets a line for each step of the run.
    pub fn progress(mut self, progress: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Runs the workload. If `stop` ends first, the run ends early, deletes what it created, and returns the results so
    /// far.
    ///
    /// Failed requests are part of the results. An error means that the run could not begin. Dropping the future leaves
    /// the created objects in the cluster.
    pub async fn run(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Result<Results> {
        let stop: Stop = stop.boxed().shared();
        if self.size.nodes == 0 {
            self.size.nodes = count_nodes(&self.observer).await?;
            if self.size.nodes == 0 {
                let message = "the cluster has no nodes; set their number with --nodes".to_owned();
                return Err(self.workload.invalid(message));
            }
        }
        let mut scaled = self.workload.scale(&self.size)?;
        scaled.reads.iter_mut().for_each(|read| read.share *= self.reads);
        let run = self.entropy.name_suffix(8);
        let cluster = Cluster::inspect(&self.observer, &self.workload, &scaled, run).await?;
        self.check_objects(&cluster, &scaled)?;
        let (cluster, scaled) = (Arc::new(cluster), Arc::new(scaled));
        let (namespaces, pods) = (cluster.namespaces.len(), scaled.variable("pods"));
        let (name, nodes) = (&scaled.name, self.size.nodes);
        self.say(&format!("{name}: {nodes} nodes, {pods} pods, {namespaces} namespaces, run {}", cluster.run));
        let created = cluster.create_namespaces(&self.observer).await;
        let outcome = match created {
            Ok(()) => Ok(self.measure(&cluster, &scaled, &stop).await),
            Err(error) => Err(error),
        };
        let remaining = match self.keep {
            Keep::Everything => cluster.namespaces.iter().map(|name| format!("namespaces/{name}")).collect(),
            Keep::Nothing => {
                self.say("deleting the namespaces");
                cluster.clean_up(&self.observer, self.timeout).await
            }
        };
        let (mut facts, recorder) = outcome?;
        facts.remaining = remaining;
        Ok(Results::new(facts, recorder.take()))
    }

    /// Renders an object of each set, so that errors in templates are found before the run.
    fn check_objects(&self, cluster: &Cluster, scaled: &Scaled) -> Result<()> {
        for (index, set) in scaled.sets.iter().enumerate() {
            let invalid = |reason: String| self.workload.invalid(format!("objects.{}.template: {reason}", set.name));
            if set.count == Count::PerNamespace(0) || set.count == Count::Total(0) {
                continue;
            }
            if matches!(set.count, Count::PerNamespace(_)) && !cluster.is_namespaced(index) {
                let reason = format!("{} is cluster-scoped, so its objects need total instead of count", set.kind);
                return Err(invalid(reason));
            }
            let object = cluster.object(scaled, Key { set: index, namespace: 0, index: 0 }).map_err(invalid)?;
            // Also finds metadata that is no map.
            read_manifests(&object.to_string()).map_err(|error| invalid(error.to_string()))?;
        }
        Ok(())
    }

    /// Runs the phases and records their requests.
    async fn measure(&self, cluster: &Arc<Cluster>, scaled: &Arc<Scaled>, stop: &Stop) -> (Facts, Arc<Recorder>) {
        let seed = self.seed.unwrap_or_else(|| self.entropy.next_u64() >> 32);
        let order = Entropy::seeded(seed);
        let tracker = Arc::new(Tracker::default());
        let started = windlass_api::format_time(self.clock.now());
        let recorder = Arc::new(Recorder::start());
        let watches = self.watch(cluster, scaled, &tracker, &recorder, stop).await;
        let executor = Arc::new(Executor {
            clients: self.clients.clone(),
            cluster: Arc::clone(cluster),
            scaled: Arc::clone(scaled),
            tracker: Arc::clone(&tracker),
            recorder: Arc::clone(&recorder),
            entropy: Entropy::seeded(order.next_u64()),
            concurrency: Arc::new(Semaphore::new(self.concurrency)),
            sequence: AtomicUsize::new(0),
            vacancies: Mutex::new(Vec::new()),
        });
        let mut phases = Vec::new();
        let mut interrupted = stop.peek().is_some();
        for phase in scaled.phases.iter().filter(|phase| !phase.is_skipped()) {
            if interrupted {
                break;
            }
            let (start, before) = (recorder.elapsed(), (recorder.counts(), recorder.skipped()));
            let requests = plan(scaled, phase, |set| cluster.is_namespaced(set), &order);
            self.say(&format!("{}: {} requests", phase.name, requests.len()));
            interrupted = !executor.run(&Arc::new(phase.clone()), requests, stop.clone()).await;
            let pending = if interrupted { 0 } else { self.wait(phase, &tracker, stop).await };
            interrupted |= stop.peek().is_some();
            let (after, skipped) = (recorder.counts(), recorder.skipped());
            phases.push(PhaseResult {
                name: phase.name.clone(),
                action: phase.action.name().to_owned(),
                start: start.as_secs_f64(),
                seconds: recorder.elapsed().saturating_sub(start).as_secs_f64(),
                requests: after.0 - before.0.0,
                failed: after.1 - before.0.1,
                skipped: skipped - before.1,
                pending,
            });
        }
        let elapsed = recorder.elapsed();
        drop(watches);
        let facts = Facts {
            workload: scaled.name.clone(),
            run: cluster.run.clone(),
            server: cluster.version.clone(),
            started,
            elapsed,
            interrupted,
            seed,
            variables: scaled.variables.clone(),
            limits: scaled.limits,
            phases,
            remaining: Vec::new(),
        };
        (facts, recorder)
    }

    /// Starts the watches, and waits for their first lists. They end when the set is dropped.
    async fn watch(
        &self,
        cluster: &Arc<Cluster>,
        scaled: &Arc<Scaled>,
        tracker: &Arc<Tracker>,
        recorder: &Arc<Recorder>,
        stop: &Stop,
    ) -> JoinSet<()> {
        let mut watches = JoinSet::new();
        let mut starts = Vec::new();
        for resource in cluster.watched() {
            let watcher = Watcher {
                client: self.observer.clone(),
                cluster: Arc::clone(cluster),
                scaled: Arc::clone(scaled),
                tracker: Arc::clone(tracker),
                recorder: Arc::clone(recorder),
                clock: self.clock.clone(),
                number: cluster.number(&resource),
                resource,
            };
            let (sender, receiver) = watch::channel(false);
            watches.spawn(watcher.run(sender));
            starts.push(receiver);
        }
        let all = async {
            for mut start in starts {
                let _ = start.wait_for(|started| *started).await;
            }
        };
        let deadline = sleep(START);
        tokio::select! {
            () = all => {}
            () = deadline => tracing::warn!("not all watches have started"),
            () = stop.clone() => {}
        }
        watches
    }

    /// Waits for the state of a phase. Returns the number of objects that are not in it.
    async fn wait(&self, phase: &Phase, tracker: &Tracker, stop: &Stop) -> usize {
        let deadline = Instant::now() + phase.timeout.unwrap_or(self.timeout);
        loop {
            let pending = tracker.pending(phase.wait);
            if pending == 0 {
                return 0;
            }
            if Instant::now() >= deadline {
                let state = if phase.wait == Wait::Ready { "ready" } else { "gone" };
                self.say(&format!("{}: {pending} objects are not {state} in time", phase.name));
                return pending;
            }
            tokio::select! {
                () = sleep(POLL) => {}
                () = stop.clone() => return pending,
            }
        }
    }

    fn say(&self, line: &str) {
        (self.progress)(line);
    }
}

/// Returns a client that sends each request once and at once.
fn plain(client: Client) -> Client {
    client.without_rate_limit().with_retries(0).with_timeout(REQUEST)
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load")
            .field("workload", &self.workload.name())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
