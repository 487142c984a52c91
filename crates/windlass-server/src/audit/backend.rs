//! A backend: its mode, its truncation, its buffer, and the task that sends batches.

use std::{fmt, io, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, oneshot},
    time::{Instant, sleep_until},
};
use windlass_api::BoxError;

use super::{
    event::{Event, Rendered},
    metrics::{AuditMetrics, Plugin},
    options::{AuditBatchOptions, AuditMode, AuditTruncateOptions},
    policy::{Level, Stage},
    queue::{Batch, Entry, Queue},
};

/// The maximum number of batches that are sent to a webhook at the same time. kube-apiserver has no limit.
const CONCURRENT: usize = 64;

/// The maximum number of events that are written to the log at once.
const GROUP: usize = 512;

/// The longest delay between batches, for rates that are almost zero. A longer one can overflow.
const MAX_DELAY: Duration = Duration::from_hours(365 * 24);

/// Writes events.
pub(super) trait Sink: fmt::Debug + Send + Sync + 'static {
    /// The name in metrics.
    fn plugin(&self) -> Plugin;

    /// Reports whether a line of the legacy format is written.
    fn is_legacy(&self) -> bool {
        false
    }

    /// Reports whether batches are sent at the same time. If not, all events that have arrived are written at once.
    fn is_concurrent(&self) -> bool;

    /// Writes an event without waiting for others. Returns `None` if it must be queued.
    fn write_now(&self, _event: &Rendered) -> Option<io::Result<()>> {
        None
    }

    /// Writes events.
    fn send<'a>(&'a self, events: &'a [Entry]) -> BoxFuture<'a, Sent>;
}

/// The way of an event to its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The request has waited for its previous events. In a blocking mode, it may write the event itself, which needs no other task.
    Direct,
    /// An earlier event of the request can still be in the buffer, so this one follows it.
    Queued,
}

/// The result of a batch.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// The indices of lost events.
    pub(super) lost: Vec<usize>,
    pub(super) error: Option<BoxError>,
}

/// A backend.
#[derive(Debug)]
pub(super) struct Backend {
    sink: Arc<dyn Sink>,
    mode: AuditMode,
    /// The maximum size of an event.
    max_event_size: Option<usize>,
    batching: Batching,
    queue: Arc<Queue>,
    metrics: Arc<AuditMetrics>,
}

#[derive(Clone, Copy, Debug)]
struct Batching {
    max_size: usize,
    max_wait: Duration,
    /// The rate and the burst of batches.
    throttle: Option<(f64, f64)>,
}

impl Backend {
    pub(super) fn new(
        sink: Arc<dyn Sink>,
        batch: &AuditBatchOptions,
        truncate: &AuditTruncateOptions,
        metrics: Arc<AuditMetrics>,
    ) -> Self {
        let count = |number: i64| usize::try_from(number).unwrap_or(1).max(1);
        let is_batch = batch.mode == AuditMode::Batch;
        #[expect(clippy::cast_precision_loss, reason = "a burst is a small number")]
        let throttle =
            (is_batch && batch.throttle_enable).then(|| (f64::from(batch.throttle_qps), batch.throttle_burst as f64));
        Self {
            sink,
            mode: batch.mode,
            max_event_size: truncate.enabled.then(|| count(truncate.max_event_size)),
            batching: Batching {
                max_size: if is_batch { count(batch.max_size) } else { 1 },
                max_wait: batch.max_wait,
                throttle,
            },
            queue: Arc::new(Queue::new(count(batch.buffer_size))),
            metrics,
        }
    }

