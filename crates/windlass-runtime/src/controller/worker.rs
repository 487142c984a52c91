//! A worker: takes a key, reads the object, calls the reconciler, and handles the outcome, in a loop.

use std::{future::Future, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, field::Empty};
use windlass_api::{ApiResource, BoxError, ErrorChain, Object, ObjectRef};
use windlass_cache::{InformerSet, Lister, Reads};
use windlass_queue::{AddOptions, WorkQueue};

use crate::{
    Action, Context, Error, Leadership, Reconciler, Retry, RetryHint, Shard,
    error::panic_message,
    layer::{Failure, Layer, ReconcileCall, ReconcileFuture},
    observer::{Outcome, ReconcileEvent, ReconcileFinished, ReconcileStarted},
    read_your_writes::{self, StaleRead},
    reconcile::Shared,
    reporter::Reporter,
    sharding::{Permit, Point},
    shutdown::Stop,
    trigger_notes::TriggerNotes,
    write_attribution::{self, CurrentReconcile},
};

/// The processing of a key.
pub(crate) trait Work<K>: Send + Sync + 'static {
    /// Processes a key. Returns `Ok(None)` if the object does not exist.
    fn work(&self, key: ObjectRef<K>, cx: Context) -> impl Future<Output = Result<Option<Action>, Failure>> + Send;
}

/// Reads the object of the key and reconciles it.
pub(crate) struct WithObjects<K, R> {
    pub(crate) store: Lister<K>,
    pub(crate) informers: InformerSet<K>,
    /// How long a reconcile waits until the cache shows the manager's own writes.
    pub(crate) limit: Duration,
    pub(crate) reconciler: R,
}

/// Passes the key itself to a function.
pub(crate) struct WithKeys<F>(pub(crate) F);

/// The data shared by the workers of a controller.
pub(crate) struct Worker<K, W> {
    pub(crate) queue: WorkQueue<ObjectRef<K>>,
    pub(crate) work: Arc<W>,
    /// The outermost layer comes last.
    pub(crate) layers: Vec<Box<dyn Layer>>,
    /// `None`: no time limit.
    pub(crate) timeout: Option<Duration>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reporter: Reporter,
    pub(crate) notes: TriggerNotes,
    pub(crate) leadership: Leadership,
    pub(crate) shard: Shard,
    pub(crate) root: ApiResource,
}

// === impl Work ===

impl<K: Object, R: Reconciler<K>> Work<K> for WithObjects<K, R> {
    async fn work(&self, key: ObjectRef<K>, cx: Context) -> Result<Option<Action>, Failure> {
        match read_your_writes::wait(&self.informers, Reads::Object(key.key()), self.limit).await {
            // A stopped cache is read in its last state, because the manager is stopping, too.
            Ok(()) | Err(StaleRead::Stopped(_)) => {}
            Err(StaleRead::TimedOut { object, limit }) => {
                return Err(Failure { error: Error::Stale { object, limit }.into(), retry: Retry::Backoff });
            }
        }
        let Some(cached) = self.store.get(&key) else { return Ok(None) };
        // Most states are reconciled once. A retry would decode the same bytes.
        let object = cached.get_once().map_err(|error| Failure { error: error.into(), retry: Retry::Never })?;
        drop(cached);
        match self.reconciler.reconcile(object, cx).await {
            Ok(action) => Ok(Some(action)),
            Err(error) => Err(failure(self.reconciler.retry(&error), error)),
        }
    }
}

