//! The console's server.

use std::{
    convert::Infallible,
    fmt::{self, Debug},
    sync::Arc,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{Either, Full, StreamBody};
use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval},
};
use windlass_cache::{InformerPhase, InformerStatus};
use windlass_serve::RequestBody;

use super::{
    Console,
    events::{Reader, json, resume},
    routes::{Route, protect, route},
};
use crate::{
    Error, Group, Leadership, Result, Runnable, RunnableContext,
    cache_labels::{selector, short},
    console_data::{
        ConsoleData,
        history::EVERY,
        state::{CacheState, LeadershipState, Process, State},
    },
    host,
    serving::{serve, text},
};

/// The maximum number of concurrent readers of the event stream.
const READERS: usize = 16;

/// Serves the data of a console.
#[derive(Debug)]
pub(crate) struct Server {
    console: Console,
    data: Arc<ConsoleData>,
}

/// The data of a running manager. Cheap to clone.
#[derive(Clone)]
struct View {
    data: Arc<ConsoleData>,
    context: RunnableContext,
    caches: Arc<dyn Fn() -> Vec<InformerStatus> + Send + Sync>,
    hosts: Arc<[String]>,
    readers: Arc<Semaphore>,
}

/// A complete response body, or a stream.
type Body = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

// === impl Server ===

impl Server {
    pub(super) fn new(console: Console, data: Arc<ConsoleData>) -> Self {
        Self { console, data }
    }
}

impl Runnable for Server {
    fn name(&self) -> String {
        "console".to_owned()
    }

    fn group(&self) -> Group {
        Group::Servers
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        async move {
            let Self { console: Console { listen, hosts }, data } = *self;
            let Some(listener) = listen.bind().await.map_err(|source| Error::Listen { source })? else { return Ok(()) };
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "serving the console");
            }
            let stop = context.stop().clone();
            let view = View {
                data: Arc::clone(&data),
                caches: Arc::new(context.cluster().cache_statuses()),
                context,
                hosts: hosts.into(),
                readers: Arc::new(Semaphore::new(READERS)),
            };
            let serving = serve(listener, None, &stop, move |request: Request<RequestBody>| {
                let answer = view.answer(&request);
                async move { answer }
            });
            tokio::select! {
                () = serving => {}
                () = sample(&data) => {}
            }
            Ok(())
        }
        .boxed()
    }
}

/// Takes samples forever.
async fn sample(data: &ConsoleData) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        data.sample();
    }
}

// === impl View ===

impl View {
    fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let mut answer = match route(request, &self.hosts) {
            Err((status, why)) => {
                let mut answer = text(status, why);
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                }
                answer.map(Either::Left)
            }
            Ok(Route::File(file)) => file.answer().map(Either::Left),
            Ok(Route::State) => typed("application/json", Either::Left(Full::new(self.state()))),
            // The stream is endless and has no content length.
            Ok(Route::Events) if request.method() == Method::HEAD => typed(EVENTS, Either::Left(Full::default())),
            Ok(Route::Events) => match Arc::clone(&self.readers).try_acquire_owned() {
                Ok(permit) => {
                    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
                    let reader = Reader {
                        next: resume(last.unwrap_or_default(), self.data.started().0),
                        data: Arc::clone(&self.data),
                        state: {
                            let view = self.clone();
                            move || view.state()
                        },
                        stop: self.context.stop().clone(),
                        _permit: permit,
                    };
                    let frames = reader.stream().map(|bytes| bytes.map(Frame::data));
                    typed(EVENTS, Either::Right(StreamBody::new(frames.boxed())))
                }
                Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "too many readers\n").map(Either::Left),
            },
        };
        protect(answer.headers_mut());
        answer
    }

    /// Returns the state as JSON.
    fn state(&self) -> Bytes {
        let (started, uptime) = self.data.started();
        json(&State {
            at: self.data.now(),
            process: Process {
                program: program(),
                host: host::name(),
                pid: std::process::id(),
                started,
                uptime_seconds: uptime.as_secs(),
                resident_bytes: host::resident_bytes(),
            },
            leadership: leadership(self.context.leadership()),
            controllers: self.data.read(),
            caches: (self.caches)().iter().map(cache).collect(),
        })
    }
}

impl Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("data", &self.data).finish_non_exhaustive()
    }
}

const EVENTS: &str = "text/event-stream";

fn typed(content_type: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

fn leadership(leadership: &Leadership) -> LeadershipState {
    let leader = leadership.leader();
    match leadership.lease().map(str::to_owned) {
        None => LeadershipState::Alone,
        Some(lease) if leadership.is_leader() => LeadershipState::Leading { lease, leader },
        Some(lease) => LeadershipState::Waiting { lease, leader },
    }
}

fn cache(status: &InformerStatus) -> CacheState {
    let InformerStatus { resource, type_name, namespace, phase, objects, version, queued, memory, activity, .. } =
        status;
    CacheState {
        resource: resource.group_resource().to_string(),
        type_name: short(type_name).to_owned(),
        namespace: namespace.clone(),
        selector: selector(status),
        phase: match phase {
            InformerPhase::New => "new",
            InformerPhase::Syncing => "syncing",
            InformerPhase::Synced => "synced",
            InformerPhase::Stopped => "stopped",
        },
        objects: *objects,
        version: version.to_string(),
        queued: *queued,
        encoded_bytes: memory.encoded,
        compressed_bytes: memory.compressed,
        decoded_bytes: memory.decoded,
        budget_bytes: memory.budget,
        lists: activity.lists,
        watches: activity.watches,
        events: activity.added + activity.modified + activity.deleted,
        errors: activity.failures + activity.decoding_failures + activity.handler_panics,
    }
}

/// Returns the name of the program.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "manager".to_owned())
}
