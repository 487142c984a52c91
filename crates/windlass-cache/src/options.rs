//! How an informer is to work.

use std::{fmt, sync::Arc, time::Duration};

use windlass_api::{Backoff, Content, Entropy};

use crate::{
    ManagedFields, backoff, budget,
    error::InformerError,
    metrics::{CacheMetrics, Contained, NoMetrics},
    own_writes::WriteJournals,
    transform::Transform,
};

/// How an informer is to work. The defaults are client-go's, where it has them.
#[derive(Clone)]
#[must_use]
pub struct InformerOptions {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// `None` for all namespaces. Set by factories.
    pub(crate) namespace: Option<String>,
    pub(crate) own_writes: Option<WriteJournals>,
    /// That of the informer's type.
    pub(crate) content: Content,
    pub(crate) initial_sync: InitialSync,
    pub(crate) verification: Verification,
    pub(crate) page_size: Option<u32>,
    pub(crate) min_watch_timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) managed_fields: ManagedFields,
    pub(crate) transform: Option<Transform>,
    pub(crate) budget: usize,
    pub(crate) decoding: Decoding,
    pub(crate) resync: Option<Duration>,
    pub(crate) queue_capacity: usize,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: Arc<dyn CacheMetrics>,
    pub(crate) on_error: Option<ErrorHook>,
}

/// What an informer selects, in the string form of selectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selectors<'o> {
    /// By labels.
    pub labels: Option<&'o str>,
    /// By fields.
    pub fields: Option<&'o str>,
}

pub(crate) type ErrorHook = Arc<dyn Fn(&InformerError) + Send + Sync>;

/// How the present state is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialSync {
    /// As the beginning of the watch (WatchList); by LIST where the server cannot do that.
    #[default]
    Watch,
    /// By LIST, then a watch.
    List,
}

/// Whether a server is believed that a watch began with the whole present state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// It is.
    #[default]
    Trust,
    /// It is listed too, at the same version; a difference is told to the error hook. For tests of servers: it costs a
    /// list each time.
    Compare,
}

/// When objects are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoding {
    /// When somebody asks for them; those used last are kept, if they are used more than once.
    #[default]
    OnUse,
    /// When they come; all are kept, whatever the budget. Costs five times the memory, and lets no reader wait.
    Early,
}

/// Servers end watches themselves; shorter ones than this would only cost requests.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_mins(5);

/// How many deltas may wait between reflector and store: enough to smooth bursts, few enough to slow the watch down
/// before they cost memory.
const QUEUE_CAPACITY: usize = 2_000;

impl InformerOptions {
    /// Only objects that match this label selector.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects that match this field selector.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// The selectors that have been set.
    #[must_use]
    pub fn selectors(&self) -> Selectors<'_> {
        Selectors { labels: self.labels.as_deref(), fields: self.fields.as_deref() }
    }

    /// How the present state is asked for.
    pub fn initial_sync(mut self, how: InitialSync) -> Self {
        self.initial_sync = how;
        self
    }

    /// Whether the present state that a watch begins with is compared with a list.
    pub fn verification(mut self, verification: Verification) -> Self {
        self.verification = verification;
        self
    }

    /// How many objects one LIST request asks for. By default 500 where the server reads from its storage, all at once
    /// where it answers from its watch cache.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = Some(objects);
        self
    }

    /// Watches are asked to last between this and twice this long; less than 5 minutes counts as 5 minutes.
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.min_watch_timeout = timeout.max(MIN_WATCH_TIMEOUT);
        self
    }

    /// How long to wait between attempts.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// What becomes of managedFields.
    pub fn managed_fields(mut self, managed_fields: ManagedFields) -> Self {
        self.managed_fields = managed_fields;
        self
    }

    /// Changes each object before it is stored.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Sets how many bytes of bodies are held uncompressed; beyond, they are compressed. Defaults to 512 MiB, or to an eighth of
    /// the memory limit of the process' cgroup (version 1 or 2) if that is less: 16 MiB in a container that may use 128 MiB.
    ///
    /// Of this, a quarter may be taken by the objects that were decoded last, each counted at six times its encoding: they
    /// need not be decoded again. A small part of that is for those that were asked for once so far: what is asked for again
    /// while it is there, or must be decoded a second time, stays with the others. With 0 every body is compressed.
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// When objects are decoded.
    pub fn decoding(mut self, decoding: Decoding) -> Self {
        self.decoding = decoding;
        self
    }

    /// Shows every handler every object again once per `period`, unless the handler has its own period. Not by default.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// How many changes may wait between the watch and the store before the watch waits.
    pub fn queue_capacity(mut self, changes: usize) -> Self {
        self.queue_capacity = changes;
        self
    }

    /// Where the jitter of delays and timeouts comes from.
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

    /// Where to tell what happens.
    pub fn metrics(mut self, metrics: Arc<dyn CacheMetrics>) -> Self {
        self.metrics = Arc::new(Contained(metrics));
        self
    }

    /// Called with everything that goes wrong, on the informer's task; must not block. The informer goes on.
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
            managed_fields: ManagedFields::default(),
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

/// Where the parts of one informer report what goes wrong.
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

    /// Tells the log, the metrics and the hook. What belongs to the normal course of a watch is logged quietly.
    pub(crate) fn report(&self, error: &InformerError) {
        let expired = match error {
            InformerError::List { source, .. } | InformerError::Watch { source, .. } => source.is_expired(),
            InformerError::Object { .. } | InformerError::Index { .. } | InformerError::Inconsistent { .. } => false,
        };
        let cause = crate::causes(error);
        if expired {
            tracing::debug!(%error, cause, "the version is too old; listing again");
        } else {
            tracing::warn!(%error, cause, "the informer goes on");
        }
        self.metrics.failed(error);
        if let Some(hook) = &self.hook
            && let Err(panic) = crate::contained(|| hook(error))
        {
            tracing::error!(panic, "the error hook panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_shorter_than_five_minutes_are_not_asked_for() {
        let asked =
            |minutes| InformerOptions::default().min_watch_timeout(Duration::from_mins(minutes)).min_watch_timeout;
        assert_eq!([asked(1), asked(7)], [5, 7].map(Duration::from_mins));
    }
}
