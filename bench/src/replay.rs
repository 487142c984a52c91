//! A server that replays a list and a watch, so that what is measured is the client.
//!
//! It answers LIST (with `limit` and `continue`) and WATCH for one workload, over plain HTTP/1.1. A watch begins with silence, in which clients can measure
//! what they hold; then the changes come, in a burst or trickling, and silence again. Streamed lists are refused, as servers without them do.

mod workload;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::Args;
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{net::TcpListener, time};
use windlass_api::BoxError;

use self::workload::{FIRST_VERSION, Kind, Workload};

/// The flags of `windlass-bench replay`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// What is listed and watched
    #[arg(long, value_enum, default_value_t = Kind::Uniform)]
    workload: Kind,
    /// How many objects there are
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// How many changes each watch tells
    #[arg(long, default_value_t = 50_000)]
    updates: u64,
    /// How many of the objects change
    #[arg(long, default_value_t = 1_000)]
    over: usize,
    /// Changes per second; all at once without
    #[arg(long)]
    rate: Option<u64>,
    /// Seconds between the beginning of a watch and its first change
    #[arg(long, default_value_t = 3.0)]
    pause: f64,
}

/// As much as goes to the socket at once.
const CHUNK: usize = 64 << 10;

struct Replay {
    workload: Workload,
    options: Options,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Never returns, but for an error. Prints its address first.
pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let listener = TcpListener::bind(options.bind).await?;
    let workload = Workload::new(options.workload, options.objects);
    println!("{}", json!({"server": format!("http://{}", listener.local_addr()?), "path": workload.path}));
    let replay = Arc::new(Replay { workload, options });
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let replay = replay.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = replay.clone().answer(&request);
                async { Ok::<_, Infallible>(answer) }
            });
            // A client that goes away is no error.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

impl Replay {
    fn answer(self: Arc<Self>, request: &Request<Incoming>) -> Response<Body> {
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
        if matches!(parameter("watch"), Some("true" | "1")) {
            return json_stream(self.changes());
        }
        let start = parameter("continue").and_then(|token| token.parse().ok()).unwrap_or(0).min(self.options.objects);
        let limit = parameter("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let end = limit.map_or(self.options.objects, |limit: usize| (start + limit).min(self.options.objects));
        json_stream(self.page(start, end))
    }

    fn page(self: Arc<Self>, start: usize, end: usize) -> impl Stream<Item = Bytes> + Send + 'static {
        let objects = self.options.objects;
        let mut metadata = json!({"resourceVersion": FIRST_VERSION.to_string()});
        if end < objects {
            metadata["continue"] = end.to_string().into();
            metadata["remainingItemCount"] = (objects - end).into();
        }
        let (kind, version) = (self.workload.kind, self.workload.api_version);
        let head = format!(r#"{{"kind":"{kind}List","apiVersion":"{version}","metadata":{metadata},"items":["#);
        // The state is `None` once the last chunk is out.
        stream::unfold(Some((start, head.into_bytes())), move |state| {
            let replay = self.clone();
            async move {
                let (mut at, mut chunk) = state?;
                while at < end && chunk.len() < CHUNK {
                    if at > start {
                        chunk.push(b',');
                    }
                    replay.workload.item(&mut chunk, at);
                    at += 1;
                }
                if at < end {
                    return Some((chunk.into(), Some((at, Vec::with_capacity(2 * CHUNK)))));
                }
                chunk.extend_from_slice(b"]}");
                Some((chunk.into(), None))
            }
        })
    }

    fn changes(self: Arc<Self>) -> impl Stream<Item = Bytes> + Send + 'static {
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
                let most = if options.rate.is_some() { 1 } else { CHUNK };
                let mut chunk = Vec::with_capacity(2 * CHUNK);
                while change <= options.updates && chunk.len() < most {
                    let object = usize::try_from(change % options.over.clamp(1, options.objects) as u64).unwrap_or(0);
                    replay.workload.event(&mut chunk, object, change);
                    change += 1;
                }
                Some((chunk.into(), change))
            }
        })
    }
}

fn json_stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let body = StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk))));
    Response::builder()
        .header("Content-Type", "application/json")
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
