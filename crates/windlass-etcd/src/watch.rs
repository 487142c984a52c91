//! Watches: a stream of etcd for each, which continues on another member if its connection is lost.
//!
//! Each watch has a gRPC stream of its own, so that etcd's answer to a progress request is about this watch alone. On a
//! shared stream, etcd answers only if none of its watches is behind. The streams share a connection.
//!
//! Before a watch is returned, etcd has confirmed it and has started to send its history. So a compaction after that
//! does not end it, unless it is still reading a long history, or reconnecting.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};
use windlass_grpc::{CallError, Messages, decode, frame};
use windlass_server::storage::{Delivery, Revision, StorageError, StorageEvent};

use crate::{
    cluster::WATCH,
    connection::Connection,
    errors::{EtcdError, EtcdStatus as _, status_of_reason},
    keys::KeyRange,
    messages::{
        DELETE, Empty, Event, WatchCommand, WatchCreateRequest, WatchRequest, WatchResponse, revision_of, signed,
        unsigned,
    },
    queue::{End, Events, Queue},
    reads::{Reader, value_of},
    revisions::Revisions,
};

/// The time for the confirmation of a watch by one member.
const CREATE_LIMIT: Duration = Duration::from_secs(5);

/// The interval of progress requests while a watch reads its history. etcd looks for such watches every 100 ms.
const HISTORY_INTERVAL: Duration = Duration::from_millis(50);

/// The minimum interval of other progress requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);

/// Pauses between attempts to resume a watch.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// The previous values in the events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Previous {
    Included,
    /// Neither requested nor transferred.
    Omitted,
}

/// The running watches of a storage.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    queues: Mutex<Vec<Weak<Queue>>>,
}

impl Watches {
    fn add(&self, queue: &Arc<Queue>) {
        let mut queues = self.queues.lock();
        queues.retain(|other| other.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
    }

    /// Requests the progress of all watches.
    pub(crate) fn request_progress(&self) {
        for queue in self.queues.lock().iter().filter_map(Weak::upgrade) {
            queue.progress.notify_one();
        }
    }

    /// Ends all watches.
    pub(crate) fn close(&self) {
        for queue in self.queues.lock().drain(..).filter_map(|queue| queue.upgrade()) {
            queue.end(End::Closed);
        }
    }
}

/// The task of a watch. Dropping it ends the queue.
struct Watch {
    reader: Arc<Reader>,
    prefix: Arc<str>,
    range: KeyRange,
    previous: Previous,
    queue: Arc<Queue>,
    revisions: Revisions,
    /// The revision up to which progress is requested without a consumer: that of the start.
    wanted: Revision,
    stream: Stream,
    /// The time of the next progress request.
    request_at: Option<Instant>,
    requested: Option<Instant>,
}

/// A stream of one member.
struct Stream {
    connection: Arc<Connection>,
    requests: mpsc::Sender<Bytes>,
    responses: Messages,
}

/// The reason why a stream cannot be opened, or has ended.
enum Failure {
    /// The failure may not last, so another attempt can succeed.
    Temporary(StorageError),
    Final(StorageError),
}

/// Starts a watch of the keys with a prefix.
pub(crate) async fn start(
    reader: &Arc<Reader>,
    watches: &Watches,
    prefix: &str,
    after: Revision,
    previous: Previous,
) -> Result<Events, StorageError> {
    let range = reader.keys.prefixed(prefix);
    if range.is_empty() {
        let why = format!("{prefix} is not below the prefix of the server's keys");
        return Err(StorageError::Unavailable(why.into()));
    }
    let queue = Arc::new(Queue::new());
    let events = Events::new(Arc::clone(&queue), after);
    let limit = reader.cluster.options.request_timeout;
    let revisions = Revisions::after(after);
    let starting = async {
        let (stream, current) = resume(reader, prefix, &range, after, previous, limit).await?;
        let mut watch = Watch {
            reader: Arc::clone(reader),
            prefix: prefix.into(),
            range,
            previous,
            queue: Arc::clone(&queue),
            revisions,
            wanted: current,
            stream,
            request_at: None,
            requested: None,
        };
        // Waits until etcd sends the history.
        while watch.revisions.complete() == after && watch.is_behind() {
            watch.step().await?;
        }
        Ok::<_, StorageError>(watch)
    };
    let watch = match time::timeout(limit, starting).await {
        Ok(watch) => watch?,
        Err(_) => return Err(failed(prefix, reader.cluster.endpoints(), CallError::Timeout).into()),
    };
    watches.add(&queue);
    tokio::spawn(watch.run());
    Ok(events)
}

/// Opens a stream after a revision, also repeatedly within `limit`. Returns the revision that was current then.
async fn resume(
    reader: &Reader,
    prefix: &str,
    range: &KeyRange,
    after: Revision,
    previous: Previous,
    limit: Duration,
) -> Result<(Stream, Revision), StorageError> {
    let (started, mut pause) = (Instant::now(), RETRY_FIRST);
    loop {
        let failure = match Stream::open(reader, prefix, range, after, previous).await {
            Ok(opened) => return Ok(opened),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Temporary(error)) => error,
        };
        if started.elapsed() + pause > limit {
            return Err(failure);
        }
        tracing::debug!(prefix, error = &failure as &dyn std::error::Error, "a watch of etcd cannot be resumed yet");
        time::sleep(pause).await;
        pause = RETRY_LAST.min(pause * 2);
    }
}