impl<K, F, Fut, E> Work<K> for WithKeys<F>
where
    K: Object,
    F: Fn(ObjectRef<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError> + Send + 'static,
{
    async fn work(&self, key: ObjectRef<K>, cx: Context) -> Result<Option<Action>, Failure> {
        match (self.0)(key, cx).await {
            Ok(action) => Ok(Some(action)),
            Err(error) => Err(failure(Retry::Backoff, error)),
        }
    }
}

/// Creates the failure for an error of a reconciler. A hint in the error overrides the chosen policy.
fn failure(chosen: Retry, error: impl Into<BoxError>) -> Failure {
    let error = error.into();
    let retry = RetryHint::find(&*error).map_or(chosen, RetryHint::retry);
    Failure { error, retry }
}

// === impl Worker ===

impl<K: Object, W: Work<K>> Worker<K, W> {
    /// Processes keys until a stop is requested. The reconcile in progress is finished; queued keys remain.
    pub(crate) async fn run(&self, stop: &Stop) {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.requested() => return,
                next = self.queue.get().with_priority() => next,
            };
            match next {
                // The process may have been paused, and another one may have taken over.
                Some((key, _)) if !self.leadership.is_leader() => return self.queue.done(&key),
                Some((key, priority)) => {
                    let permit = tokio::select! {
                        biased;
                        () = stop.requested() => return self.queue.done(&key),
                        permit = self.shard.begin(Point::of(&self.root, key.key())) => permit,
                    };
                    if let Some(permit) = permit {
                        self.process(key, priority, &permit).await;
                    } else {
                        // Another replica owns the key. If this process gains it, it is added again.
                        self.notes.take(key.key());
                        self.queue.forget(&key);
                        self.queue.done(&key);
                    }
                }
                None => return,
            }
        }
    }

    async fn process(&self, key: ObjectRef<K>, priority: i32, permit: &Permit) {
        let controller = &*self.shared.controller;
        let id: Arc<str> = self.shared.entropy.uuid().into();
        let cx = Context::new(Arc::clone(&self.shared), Arc::clone(&id));
        let span = tracing::info_span!(
            "reconcile",
            controller,
            %key,
            id = &*id,
            trigger = self.trigger(&key),
            k8s.namespace.name = key.namespace(),
            otel.status_code = Empty,
        );

        self.reporter.metrics.started(controller);
        self.reporter.observe(&ReconcileEvent::Started(ReconcileStarted { controller, key: key.key(), id: &id }));
        let start = Instant::now();
        let current = || CurrentReconcile {
            reporter: self.reporter.clone(),
            controller: Arc::clone(&self.shared.controller),
            key: key.key().clone(),
            id: Arc::clone(&id),
        };
        // A reconciler's future may be large: pin it here instead of moving it through the wrappers.
        let attempt = pin!(self.attempt(key.clone(), cx, &id));
        let attempt = async {
            let attempt = permit.guard(attempt).await;
            attempt.unwrap_or_else(|| Err(Failure { error: Error::ShardLost.into(), retry: Retry::Backoff }))
        };
        let attempt = write_attribution::during(&self.reporter, current, attempt);
        let attempt = AssertUnwindSafe(attempt);
        let result = attempt.catch_unwind().instrument(span.clone()).await;
        let duration = start.elapsed();

        let outcome = span.in_scope(|| self.conclude(&key, priority, result));
        if !matches!(outcome, Outcome::Done(_) | Outcome::Gone) {
            span.record("otel.status_code", "ERROR");
        }
        self.reporter.metrics.finished(controller, &outcome, duration);
        let finished = ReconcileFinished { controller, key: key.key(), id: &id, duration, outcome: &outcome };
        self.reporter.observe(&ReconcileEvent::Finished(finished));
        self.queue.done(&key);
    }

    /// Returns the reason for a reconcile, if spans contain it.
    fn trigger(&self, key: &ObjectRef<K>) -> Option<String> {
        if !TriggerNotes::is_enabled() {
            return None;
        }
        let note = self.notes.take(key.key()).map(|note| note.to_string());
        let without = || if self.queue.num_requeues(key) > 0 { "retry" } else { "requeue" };
        Some(note.unwrap_or_else(|| without().to_owned()))
    }

    async fn attempt(&self, key: ObjectRef<K>, cx: Context, id: &str) -> Result<Option<Action>, Failure> {
        let attempt = pin!(async {
            if self.layers.is_empty() {
                return self.work.work(key, cx).await;
            }
            let call = ReconcileCall { controller: &self.shared.controller, key: key.key(), id };
            let (work, of) = (Arc::clone(&self.work), key.clone());
            let innermost: ReconcileFuture = async move { work.work(of, cx).await }.boxed();
            self.layers.iter().fold(innermost, |inner, layer| layer.around(call, inner)).await
        });
        let Some(limit) = self.timeout else { return attempt.await };
        let late = |_elapsed| Failure { error: Error::ReconcileTimeout { limit }.into(), retry: Retry::Backoff };
        timeout(limit, attempt).await.map_err(late)?
    }

    /// Decides when the key is requeued. It retains its priority unless the action sets another.
    fn conclude(
        &self,
        key: &ObjectRef<K>,
        priority: i32,
        result: std::thread::Result<Result<Option<Action>, Failure>>,
    ) -> Outcome {
        let again = AddOptions::new().priority(priority);
        match result {
            Ok(Ok(Some(action))) => {
                self.queue.forget(key);
                if let Some(delay) = action.delay() {
                    let priority = action.priority().unwrap_or(priority);
                    self.queue.add_with(key.clone(), again.priority(priority).after(delay));
                }
                tracing::debug!(requeue_after = ?action.delay(), "reconciled");
                Outcome::Done(action)
            }
            Ok(Ok(None)) => {
                self.queue.forget(key);
                tracing::debug!("the object does not exist");
                Outcome::Gone
            }
            Ok(Err(Failure { error, retry })) => {
                let message = ErrorChain(&*error).to_string();
                let timeout = match error.downcast_ref() {
                    Some(Error::ReconcileTimeout { limit }) => Some(*limit),
                    _ => None,
                };
                match retry {
                    Retry::Backoff => self.queue.add_with(key.clone(), again.rate_limited()),
                    Retry::After(delay) => self.queue.add_with(key.clone(), again.after(delay)),
                    Retry::Never => self.queue.forget(key),
                }
                tracing::error!(error = message, ?retry, failures = self.queue.num_requeues(key), "reconcile failed");
                match timeout {
                    Some(limit) => Outcome::TimedOut { limit },
                    None => Outcome::Failed { message, retry },
                }
            }
            Err(panic) => {
                let message = panic_message(&*panic);
                self.queue.add_with(key.clone(), again.rate_limited());
                tracing::error!(panic = message, failures = self.queue.num_requeues(key), "reconcile panicked");
                Outcome::Panicked { message }
            }
        }
    }
}
