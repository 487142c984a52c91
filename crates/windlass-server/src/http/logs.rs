//! The body of a log: the lines of a container, from a time or a number of lines before the end, and later ones.
//!
//! No task runs in the background: polling the body waits for the next line or the end of the container, and dropping it
//! ends the request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, stream};
use http::{HeaderValue, Response, StatusCode};
use jiff::{SignedDuration, Timestamp, fmt::temporal::DateTimePrinter};
use tokio::time;
use windlass_api::{Clock, EventType, Status};

use super::{body::Body, respond};
use crate::{
    connect::container::{Log, LogOptions, Run, later},
    registry::{Registry, WatchItem, WatchParams, WatchSession},
    resource::Target,
    state::Stopping,
};

/// The size beyond which a frame of lines ends.
const FRAME: usize = 16 << 10;

/// The maximum time for which a log is followed.
const LONGEST: Duration = Duration::from_hours(24);

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain");

/// The unsent lines of a log.
#[derive(Debug)]
struct Lines {
    rest: Bytes,
    /// The number of the next line, and of all lines.
    next: u64,
    total: u64,
    interval: Duration,
    started: Timestamp,
    since: Option<Timestamp>,
    timestamps: bool,
    /// The number of bytes that may still be sent.
    limit: Option<u64>,
}

/// A log that is followed.
struct Followed {
    lines: Lines,
    run: Run,
    container: String,
    session: WatchSession,
    clock: Clock,
    stopping: Stopping,
}

/// Answers a request for a log.
pub(super) async fn answer(registry: &Registry, stopping: &Stopping, log: Log) -> Result<Response<Body>, Status> {
    let Log { text, interval, run, options, target, container } = log;
    let held = text.len();
    let now = registry.clock().now();
    let mut lines = Lines::new(text, interval, &run, &options);
    let visible = lines.count(run.finished.unwrap_or(now));
    if let Some(tail) = options.tail {
        lines.skip_to(visible.saturating_sub(tail));
    }
    let body = if options.follow && run.finished.is_none() {
        let session = watch(registry, &target).await?;
        let (clock, stopping) = (registry.clock().clone(), stopping.clone());
        let followed = Followed { lines, run, container, session, clock, stopping };
        Body::frames(followed.frames(visible))
    } else {
        Body::frames(stream::iter(std::iter::from_fn(move || lines.frame(visible))))
    };
    Ok(respond::respond(StatusCode::OK, CONTENT_TYPE, body.with_held_bytes(held)))
}

/// Watches the pod of a container.
async fn watch(registry: &Registry, target: &Target) -> Result<WatchSession, Status> {
    let collection = Target { name: None, ..target.clone() };
    let fields = Some(format!("metadata.name={}", target.name()));
    registry.watch(&collection, WatchParams { fields, timeout: Some(LONGEST), ..WatchParams::default() }).await
}

impl Lines {
    fn new(text: Bytes, interval: Duration, run: &Run, options: &LogOptions) -> Self {
        let parts = text.split(|byte| *byte == b'\n').count();
        let total = parts - usize::from(text.last().is_none_or(|byte| *byte == b'\n'));
        Self {
            rest: text,
            next: 0,
            total: total as u64,
            interval,
            started: run.started,
            since: options.since,
            timestamps: options.timestamps,
            limit: options.limit,
        }
    }

    /// Returns the number of lines that are written until a time.
    fn count(&self, until: Timestamp) -> u64 {
        let Ok(elapsed) = Duration::try_from(until.duration_since(self.started)) else { return 0 };
        let written = elapsed
            .as_nanos()
            .checked_div(self.interval.as_nanos())
            .map_or(u64::MAX, |intervals| u64::try_from(intervals).unwrap_or(u64::MAX).saturating_add(1));
        self.total.min(written)
    }

    /// Returns the time of a line.
    fn time(&self, line: u64) -> Timestamp {
        let nanos = self.interval.as_nanos().saturating_mul(u128::from(line));
        let offset = SignedDuration::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        self.started.saturating_add(offset).unwrap_or(Timestamp::MAX)
    }

    /// Takes the next line, with its end.
    fn take(&mut self) -> Option<Bytes> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n').map_or(self.rest.len(), |at| at + 1);
        self.next += 1;
        Some(self.rest.split_to(end))
    }

    /// Skips the lines before this one.
    fn skip_to(&mut self, line: u64) {
        while self.next < line && self.take().is_some() {}
    }

    /// Returns a frame with the next lines before this one. Returns `None` if there are none.
    fn frame(&mut self, end: u64) -> Option<Bytes> {
        let mut frame = BytesMut::new();
        while self.next < end && frame.len() < FRAME && self.limit != Some(0) {
            let at = self.time(self.next);
            let Some(line) = self.take() else { break };
            if self.since.is_some_and(|since| at < since) {
                continue;
            }
            if self.timestamps {
                let stamp = DateTimePrinter::new().precision(Some(9)).timestamp_to_string(&at);
                self.push(&mut frame, stamp.as_bytes());
                self.push(&mut frame, b" ");
            }
            self.push(&mut frame, &line);
        }
        (!frame.is_empty()).then(|| frame.freeze())
    }

    /// Adds bytes to a frame, as far as the limit permits.
    fn push(&mut self, frame: &mut BytesMut, mut bytes: &[u8]) {
        if let Some(limit) = &mut self.limit {
            let taken = usize::try_from(*limit).unwrap_or(usize::MAX).min(bytes.len());
            *limit -= taken as u64;
            bytes = &bytes[..taken];
        }
        frame.extend_from_slice(bytes);
    }

    /// Reports whether nothing more may be sent.
    fn is_exhausted(&self) -> bool {
        self.limit == Some(0)
    }
}

impl Followed {
    /// Returns the lines before `visible`, then each line at its time, until the container ends.
    fn frames(self, visible: u64) -> impl Stream<Item = Bytes> + Send {
        // Boxed, because the states of the stream would contain several copies of it.
        stream::unfold(Some((Box::new(self), visible)), |open| async move {
            let (mut log, mut end) = open?;
            loop {
                if let Some(frame) = log.lines.frame(end) {
                    return Some((frame, Some((log, end))));
                }
                if log.run.finished.is_some() || log.lines.is_exhausted() {
                    return None;
                }
                end = log.next().await?;
            }
        })
    }

    /// Waits for the next line or the end of the container. Returns the number of the line before which all are written.
    /// Returns `None` if the log ends at once.
    async fn next(&mut self) -> Option<u64> {
        let line = self.lines.next;
        let written = async {
            if self.lines.rest.is_empty() {
                return std::future::pending().await;
            }
            let wait = self.lines.time(line).duration_since(self.clock.now());
            time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
        };
        let item = tokio::select! {
            biased;
            () = self.stopping.requested() => return None,
            item = self.session.next() => item?,
            () = written => return Some(self.lines.count(self.clock.now()).max(line + 1)),
        };
        match item {
            WatchItem::Event(event) if event.kind == EventType::Deleted => return None,
            WatchItem::Event(event) => {
                self.run = later(&event.item.value(), &self.container, &self.run.id)?;
            }
            WatchItem::Bookmark { .. } => {}
            WatchItem::Error(_) => return None,
        }
        Some(self.lines.count(self.run.finished.unwrap_or_else(|| self.clock.now())).max(line))
    }
}