impl Stream {
    async fn open(
        reader: &Reader,
        prefix: &str,
        range: &KeyRange,
        after: Revision,
        previous: Previous,
    ) -> Result<(Self, Revision), Failure> {
        let connection = reader.cluster.connection().await.map_err(|error| {
            let error = CallError::Unsent(error.into());
            Failure::Temporary(failed(prefix, reader.cluster.endpoints(), error).into())
        })?;
        let opening = time::timeout(CREATE_LIMIT, Self::create(&connection, range, after, previous));
        let stream = match opening.await.unwrap_or(Err(CallError::Timeout)) {
            Ok(stream) => stream,
            Err(error) => return Err(failure(reader, prefix, &connection, error).await),
        };
        // etcd accepts a watch of the compacted revision itself, whose events can be incomplete.
        match reader.check_readable(after).await {
            Ok(current) => Ok((stream, current)),
            Err(error @ StorageError::Compacted { .. }) => Err(Failure::Final(error)),
            Err(error) => Err(Failure::Temporary(error)),
        }
    }

    /// Creates the watch, and waits until the member has confirmed it.
    async fn create(
        connection: &Arc<Connection>,
        range: &KeyRange,
        after: Revision,
        previous: Previous,
    ) -> Result<Self, CallError> {
        let create = WatchCreateRequest {
            key: range.start.clone(),
            range_end: range.end.clone(),
            start_revision: signed(after.next().0),
            progress_notify: true,
            prev_kv: previous == Previous::Included,
            fragment: true,
        };
        let (requests, receiver) = mpsc::channel(2);
        let create = frame(&WatchRequest { command: Some(WatchCommand::Create(create)) });
        requests.try_send(create).map_err(|error| CallError::Unsent(error.into()))?;
        let mut responses = connection.stream(WATCH, receiver).await?;
        match responses.next().await? {
            Some(message) => match decode::<WatchResponse>(message)? {
                WatchResponse { canceled: true, cancel_reason, .. } => Err(status_of_reason(&cancel_reason).into()),
                WatchResponse { created: true, .. } => {
                    Ok(Self { connection: Arc::clone(connection), requests, responses })
                }
                _ => Err(CallError::Lost("the first response does not confirm the watch".into())),
            },
            None => Err(CallError::Lost("the stream has ended".into())),
        }
    }
}

