//! What a watch and a list are answered with: the first byte is the length of the pieces that it comes in, which must make no
//! difference.
#![no_main]

use std::convert::Infallible;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, executor, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use windlass_api::{
    ApiResource, GroupVersionKind, ListItem, ListOptions, ListWatch, ListWatchError, Meta, WatchOptions,
};
use windlass_client::{Body, Client};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, body)) = data.split_first() else { return };
    let body = Bytes::copy_from_slice(body);
    // What is no JSON at all may be cut up in any way, as long as it ends.
    let valid = Deserializer::from_slice(&body).into_iter::<IgnoredAny>().all(|value| value.is_ok());
    for read in [watched, listed] {
        let (pieces, whole) = (read(&body, usize::from(*length).max(1)), read(&body, body.len().max(1)));
        if valid && pieces.error && whole.error {
            // What is wrong may be seen earlier, and then what came before it is not delivered.
            let both = pieces.told.len().min(whole.told.len());
            assert_eq!(pieces.told[..both], whole.told[..both]);
        } else if valid {
            assert_eq!(pieces, whole);
        }
    }
});

/// What came of an answer, as text.
#[derive(Debug, PartialEq)]
struct Outcome {
    told: Vec<String>,
    /// Whether it ended with one.
    error: bool,
}

impl Outcome {
    fn of<T>(all: Vec<Result<T, ListWatchError>>, tell: impl Fn(&T) -> String) -> Self {
        let error = all.iter().any(Result::is_err);
        Self { told: all.iter().flatten().map(tell).collect(), error }
    }
}

/// A client whose every request is answered with these bytes, in pieces.
fn client(body: &Bytes, length: usize) -> Client {
    let pieces: Vec<_> =
        (0..body.len()).step_by(length).map(|at| body.slice(at..body.len().min(at + length))).collect();
    let answer = move |_: Request<Body>| {
        let frames = pieces.clone().into_iter().map(|piece| Ok::<_, Infallible>(http_body::Frame::data(piece)));
        async move { Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(frames)))) }
    };
    Client::from_service(tower::service_fn(answer), "default")
}

fn config_maps() -> ApiResource {
    ApiResource::namespaced(GroupVersionKind::new("", "v1", "ConfigMap"), "configmaps")
}

fn watched(body: &Bytes, length: usize) -> Outcome {
    let source = client(body, length).list_watch(&config_maps(), None);
    let events = source.watch(WatchOptions::default()).then(|events| events.expect("the answer is 200").collect());
    // Metadata is what caches read of it first.
    Outcome::of(executor::block_on(events), |event| format!("{event:?} {}", Meta::parse(&event.body).is_ok()))
}

fn listed(body: &Bytes, length: usize) -> Outcome {
    let source = client(body, length).list_watch(&config_maps(), None);
    let items = source.list(ListOptions::default()).then(|items| items.expect("the answer is 200").collect());
    Outcome::of(executor::block_on(items), |item: &ListItem| format!("{item:?}"))
}
