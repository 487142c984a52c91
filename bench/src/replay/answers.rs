//! The responses of the replay server.

use std::{convert::Infallible, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use serde_json::json;
use tokio::time;

use super::{
    Options,
    chunks::Chunks,
    workload::{Encoding, Place, Workload},
};

/// The size of a chunk of a list; one more object may follow.
const CHUNK: usize = 64 << 10;

/// The capacity for an event. Most are smaller.
const EVENT: usize = 16 << 10;

/// The number of events after which kube-apiserver flushes in a burst: its buffer of ten is empty then.
const EVENTS_PER_FLUSH: u64 = 11;

/// The replayed workload and its options.
pub(super) struct Replay {
    pub(super) workload: Workload,
    pub(super) options: Options,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl Replay {
    pub(super) fn answer(self: Arc<Self>, request: &Request<Incoming>) -> Response<Body> {
        if request.uri().path() != self.workload.path {
            return refuse(StatusCode::NOT_FOUND, "NotFound", "nothing else is replayed");
        }
        let query = request.uri().query().unwrap_or_default();
        let parameter = |name: &str| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
                .filter(|value| !value.is_empty())
        };
        if parameter("sendInitialEvents").is_some() {
            return refuse(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "sendInitialEvents: Forbidden");
        }
        let accepted = request.headers().get("Accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let encoding = self.workload.encoding(accepted);
        if matches!(parameter("watch"), Some("true" | "1")) {
            return stream_of(encoding.watch_type(), self.changes(encoding));
        }
        let start = parameter("continue").and_then(|token| token.parse().ok()).unwrap_or(0).min(self.options.objects);
        let limit = parameter("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let end = limit.map_or(self.options.objects, |limit: usize| (start + limit).min(self.options.objects));
        stream_of(encoding.list_type(), self.page(encoding, start..end))
    }

    fn page(self: Arc<Self>, encoding: Encoding, page: Range<usize>) -> impl Stream<Item = Bytes> + Send + 'static {
        let mut head = Vec::with_capacity(2 * CHUNK);
        self.workload.list_head(encoding, &mut head, page.clone());
        // The state is `None` after the last chunk.
        stream::unfold(Some((page.start, head)), move |state| {
            let (replay, page) = (self.clone(), page.clone());
            async move {
                let (mut at, mut chunk) = state?;
                while at < page.end && chunk.len() < CHUNK {
                    let place = if at == page.start { Place::First } else { Place::Later };
                    replay.workload.item(encoding, &mut chunk, at, place);
                    at += 1;
                }
                if at < page.end {
                    return Some((chunk.into(), Some((at, Vec::with_capacity(2 * CHUNK)))));
                }
                chunk.extend_from_slice(encoding.list_tail());
                Some((chunk.into(), None))
            }
        })
    }

    /// Returns the events of a watch, in the chunks of kube-apiserver.
    fn changes(self: Arc<Self>, encoding: Encoding) -> impl Stream<Item = Bytes> + Send + 'static {
        let begin = time::Instant::now() + Duration::from_secs_f64(self.options.pause);
        stream::unfold((1_u64, Chunks::default()), move |(mut change, mut chunks)| {
            let replay = self.clone();
            async move {
                let mut event = Vec::with_capacity(EVENT);
                loop {
                    if let Some(chunk) = chunks.next() {
                        return Some((chunk, (change, chunks)));
                    }
                    if change > replay.options.updates {
                        return std::future::pending().await;
                    }
                    time::sleep_until(begin + replay.due(change)).await;
                    let over = replay.options.over.clamp(1, replay.options.objects);
                    let object = usize::try_from(change % over as u64).unwrap_or(0);
                    event.clear();
                    replay.workload.event(encoding, &mut event, object, change);
                    match encoding {
                        Encoding::Json => chunks.json(&event),
                        Encoding::Protobuf => chunks.protobuf(&event),
                    }
                    if replay.ends_group(change) {
                        chunks.flush();
                    }
                    change += 1;
                }
            }
        })
    }

    /// Returns the time from the first change to a change.
    fn due(&self, change: u64) -> Duration {
        let Options { rate: Some(rate), per_write, .. } = self.options else { return Duration::ZERO };
        let first = (change - 1) / per_write * per_write + 1;
        #[expect(clippy::cast_precision_loss, reason = "times of a day")]
        let seconds = first as f64 / rate as f64;
        Duration::from_secs_f64(seconds)
    }

    /// Reports whether no other change is waiting after this one.
    fn ends_group(&self, change: u64) -> bool {
        let Options { rate, per_write, updates, .. } = self.options;
        let group = if rate.is_some() { per_write } else { EVENTS_PER_FLUSH };
        change == updates || change.is_multiple_of(group)
    }
}

fn stream_of(media_type: &str, chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let body = StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))));
    Response::builder()
        .header("Content-Type", media_type)
        .body(BodyExt::boxed_unsync(body))
        .expect("the header is valid")
}

fn refuse(status: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let text = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "message": message, "code": status.as_u16()});
    let body = Full::new(Bytes::from(text.to_string())).boxed_unsync();
    let response = Response::builder().status(status).header("Content-Type", "application/json");
    response.body(body).expect("the header is valid")
}