impl Watch {
    /// Reads from etcd until the consumer is gone, or until the watch fails.
    async fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        let error = loop {
            tokio::select! {
                () = queue.until_ended() => return,
                result = self.step() => if let Err(error) = result {
                    break error;
                }
            }
        };
        queue.end(End::Failed(error));
    }

    /// Reports whether the history has not been read up to the start of the watch.
    fn is_behind(&self) -> bool {
        self.revisions.complete() < self.wanted
    }

    /// Handles one response, or resumes the watch.
    async fn step(&mut self) -> Result<(), StorageError> {
        let error = match self.receive().await {
            Ok(response) => return self.accept(response).await,
            Err(error) => error,
        };
        if let Failure::Final(error) = failure(&self.reader, &self.prefix, &self.stream.connection, error).await {
            return Err(error);
        }
        self.revisions.restart();
        let after = self.revisions.complete();
        let (stream, current) =
            resume(&self.reader, &self.prefix, &self.range, after, self.previous, Duration::MAX).await?;
        (self.stream, self.wanted, self.requested) = (stream, current, None);
        Ok(())
    }

    /// Waits for a response, and sends progress requests in the meantime. Cancel-safe.
    async fn receive(&mut self) -> Result<WatchResponse, CallError> {
        loop {
            if self.is_behind() && self.request_at.is_none() {
                self.request_at = Some(self.requested.map_or_else(Instant::now, |last| last + HISTORY_INTERVAL));
            }
            let request_at = self.request_at.unwrap_or_else(Instant::now);
            tokio::select! {
                message = self.stream.responses.next() => {
                    let message = message?.ok_or_else(|| CallError::Lost("the stream has ended".into()))?;
                    return decode(message);
                }
                () = self.stream.connection.until_abandoned() => return Err(CallError::Timeout),
                () = self.queue.progress.notified() => {
                    let earliest = self.requested.map_or_else(Instant::now, |last| last + REQUEST_INTERVAL);
                    self.request_at = Some(self.request_at.map_or(earliest, |at| at.min(earliest)));
                }
                () = time::sleep_until(request_at), if self.request_at.is_some() => {
                    let request = WatchRequest { command: Some(WatchCommand::Progress(Empty {})) };
                    // If requests are waiting already, another one has no use.
                    let _ = self.stream.requests.try_send(frame(&request));
                    (self.request_at, self.requested) = (None, Some(Instant::now()));
                }
            }
        }
    }

    async fn accept(&mut self, response: WatchResponse) -> Result<(), StorageError> {
        if response.canceled {
            if response.compact_revision > 0 {
                return Err(StorageError::Compacted { oldest: Revision(unsigned(response.compact_revision)) });
            }
            let connection = &self.stream.connection;
            let error = failed(&self.prefix, &connection.endpoint, status_of_reason(&response.cancel_reason).into());
            return Err(error.into());
        }
        let queue = Arc::clone(&self.queue);
        let mut out = |delivery: Delivery| queue.put(delivery);
        if response.events.is_empty() {
            if !response.created {
                self.revisions.progress(Revision(revision_of(response.header.as_ref())), &mut out);
            }
            return Ok(());
        }
        for event in response.events {
            let revision = Revision(event.kv.as_ref().map_or(0, |kv| unsigned(kv.mod_revision)));
            let event = self.event(event).await?;
            self.revisions.event(revision, event, &mut out);
        }
        self.revisions.end_of_response(response.fragment, &mut out);
        Ok(())
    }

    /// Converts an event. `None` for a key that is not text, which the server has not written.
    async fn event(&self, event: Event) -> Result<Option<StorageEvent>, StorageError> {
        let kv = event.kv.unwrap_or_default();
        let Some(key) = self.reader.keys.to_server(&kv.key) else {
            tracing::warn!(key = %String::from_utf8_lossy(&kv.key), "ignoring an event, because its key is not UTF-8");
            return Ok(None);
        };
        let revision = Revision(unsigned(kv.mod_revision));
        let is_deletion = event.kind == DELETE;
        let previous = match event.prev_kv {
            Some(previous) => Some(value_of(Arc::clone(&key), previous)),
            None if self.previous == Previous::Omitted => None,
            None if !is_deletion && kv.create_revision == kv.mod_revision => None,
            // etcd omits it for events that it has found before it knew that the watch wants previous values, and if it
            // is compacted.
            None => self.reader.get(&key, Some(revision.previous())).await?.1,
        };
        let current = (!is_deletion).then(|| value_of(Arc::clone(&key), kv));
        Ok(Some(StorageEvent { revision, key, current, previous }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Has no effect if the watch has ended for another reason. Otherwise its runtime has ended.
        self.queue.end(End::Failed(StorageError::Unavailable("the task of the watch has ended".into())));
    }
}

fn failed(prefix: &str, endpoint: impl fmt::Display, error: CallError) -> EtcdError {
    EtcdError::new(format!("watch {prefix}"), endpoint, error)
}

/// Decides whether a watch can be resumed after an error, and leaves the member then.
async fn failure(reader: &Reader, prefix: &str, connection: &Connection, error: CallError) -> Failure {
    if let CallError::Status(status) = &error {
        if status.is_token_rejected() {
            // An error here causes another attempt.
            let _ = connection.authenticate().await;
        } else if status.is_unavailable() {
            reader.cluster.abandon(connection, &error);
        } else {
            return Failure::Final(failed(prefix, &connection.endpoint, error).into());
        }
    } else {
        reader.cluster.abandon(connection, &error);
    }
    Failure::Temporary(failed(prefix, &connection.endpoint, error).into())
}
