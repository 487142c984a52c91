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
    workload::{Encoding, Place, Workload},
};

/// The size of a write to the socket; one more object may follow.
const CHUNK: usize = 64 << 10;

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

    fn changes(self: Arc<Self>, encoding: Encoding) -> impl Stream<Item = Bytes> + Send + 'static {
        let begin = time::Instant::now() + Duration::from_secs_f64(self.options.pause);
        stream::unfold(1_u64, move |mut change| {
            let replay = self.clone();
            async move {
                let options = &replay.options;
                if change > options.updates {
                    return std::future::pending().await;
                }
                let due = match options.rate {
                    #[expect(clippy::cast_precision_loss, reason = "times of a day")]
                    Some(rate) => begin + Duration::from_secs_f64(change as f64 / rate as f64),
                    None => begin,
                };
                time::sleep_until(due).await;
                let last =
                    options.rate.map_or(options.updates, |_| options.updates.min(change + options.per_write - 1));
                let mut chunk = Vec::with_capacity(2 * CHUNK);
                while change <= last && (options.rate.is_some() || chunk.len() < CHUNK) {
                    let object = usize::try_from(change % options.over.clamp(1, options.objects) as u64).unwrap_or(0);
                    replay.workload.event(encoding, &mut chunk, object, change);
                    change += 1;
                }
                Some((chunk.into(), change))
            }
        })
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
