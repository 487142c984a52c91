//! Sends the requests of a phase at their intended times, and measures them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use windlass_api::{ApiResource, Entropy, PatchKind};
use windlass_client::{Client, Error, rest::RestRequest};

use crate::{
    cluster::{Cluster, group_version, pods},
    plan::Task,
    samples::{Recorder, Scope, Series, Timing, Verb},
    template::Template,
    tracker::{Key, Tracker},
    workload::{Action, Phase, Read, ReadScope, ReadVerb, Scaled},
};

/// Timers have a resolution of a millisecond. A request that starts later by at most this counts from its real start.
const RESOLUTION: Duration = Duration::from_millis(2);
/// The time that requests have to end after a run was stopped.
const DRAIN: Duration = Duration::from_secs(5);

/// Sends the requests of a run.
pub(crate) struct Executor {
    /// Clients with connections of their own, used in turn.
    pub(crate) clients: Vec<Client>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) scaled: Arc<Scaled>,
    pub(crate) tracker: Arc<Tracker>,
    pub(crate) recorder: Arc<Recorder>,
    /// Selects the objects of reads and of the churn.
    pub(crate) entropy: Entropy,
    pub(crate) concurrency: Arc<Semaphore>,
    /// The number of requests, which numbers updates and selects clients.
    pub(crate) sequence: AtomicUsize,
    /// The sets and namespaces of objects that the churn has deleted and not replaced.
    pub(crate) vacancies: Mutex<Vec<(usize, usize)>>,
}

