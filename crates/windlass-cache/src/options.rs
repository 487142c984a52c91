//! The options of an informer.

use std::{fmt, sync::Arc, time::Duration};

use windlass_api::{Backoff, Content, Entropy};

use crate::{
    ManagedFieldsMode, backoff, budget,
    error::InformerError,
    metrics::{CacheMetrics, Contained, NoMetrics},
    transform::Transform,
    write_journal::WriteJournals,
};

/// The options of an informer. The defaults are client-go's where it has an equivalent.
#[derive(Clone)]
#[must_use]
pub struct InformerOptions {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// The namespace; `None` selects all. Set by factories.
    pub(crate) namespace: Option<String>,
    pub(crate) own_writes: Option<WriteJournals>,
    /// The content requested from the server; determined by the informer's type.
    pub(crate) content: Content,
    pub(crate) initial_sync: InitialSync,
    pub(crate) verification: Verification,
    pub(crate) page_size: Option<u32>,
    pub(crate) min_watch_timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) managed_fields: ManagedFieldsMode,
    pub(crate) transform: Option<Transform>,
    pub(crate) budget: usize,
    pub(crate) decoding: Decoding,
    pub(crate) resync: Option<Duration>,
    pub(crate) queue_capacity: usize,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: Arc<dyn CacheMetrics>,
    pub(crate) on_error: Option<ErrorHook>,
}

/// The selectors of an informer in their string form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selectors<'o> {
    /// The label selector.
    pub labels: Option<&'o str>,
    /// The field selector.
    pub fields: Option<&'o str>,
}

pub(crate) type ErrorHook = Arc<dyn Fn(&InformerError) + Send + Sync>;

/// The method of requesting the current state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialSync {
    /// By a watch with initial events (WatchList), with a fallback to LIST if the server does not support it.
    #[default]
    Watch,
    /// By LIST, followed by a watch.
    List,
}

/// The handling of a watch's initial events: trusted, or compared with a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// Trusts that the initial events are complete.
    #[default]
    Trust,
    /// Also lists the objects at the same version and reports a difference to the error hook. For tests of servers:
    /// this costs one list each time.
    Compare,
}

/// The time at which objects are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoding {
    /// On the first read. Recently used objects stay decoded if they are read more than once.
    #[default]
    OnUse,
    /// On arrival. All objects stay decoded, regardless of the budget. This takes five times the memory, but readers
    /// never wait.
    Early,
}

/// The minimum watch timeout. Servers end watches themselves; shorter timeouts only cause more requests.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_mins(5);

/// The default number of queued deltas between reflector and store: enough to smooth bursts, and small enough to slow
/// the watch down before the queue takes much memory.
const QUEUE_CAPACITY: usize = 2_000;