    /// Sends the event of a stage. The returned future waits if the mode is blocking, and returns `false` if the request
    /// must be rejected.
    pub(super) fn process(
        &self,
        event: &Event,
        stage: Stage,
        now: Timestamp,
        rendered: &Arc<Rendered>,
        way: Way,
    ) -> BoxFuture<'static, bool> {
        let Some(rendered) = self.truncated(event, stage, now, rendered) else {
            return Box::pin(std::future::ready(true));
        };
        let is_strict = self.mode == AuditMode::BlockingStrict;
        if self.mode != AuditMode::Batch
            && way == Way::Direct
            && let Some(written) = self.sink.write_now(&rendered)
        {
            if let Err(error) = &written {
                self.metrics.lost(self.sink.plugin(), 1, &event.audit_id, error);
            }
            return Box::pin(std::future::ready(written.is_ok() || !is_strict));
        }
        let audit_id = event.audit_id.as_str().into();
        if self.mode == AuditMode::Batch {
            let pushed = self.queue.push(Entry { event: rendered, audit_id, written: None });
            if let Err(entry) = pushed {
                self.metrics.lost(Plugin::Buffered, 1, &entry.audit_id, &"audit buffer queue blocked");
            }
            self.start();
            return Box::pin(std::future::ready(true));
        }
        let (written, answer) = oneshot::channel();
        let pushed = self.queue.push(Entry { event: rendered, audit_id, written: Some(written) });
        self.start();
        match pushed {
            Ok(()) => Box::pin(async move { answer.await.unwrap_or(false) || !is_strict }),
            Err(entry) => {
                let mut waiting =
                    Waiting { entry: Some(entry), queue: Arc::clone(&self.queue), metrics: Arc::clone(&self.metrics) };
                Box::pin(async move {
                    waiting.push().await;
                    answer.await.unwrap_or(false) || !is_strict
                })
            }
        }
    }

    /// Returns the event in the form of this backend. Returns `None` if it is too large.
    fn truncated(
        &self,
        event: &Event,
        stage: Stage,
        now: Timestamp,
        rendered: &Arc<Rendered>,
    ) -> Option<Arc<Rendered>> {
        let mut rendered = Arc::clone(rendered);
        if let Some(max) = self.max_event_size
            && rendered.json_len() > max
        {
            if event.level >= Level::Request {
                rendered = Arc::new(event.render(stage, now, false));
            }
            if rendered.json_len() > max {
                let why = "event is too large even after truncating";
                self.metrics.lost(Plugin::Truncate, 1, &event.audit_id, &why);
                return None;
            }
        }
        if self.sink.is_legacy() {
            let line = Some(event.legacy(stage).into());
            rendered = Arc::new(Rendered { line, ..Rendered::clone(&rendered) });
        }
        Some(rendered)
    }

    /// Starts the task that empties the buffer, unless it runs.
    fn start(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(running) = self.queue.start() else { return };
        let worker = Worker {
            sink: Arc::clone(&self.sink),
            queue: Arc::clone(&self.queue),
            metrics: Arc::clone(&self.metrics),
            batching: self.batching,
            slots: Arc::new(Semaphore::new(CONCURRENT)),
        };
        runtime.spawn(async move {
            let _running = running;
            worker.run().await;
        });
    }

    /// Waits until all events were sent.
    pub(super) async fn flush(&self) {
        self.start();
        self.queue.flush().await;
    }
}

impl Drop for Backend {
    /// Lets the task send the rest of the buffer and end.
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// An event that waits for room in the buffer.
struct Waiting {
    entry: Option<Entry>,
    queue: Arc<Queue>,
    metrics: Arc<AuditMetrics>,
}

impl Waiting {
    async fn push(&mut self) {
        self.queue.push_when_possible(&mut self.entry).await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            self.metrics.lost(Plugin::Buffered, 1, &entry.audit_id, &"audit buffer queue blocked");
        }
    }
}

/// The task that empties the buffer.
struct Worker {
    sink: Arc<dyn Sink>,
    queue: Arc<Queue>,
    metrics: Arc<AuditMetrics>,
    batching: Batching,
    slots: Arc<Semaphore>,
}

impl Worker {
    async fn run(self) {
        let Batching { max_size, max_wait, throttle } = self.batching;
        let mut bucket = throttle.map(|(rate, burst)| TokenBucket::new(rate, burst));
        let is_concurrent = self.sink.is_concurrent();
        let most = if is_concurrent { max_size } else { max_size.max(GROUP) };
        while let Some(batch) = self.queue.collect(max_size, max_wait, most).await {
            if let Some(bucket) = &mut bucket {
                bucket.take().await;
            }
            let (sink, metrics) = (Arc::clone(&self.sink), Arc::clone(&self.metrics));
            if is_concurrent {
                let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { return };
                tokio::spawn(async move {
                    send(&*sink, &metrics, batch).await;
                    drop(slot);
                });
            } else {
                send(&*sink, &metrics, batch).await;
            }
        }
    }
}

async fn send(sink: &dyn Sink, metrics: &AuditMetrics, mut batch: Batch) {
    let sent = sink.send(&batch.entries).await;
    if let Some(error) = sent.error
        && let Some(first) = sent.lost.first().and_then(|index| batch.entries.get(*index))
    {
        metrics.lost(sink.plugin(), sent.lost.len() as u64, &first.audit_id, &windlass_api::ErrorChain(&*error));
    }
    let mut lost = sent.lost.into_iter().peekable();
    for (index, entry) in batch.entries.iter_mut().enumerate() {
        let is_lost = lost.next_if_eq(&index).is_some();
        if let Some(written) = entry.written.take() {
            // The request may have ended.
            let _ = written.send(!is_lost);
        }
    }
}

/// Limits the rate of batches.
struct TokenBucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    updated: Instant,
}

impl TokenBucket {
    fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, tokens: burst, updated: Instant::now() }
    }

    async fn take(&mut self) {
        let now = Instant::now();
        let earned = now.duration_since(self.updated).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + earned).min(self.burst) - 1.0;
        self.updated = now;
        if self.tokens < 0.0 {
            let delay = Duration::try_from_secs_f64(-self.tokens / self.rate).unwrap_or(MAX_DELAY);
            sleep_until(now + delay.min(MAX_DELAY)).await;
        }
    }
}
