//! The server-sent events for one reader, at the reader's pace.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde::Serialize;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep},
};

use super::ledger::Ledger;
use crate::shutdown::Stop;

/// The interval of `story` events.
const PACE: Duration = Duration::from_millis(200);

/// The interval of `state` events.
const STATE: Duration = Duration::from_secs(1);

/// A client of the event stream.
pub(super) struct Reader<S> {
    pub(super) ledger: Arc<Ledger>,
    /// Returns the state as JSON.
    pub(super) state: S,
    /// The number of the next line.
    pub(super) next: u64,
    pub(super) stop: Stop,
    /// Limits the number of readers.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl<S: Fn() -> Bytes + Send + 'static> Reader<S> {
    /// Returns the stream, which ends when the manager stops. Events are created only after the reader has taken the
    /// previous ones.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold((self, None::<Instant>), |(mut reader, told)| async move {
            let mut told = told;
            loop {
                // The first event is sent at once.
                if told.is_some() {
                    tokio::select! {
                        biased;
                        () = reader.stop.requested() => return None,
                        () = sleep(PACE) => {}
                    }
                }
                let mut events = Vec::new();
                if told.is_none_or(|told| told.elapsed() >= STATE) {
                    told = Some(Instant::now());
                    event(&mut events, "state", None, &(reader.state)());
                }
                if let Some((chapter, next)) = reader.ledger.since(reader.next) {
                    reader.next = next;
                    event(&mut events, "story", Some((reader.ledger.started().0, next)), &json(&chapter));
                }
                if !events.is_empty() {
                    return Some((Ok(events.into()), (reader, told)));
                }
            }
        })
    }
}

/// Returns the next line for a reader that reconnects: the line after its last one if the ID belongs to this ledger,
/// otherwise 0.
pub(super) fn resume(last_event_id: &str, started: i64) -> u64 {
    let place =
        last_event_id.split_once('-').and_then(|(of, next)| Some((of.parse::<i64>().ok()?, next.parse().ok()?)));
    place.filter(|(of, _)| *of == started).map_or(0, |(_, next)| next)
}

/// Appends an event. JSON contains no line breaks, so the data is one line.
fn event(events: &mut Vec<u8>, name: &str, id: Option<(i64, u64)>, data: &[u8]) {
    if let Some((started, next)) = id {
        events.extend_from_slice(format!("id: {started}-{next}\n").as_bytes());
    }
    events.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    events.extend_from_slice(data);
    events.extend_from_slice(b"\n\n");
}

/// Encodes a value. The values consist of numbers, texts and lists, so encoding cannot fail.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_reader_resumes_within_one_process() {
        assert_eq!([resume("1700-42", 1700), resume("1699-42", 1700), resume("x", 1700), resume("", 0)], [42, 0, 0, 0]);
    }
}
