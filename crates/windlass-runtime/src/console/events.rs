//! The stream of a reader: server-sent events, at the reader's pace.

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

/// How often a reader is told the story.
const PACE: Duration = Duration::from_millis(200);

/// How often a reader is told the state.
const STATE: Duration = Duration::from_secs(1);

/// Who reads.
pub(super) struct Reader<S> {
    pub(super) ledger: Arc<Ledger>,
    /// Makes the state, as JSON.
    pub(super) state: S,
    /// The number of the next line.
    pub(super) next: u64,
    pub(super) stop: Stop,
    /// There are only so many.
    pub(super) _permit: OwnedSemaphorePermit,
}

impl<S: Fn() -> Bytes + Send + 'static> Reader<S> {
    /// Ends when the manager stops. Nothing is made for a reader that does not take what was made before.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        stream::unfold((self, None::<Instant>), |(mut reader, told)| async move {
            let mut told = told;
            loop {
                // The first event is there at once.
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

/// Where a reader that was cut off goes on: at the line after what it has, if that was of this ledger.
pub(super) fn resume(last_event_id: &str, started: i64) -> u64 {
    let place =
        last_event_id.split_once('-').and_then(|(of, next)| Some((of.parse::<i64>().ok()?, next.parse().ok()?)));
    place.filter(|(of, _)| *of == started).map_or(0, |(_, next)| next)
}

/// JSON has no line breaks of its own, so that it is one line of data.
fn event(events: &mut Vec<u8>, name: &str, id: Option<(i64, u64)>, data: &[u8]) {
    if let Some((started, next)) = id {
        events.extend_from_slice(format!("id: {started}-{next}\n").as_bytes());
    }
    events.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    events.extend_from_slice(data);
    events.extend_from_slice(b"\n\n");
}

/// What is told is made of numbers, texts and lists.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_on_after_what_it_has_unless_the_process_is_another() {
        assert_eq!([resume("1700-42", 1700), resume("1699-42", 1700), resume("x", 1700), resume("", 0)], [42, 0, 0, 0]);
    }
}
