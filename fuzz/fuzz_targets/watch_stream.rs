//! Responses to watches and lists. The first byte is the length of the pieces, which must not affect the result.
#![no_main]

use bytes::Bytes;
use futures::{FutureExt, StreamExt, executor};
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use windlass_api::{ListItem, ListOptions, ListWatch, ListWatchError, Meta, WatchOptions};
use windlass_fuzz::answered;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, body)) = data.split_first() else { return };
    let body = Bytes::copy_from_slice(body);
    // Invalid JSON may be split anywhere, but parsing must end.
    let valid = Deserializer::from_slice(&body).into_iter::<IgnoredAny>().all(|value| value.is_ok());
    for read in [watched, listed] {
        let (pieces, whole) = (read(&body, usize::from(*length).max(1)), read(&body, body.len().max(1)));
        if valid && pieces.error && whole.error {
            // An error may be detected earlier. Then the events before it are not delivered.
            let both = pieces.told.len().min(whole.told.len());
            assert_eq!(pieces.told[..both], whole.told[..both]);
        } else if valid {
            assert_eq!(pieces, whole);
        }
    }
});

/// The result of a response, as text.
#[derive(Debug, PartialEq)]
struct Outcome {
    told: Vec<String>,
    /// `true` if it ended with an error.
    error: bool,
}

impl Outcome {
    fn of<T>(all: Vec<Result<T, ListWatchError>>, tell: impl Fn(&T) -> String) -> Self {
        let error = all.iter().any(Result::is_err);
        Self { told: all.iter().flatten().map(tell).collect(), error }
    }
}

fn watched(body: &Bytes, length: usize) -> Outcome {
    let source = answered(body, length);
    let events = source.watch(WatchOptions::default()).then(|events| events.expect("the answer is 200").collect());
    // Caches parse the metadata first.
    Outcome::of(executor::block_on(events), |event| format!("{event:?} {}", Meta::parse(&event.body).is_ok()))
}

fn listed(body: &Bytes, length: usize) -> Outcome {
    let source = answered(body, length);
    let items = source.list(ListOptions::default()).then(|items| items.expect("the answer is 200").collect());
    Outcome::of(executor::block_on(items), |item: &ListItem| format!("{item:?}"))
}
