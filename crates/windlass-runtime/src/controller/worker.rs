//! One worker: a key, its object, a reconcile, what comes of it; and again.

use std::{future::Future, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tracing::Instrument;
use windlass_api::{ApiResource, ErrorChain, Object, ObjectRef};
use windlass_cache::{Informers, Lister, Reads};
use windlass_queue::{AddOptions, WorkQueue};

use crate::{
    Action, Context, Error, Leadership, Reconciler, Retry, Shard,
    error::panic_message,
    layer::{Call, Failure, Layer, Reconciling},
    manager::Reporter,
    observer::{Outcome, ReconcileEvent, ReconcileFinished, ReconcileStarted},
    own_writes::{self, Unseen},
    reconcile::Shared,
    sharding::{Permit, Point},
    shutdown::Stop,
    writes::{self, Acting},
};

/// What a worker does with a key.
pub(crate) trait Work<K>: Send + Sync + 'static {
    /// `Ok(None)`: there is nothing with that key any more.
    fn work(&self, key: ObjectRef<K>, cx: Context) -> impl Future<Output = Result<Option<Action>, Failure>> + Send;
}

/// Looks the key up and reconciles the object.
pub(crate) struct WithObjects<K, R> {
    pub(crate) store: Lister<K>,
    pub(crate) informers: Informers<K>,
    /// How long a reconcile waits until the cache shows the manager's own writes.
    pub(crate) limit: Duration,
    pub(crate) reconciler: R,
}

/// Hands the key itself to a function.
pub(crate) struct WithKeys<F>(pub(crate) F);

/// What the workers of a controller share.
pub(crate) struct Worker<K, W> {
    pub(crate) queue: WorkQueue<ObjectRef<K>>,
    pub(crate) work: Arc<W>,
    /// The outermost comes last.
    pub(crate) layers: Vec<Box<dyn Layer>>,
    /// `None`: a reconcile may take as long as it likes.
    pub(crate) timeout: Option<Duration>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reporter: Reporter,
    pub(crate) leadership: Leadership,
    pub(crate) shard: Shard,
    pub(crate) root: ApiResource,
}

// === impl Work ===

impl<K: Object, R: Reconciler<K>> Work<K> for WithObjects<K, R> {
    async fn work(&self, key: ObjectRef<K>, cx: Context) -> Result<Option<Action>, Failure> {
        match own_writes::wait(&self.informers, Reads::Object(key.key()), self.limit).await {
            // A cache that has stopped is read as it is: the manager is stopping, too.
            Ok(()) | Err(Unseen::Stopped(_)) => {}
            Err(Unseen::Late { object, limit }) => {
                return Err(Failure { error: Error::Stale { object, limit }.into(), retry: Retry::Backoff });
            }
        }
        let Some(cached) = self.store.get(&key) else { return Ok(None) };
        // Most states are reconciled once. The next attempt would read the same bytes.
        let object = cached.get_once().map_err(|error| Failure { error: error.into(), retry: Retry::Never })?;
        drop(cached);
        match self.reconciler.reconcile(object, cx).await {
            Ok(action) => Ok(Some(action)),
            Err(error) => Err(Failure { retry: self.reconciler.retry(&error), error: error.into() }),
        }
    }
}

impl<K, F, Fut, E> Work<K> for WithKeys<F>
where
    K: Object,
    F: Fn(ObjectRef<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: std::error::Error + Send + Sync + 'static,
{
    async fn work(&self, key: ObjectRef<K>, cx: Context) -> Result<Option<Action>, Failure> {
        match (self.0)(key, cx).await {
            Ok(action) => Ok(Some(action)),
            Err(error) => Err(Failure { error: error.into(), retry: Retry::Backoff }),
        }
    }
}

// === impl Worker ===

impl<K: Object, W: Work<K>> Worker<K, W> {
    /// Works until stopping is asked for. What is in progress then is finished, what is queued is left.
    pub(crate) async fn run(&self, stop: &Stop) {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.requested() => return,
                next = self.queue.get().with_priority() => next,
            };
            match next {
                // The process may have slept since, and another one may act by now.
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
                        // Another's. Should it become ours, it is added again.
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
        let span = tracing::info_span!("reconcile", controller, %key, id = &*id);

        self.reporter.metrics.started(controller);
        self.reporter.observe(&ReconcileEvent::Started(ReconcileStarted { controller, key: key.key(), id: &id }));
        let start = Instant::now();
        let acting = || Acting {
            reporter: self.reporter.clone(),
            controller: Arc::clone(&self.shared.controller),
            key: key.key().clone(),
            id: Arc::clone(&id),
        };
        // What a reconciler makes of itself may be large: it stays where it is, and is not moved from wrapper to wrapper.
        let attempt = pin!(self.attempt(key.clone(), cx, &id));
        let attempt = async {
            let attempt = permit.guard(attempt).await;
            attempt.unwrap_or_else(|| Err(Failure { error: Error::ShardLost.into(), retry: Retry::Backoff }))
        };
        let attempt = writes::during(&self.reporter, acting, attempt);
        let attempt = AssertUnwindSafe(attempt);
        let result = attempt.catch_unwind().instrument(span.clone()).await;
        let duration = start.elapsed();

        let outcome = span.in_scope(|| self.conclude(&key, priority, result));
        self.reporter.metrics.finished(controller, &outcome, duration);
        let finished = ReconcileFinished { controller, key: key.key(), id: &id, duration, outcome: &outcome };
        self.reporter.observe(&ReconcileEvent::Finished(finished));
        self.queue.done(&key);
    }

    async fn attempt(&self, key: ObjectRef<K>, cx: Context, id: &str) -> Result<Option<Action>, Failure> {
        let attempt = pin!(async {
            if self.layers.is_empty() {
                return self.work.work(key, cx).await;
            }
            let call = Call { controller: &self.shared.controller, key: key.key(), id };
            let (work, of) = (Arc::clone(&self.work), key.clone());
            let innermost: Reconciling = async move { work.work(of, cx).await }.boxed();
            self.layers.iter().fold(innermost, |inner, layer| layer.around(call, inner)).await
        });
        let Some(limit) = self.timeout else { return attempt.await };
        let late = |_elapsed| Failure { error: Error::ReconcileTimeout { limit }.into(), retry: Retry::Backoff };
        timeout(limit, attempt).await.map_err(late)?
    }

    /// Decides when the key comes back; it keeps its priority unless the action has another.
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
                tracing::debug!("the object is gone");
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