/// The part of a response that a run needs.
#[derive(Debug, Default, Deserialize)]
struct Head {
    #[serde(default)]
    metadata: HeadMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMetadata {
    resource_version: Option<String>,
    generation: Option<i64>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

impl Executor {
    /// Sends the requests at their times. Returns `false` if `stop` ended first.
    pub(crate) async fn run(
        self: &Arc<Self>,
        phase: &Arc<Phase>,
        plan: Vec<(Duration, Task)>,
        stop: impl Future<Output = ()> + Clone + Send + Unpin,
    ) -> bool {
        let start = Instant::now();
        let mut requests = JoinSet::new();
        let mut stopped = false;
        for (at, task) in plan {
            let due = start + at;
            let mut stopping = stop.clone();
            let permit = tokio::select! {
                biased;
                () = &mut stopping => None,
                permit = async {
                    sleep_until(due).await;
                    Arc::clone(&self.concurrency).acquire_owned().await.ok()
                } => permit,
            };
            let Some(permit) = permit else {
                stopped = true;
                break;
            };
            while requests.try_join_next().is_some() {}
            let (executor, phase) = (Arc::clone(self), Arc::clone(phase));
            requests.spawn(async move {
                executor.execute(&phase, task, due).await;
                drop(permit);
            });
        }
        let drained = async { while requests.join_next().await.is_some() {} };
        if stopped {
            // Requests that take longer are cancelled.
            let _ = timeout(DRAIN, drained).await;
        } else {
            let mut stopping = stop;
            tokio::pin!(drained);
            stopped = tokio::select! {
                () = &mut drained => false,
                () = &mut stopping => true,
            };
            if stopped {
                let _ = timeout(DRAIN, drained).await;
            }
        }
        !stopped
    }

    async fn execute(&self, phase: &Phase, task: Task, due: Instant) {
        match task {
            Task::Create(key) => self.create(key, due).await,
            Task::Delete(key) => self.delete(key, due).await,
            Task::Scale(key, replicas) => {
                self.patch(key, &json!({ "spec": { "replicas": replicas } }), due).await;
            }
            Task::Update(key) => {
                let Action::Update(patch) = &phase.action else { return };
                self.update(key, patch, due).await;
            }
            Task::Churn => self.churn(&phase.sets, due).await,
            Task::Read(index) => self.read(&self.scaled.reads[index], due).await,
        }
    }

    async fn create(&self, key: Key, due: Instant) {
        let object = match self.cluster.object(&self.scaled, key) {
            Ok(object) => object,
            Err(error) => {
                // `Load::run` renders an object of each set before it starts.
                tracing::warn!(error, "the object cannot be created");
                return self.recorder.skip();
            }
        };
        let request = |client: &Client, resource: &ApiResource| {
            let collection = client.rest(group_version(resource)).post().resource(&*resource.plural);
            collection.namespace_if(self.cluster.namespace(key)).json(&object)
        };
        if let Ok(head) = self.write(Verb::Create, key, request, due).await {
            self.tracker.created(key, head.generation.unwrap_or_default());
        }
    }

    async fn update(&self, key: Key, patch: &Template, due: Instant) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        match patch.render(&self.cluster.scope(&self.scaled, key, sequence)) {
            Ok(patch) => self.patch(key, &patch, due).await,
            Err(error) => {
                tracing::warn!(error, "the patch cannot be sent");
                self.recorder.skip();
            }
        }
    }

    async fn patch(&self, key: Key, patch: &Value, due: Instant) {
        if !self.tracker.is_live(key) {
            return self.recorder.skip();
        }
        let request = |client: &Client, resource: &ApiResource| {
            self.object(client.rest(group_version(resource)).patch(PatchKind::Merge), resource, key).json(patch)
        };
        if let Ok(head) = self.write(Verb::Patch, key, request, due).await {
            self.tracker.written(key, head.generation.unwrap_or_default());
        }
    }

    async fn delete(&self, key: Key, due: Instant) {
        let Some(written) = self.tracker.begin_delete(key) else { return self.recorder.skip() };
        let request = |client: &Client, resource: &ApiResource| {
            let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background" });
            self.object(client.rest(group_version(resource)).delete(), resource, key).json(&options)
        };
        match self.write(Verb::Delete, key, request, due).await {
            Ok(_) => {}
            Err(Some(404)) => self.tracker.gone(key),
            Err(_) => self.tracker.restore(key, written),
        }
    }

    /// Deletes an object of the sets, or creates another in the place of one that was deleted before.
    async fn churn(&self, sets: &[usize], due: Instant) {
        let vacancy = self.vacancies.lock().pop();
        if let Some((set, namespace)) = vacancy {
            let key = self.tracker.next(set, namespace);
            return self.create(key, due).await;
        }
        let Some(key) = self.tracker.any(Some(sets), &self.entropy) else { return self.recorder.skip() };
        self.vacancies.lock().push((key.set, key.namespace));
        self.delete(key, due).await;
    }

    async fn read(&self, read: &Read, due: Instant) {
        let key = self.tracker.any(read.of.as_ref().map(std::slice::from_ref), &self.entropy);
        match read.verb {
            ReadVerb::Get => {
                let Some(key) = key else { return self.recorder.skip() };
                let resource = &self.cluster.resources[key.set];
                let request = self.object(self.client().rest(group_version(resource)).get(), resource, key);
                let series = series(Verb::Get, resource, Scope::Resource);
                let _ = self.send(&series, Some(key), cached(request, read), due).await;
            }
            ReadVerb::List => {
                let namespace = match read.scope {
                    ReadScope::Namespace => {
                        let count = self.cluster.namespaces.len() as u64;
                        let index = usize::try_from(self.entropy.below(count)).unwrap_or_default();
                        Some(self.cluster.namespaces[index].as_str())
                    }
                    ReadScope::Cluster => None,
                };
                self.list(read, namespace, due).await;
            }
        }
    }

    /// Lists objects. Each page is a request of its own.
    async fn list(&self, read: &Read, namespace: Option<&str>, due: Instant) {
        let resource = read.of.map_or_else(pods, |set| self.cluster.resources[set].clone());
        let namespaced = read.of.is_none_or(|set| self.cluster.is_namespaced(set));
        let namespace = namespace.filter(|_| namespaced);
        let series = series(Verb::List, &resource, if namespace.is_some() { Scope::Namespace } else { Scope::Cluster });
        let (mut due, mut next) = (due, String::new());
        loop {
            let list = self.client().rest(group_version(&resource)).get().resource(&*resource.plural);
            let mut request = list.namespace_if(namespace);
            if let Some(limit) = read.limit {
                request = request.param("limit", limit.to_string());
            }
            request = if next.is_empty() { cached(request, read) } else { request.param("continue", next) };
            let Ok(head) = self.send(&series, None, request, due).await else { return };
            match head.continue_token.filter(|token| !token.is_empty()) {
                Some(token) => next = token,
                None => return,
            }
            due = Instant::now();
        }
    }

    /// Sends a write. Returns the code of the response if the server rejects it.
    async fn write(
        &self,
        verb: Verb,
        key: Key,
        request: impl FnOnce(&Client, &ApiResource) -> RestRequest,
        due: Instant,
    ) -> Result<HeadMetadata, Option<u16>> {
        let resource = &self.cluster.resources[key.set];
        let read = Some(key).filter(|_| verb == Verb::Patch);
        let head =
            self.send(&series(verb, resource, Scope::Resource), read, request(self.client(), resource), due).await?;
        if let (Some(version), true) = (&head.resource_version, verb != Verb::Delete) {
            let number = self.cluster.number(resource);
            if let Some(latency) = self.tracker.response((number, version.clone()), Instant::now()) {
                self.recorder.watch(&resource.group_resource().to_string(), latency);
            }
        }
        Ok(head)
    }

    /// Sends a request and measures it. It fails if the server rejects it; but the absence of the object that `of` names
    /// is a correct answer if this run has deleted the object meanwhile.
    async fn send(
        &self,
        series: &Series,
        of: Option<Key>,
        request: RestRequest,
        due: Instant,
    ) -> Result<HeadMetadata, Option<u16>> {
        let sent = Instant::now();
        let late = sent.saturating_duration_since(due);
        let intended = if late > RESOLUTION { due } else { sent };
        let outcome = request.send().await;
        let timing = Timing { intended, sent, done: Instant::now() };
        let is_absent = |error: &&Error| error.status().is_some_and(|status| status.code == 404);
        let is_deleted = || of.is_some_and(|key| !self.tracker.is_live(key));
        let failure = outcome.as_ref().err().filter(|error| !(is_absent(error) && is_deleted())).map(reason);
        self.recorder.request(series, timing, failure.as_deref());
        match outcome {
            // A response to a deletion can be a `Status`, and one without metadata tells nothing.
            Ok(response) => Ok(serde_json::from_slice::<Head>(response.bytes()).unwrap_or_default().metadata),
            Err(error) => {
                tracing::debug!(error = error.chain(), "a request failed");
                Err(error.status().map(|status| status.code))
            }
        }
    }

    fn object(&self, request: RestRequest, resource: &ApiResource, key: Key) -> RestRequest {
        let request = request.namespace_if(self.cluster.namespace(key)).resource(&*resource.plural);
        request.name(self.cluster.name(&self.scaled, key))
    }

    fn client(&self) -> &Client {
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        &self.clients[number % self.clients.len()]
    }
}

fn cached(request: RestRequest, read: &Read) -> RestRequest {
    if read.cached { request.param("resourceVersion", "0") } else { request }
}

fn series(verb: Verb, resource: &ApiResource, scope: Scope) -> Series {
    Series { verb, resource: resource.group_resource().to_string(), scope }
}

/// Returns the reason of a failure, by which failures are counted.
fn reason(error: &Error) -> String {
    match error {
        Error::Status { status, .. } => match &status.reason {
            Some(reason) if !reason.is_empty() => format!("{} {reason}", status.code),
            _ => status.code.to_string(),
        },
        error if error.is_timeout() => TIMEOUT.to_owned(),
        error if error.is_transport() => "connection failed".to_owned(),
        _ => "invalid response".to_owned(),
    }
}

/// The reason of requests without a response in time.
pub(crate) const TIMEOUT: &str = "timeout";