impl InformerOptions {
    /// Selects only objects that match this label selector.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Selects only objects that match this field selector.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Returns the selectors.
    #[must_use]
    pub fn selectors(&self) -> Selectors<'_> {
        Selectors { labels: self.labels.as_deref(), fields: self.fields.as_deref() }
    }

    /// Sets the method of requesting the current state.
    pub fn initial_sync(mut self, how: InitialSync) -> Self {
        self.initial_sync = how;
        self
    }

    /// Sets whether the initial events of a watch are compared with a list.
    pub fn verification(mut self, verification: Verification) -> Self {
        self.verification = verification;
        self
    }

    /// Sets the page size of LIST requests. By default, 500 if the server reads from its storage, and no limit if it
    /// answers from its watch cache.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = Some(objects);
        self
    }

    /// Sets the minimum watch timeout. Each watch requests a timeout between this and twice this value. The minimum and
    /// default is 5 minutes.
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout.max(MIN_WATCH_TIMEOUT);
        self
    }

    /// Sets the delays between attempts.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets whether managedFields are stored.
    pub fn managed_fields(mut self, managed_fields: ManagedFieldsMode) -> Self {
        self.managed_fields = managed_fields;
        self
    }

    /// Sets a transform that changes each object before it is stored.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Sets how many bytes of bodies are stored uncompressed; further bodies are compressed, if the feature
    /// `compression` is enabled. Defaults to 512 MiB, or to an eighth of the memory limit of the process' cgroup
    /// (version 1 or 2) if that is less: 16 MiB in a container with a limit of 128 MiB.
    ///
    /// A quarter of the budget is available to the most recently decoded objects, which don't have to be decoded again.
    /// Each counts as six times its encoded size. Objects read only once so far get a small part of this quarter. An
    /// object that is read again while it is retained, or has to be decoded a second time, moves to the larger part.
    /// With 0, every body is compressed, if the feature is enabled.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets the time at which objects are decoded.
    pub fn decoding(mut self, decoding: Decoding) -> Self {
        self.decoding = decoding;
        self
    }

    /// Delivers every object to every handler again once per `period`, unless the handler has its own period. Disabled
    /// by default.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets the maximum number of changes queued between the watch and the store. The watch waits while the queue is
    /// full. Defaults to 2,000.
    pub fn queue_capacity(mut self, changes: usize) -> Self {
        self.queue_capacity = changes;
        self
    }

    /// Sets the source of randomness for the jitter of delays and timeouts.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets the journals of the program's own writes, for
    /// [`SharedInformer::show_own_writes`](crate::SharedInformer::show_own_writes). None by default.
    pub fn own_writes(mut self, journals: WriteJournals) -> Self {
        self.own_writes = Some(journals);
        self
    }

    /// Sets the receiver of the informer's metrics.
    pub fn metrics(mut self, metrics: Arc<dyn CacheMetrics>) -> Self {
        self.metrics = Arc::new(Contained(metrics));
        self
    }

    /// Sets a hook that is called with every error on the informer's task. It must not block. The informer continues.
    pub fn on_error(mut self, hook: impl Fn(&InformerError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(hook));
        self
    }
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            namespace: None,
            own_writes: None,
            content: Content::default(),
            initial_sync: InitialSync::default(),
            verification: Verification::default(),
            page_size: None,
            min_watch_timeout: MIN_WATCH_TIMEOUT,
            backoff: backoff::DEFAULT,
            managed_fields: ManagedFieldsMode::default(),
            transform: None,
            budget: budget::usual(),
            decoding: Decoding::default(),
            resync: None,
            queue_capacity: QUEUE_CAPACITY,
            entropy: Entropy::os(),
            metrics: Arc::new(NoMetrics),
            on_error: None,
        }
    }
}

impl fmt::Debug for InformerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("labels", &self.labels)
            .field("fields", &self.fields)
            .field("initial_sync", &self.initial_sync)
            .field("verification", &self.verification)
            .field("page_size", &self.page_size)
            .field("min_watch_timeout", &self.min_watch_timeout)
            .field("backoff", &self.backoff)
            .field("managed_fields", &self.managed_fields)
            .field("transform", &self.transform)
            .field("budget", &self.budget)
            .field("decoding", &self.decoding)
            .field("resync", &self.resync)
            .field("queue_capacity", &self.queue_capacity)
            .finish_non_exhaustive()
    }
}

/// The receiver of all errors of one informer.
#[derive(Clone)]
pub(crate) struct Reporter {
    metrics: Arc<dyn CacheMetrics>,
    hook: Option<ErrorHook>,
}

impl Reporter {
    pub(crate) fn new(options: &InformerOptions) -> Self {
        Self { metrics: Arc::clone(&options.metrics), hook: options.on_error.clone() }
    }

    pub(crate) fn metrics(&self) -> &dyn CacheMetrics {
        &*self.metrics
    }

    /// Reports an error to the log, the metrics and the hook. Errors that are normal during a watch are logged at a low
    /// level.
    pub(crate) fn report(&self, error: &InformerError) {
        let expired = match error {
            InformerError::List { source, .. } | InformerError::Watch { source, .. } => source.is_expired(),
            InformerError::Object { .. } | InformerError::Index { .. } | InformerError::Inconsistent { .. } => false,
        };
        let cause = crate::error::causes(error);
        if expired {
            tracing::debug!(%error, cause, "the version is too old; listing again");
        } else {
            tracing::warn!(%error, cause, "the informer continues");
        }
        self.metrics.failed(error);
        if let Some(hook) = &self.hook
            && let Err(panic) = crate::panics::catch_panic(|| hook(error))
        {
            tracing::error!(panic, "the error hook panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_timeout_is_at_least_five_minutes() {
        let asked =
            |minutes| InformerOptions::default().min_watch_timeout(Duration::from_mins(minutes)).min_watch_timeout;
        assert_eq!([asked(1), asked(7)], [5, 7].map(Duration::from_mins));
    }
}
