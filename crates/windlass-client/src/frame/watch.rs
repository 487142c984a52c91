//! Watches: one event per line, `{"type":"ADDED","object":{…}}`.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_api::{EventType, Meta, Place, RawEvent};

use super::{FrameError, Skipped};

/// Splits a watch into events.
#[derive(Debug)]
pub(crate) struct WatchDecoder {
    /// The unread part of the last chunk.
    chunk: Bytes,
    /// The start of a line that continues in the next chunk. Contains no newline.
    line: BytesMut,
    /// The number of events so far.
    events: u64,
    /// `Some` while a line above the size limit is being skipped.
    skipped: Option<Skipped>,
    limit: usize,
}

impl WatchDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { chunk: Bytes::new(), line: BytesMut::new(), events: 0, skipped: None, limit }
    }

    /// Adds a chunk. [`Self::next_event`] must have returned `None` before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "all events must be taken before the next chunk");
        self.chunk = chunk;
    }

    /// Returns the next event; `None` if it is incomplete. [`FrameError::Oversize`] stands for one event, and others
    /// follow it.
    pub(crate) fn next_event(&mut self) -> Result<Option<RawEvent>, FrameError> {
        while let Some(end) = memchr::memchr(b'\n', &self.chunk) {
            let rest = self.chunk.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.chunk, rest);
            line.truncate(end);
            if self.skipped.is_some() || self.line.len() + line.len() > self.limit {
                self.skip(&line)?;
                if let Some(skipped) = self.skipped.take() {
                    return Err(skipped.end(self.limit));
                }
            }
            if !self.line.is_empty() {
                self.line.extend_from_slice(&line);
                line = self.line.split().freeze();
            }
            if !line.trim_ascii().is_empty() {
                self.events += 1;
                return event(&line).map(Some);
            }
        }
        let rest = std::mem::take(&mut self.chunk);
        if self.skipped.is_some() || self.line.len() + rest.len() > self.limit {
            self.skip(&rest)?;
        } else {
            self.line.extend_from_slice(&rest);
        }
        Ok(None)
    }

    /// Ends the stream. Returns a last event without a newline, if it is complete.
    pub(crate) fn finish(&mut self) -> Result<Option<RawEvent>, FrameError> {
        if self.skipped.is_some() {
            return Err(FrameError::Truncated { within: "an event" });
        }
        let line = self.line.split().freeze();
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        careful_event(&line).map(Some).map_err(|_| FrameError::Truncated { within: "an event" })
    }

    /// Skips the line, which continues with `part`. Only events that change an object are skipped; any other line of
    /// this size is an error.
    fn skip(&mut self, part: &[u8]) -> Result<(), FrameError> {
        let mut skipped = match self.skipped.take() {
            Some(skipped) => skipped,
            None => self.begin_skip(part)?,
        };
        skipped.more(part);
        self.skipped = Some(skipped);
        Ok(())
    }

    fn begin_skip(&mut self, part: &[u8]) -> Result<Skipped, FrameError> {
        let mut start = std::mem::take(&mut self.line);
        let held = start.len();
        start.extend_from_slice(&part[..self.limit - held]);
        let (event_type, object) = usual_start(&start)
            .filter(|(event_type, _)| !matches!(event_type, EventType::Bookmark | EventType::Error))
            .ok_or(FrameError::TooLarge { what: "a line that is no change of an object", limit: self.limit })?;
        self.events += 1;
        let (place, meta) = (Place::Event(self.events, event_type), Meta::parse_start(object));
        Ok(Skipped { place, meta, size: held as u64 })
    }
}

fn event(line: &Bytes) -> Result<RawEvent, FrameError> {
    match usual_event(line) {
        Some(event) => Ok(event),
        None => careful_event(line),
    }
}

/// Parses the layout that Go servers always send: the type, the object, and nothing else. The object is not parsed.
fn usual_event(line: &Bytes) -> Option<RawEvent> {
    let (event_type, object) = usual_start(line)?;
    let object = object.strip_suffix(b"}").filter(|object| object.ends_with(b"}"))?;
    Some(RawEvent { event_type, body: line.slice_ref(object) })
}

/// Returns the type, and the rest of the line from the object on.
fn usual_start(line: &[u8]) -> Option<(EventType, &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (event_type, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
    let object = rest.strip_prefix(br#"","object":"#)?;
    Some((event_type_of(event_type)?, object.starts_with(b"{").then_some(object)?))
}

/// Parses any layout. The object is only scanned.
fn careful_event(line: &Bytes) -> Result<RawEvent, FrameError> {
    #[derive(Deserialize)]
    struct Event<'l> {
        #[serde(rename = "type", borrow)]
        event_type: Cow<'l, str>,
        #[serde(borrow)]
        object: &'l RawValue,
    }
    let event: Event<'_> =
        serde_json::from_slice(line).map_err(|source| FrameError::Json { what: "a watch event", source })?;
    let object = event.object.get().as_bytes();
    if !object.starts_with(b"{") {
        return Err(FrameError::unexpected("an object in a watch event", object));
    }
    let event_type = event_type_of(event.event_type.as_bytes())
        .ok_or_else(|| FrameError::unexpected("a type of watch event", event.event_type.as_bytes()))?;
    Ok(RawEvent { event_type, body: line.slice_ref(object) })
}

pub(super) fn event_type_of(text: &[u8]) -> Option<EventType> {
    Some(match text {
        b"ADDED" => EventType::Added,
        b"MODIFIED" => EventType::Modified,
        b"DELETED" => EventType::Deleted,
        b"BOOKMARK" => EventType::Bookmark,
        b"ERROR" => EventType::Error,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = concat!(
        r#"{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","annotations":{"x":"line\nbreak } \"quoted\""}}}}"#,
        "\n",
        r#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"ä"}}}"#,
        "\n\n",
        r#" { "object" : {"kind":"Pod","metadata":{"name":"b"}} , "type" : "DEL\u0045TED", "more": {} } "#,
        "\r\n",
        r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#,
        "\n",
    );

    fn decode(chunks: &[&[u8]]) -> Result<Vec<RawEvent>, FrameError> {
        let mut decoder = WatchDecoder::new(1 << 10);
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = decoder.next_event()? {
                events.push(event);
            }
        }
        events.extend(decoder.finish()?);
        Ok(events)
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_same_events() {
        let whole = decode(&[RECORDED.as_bytes()]).unwrap();
        let types: Vec<_> = whole.iter().map(|event| event.event_type).collect();
        assert_eq!(
            types,
            [EventType::Added, EventType::Modified, EventType::Deleted, EventType::Bookmark, EventType::Error]
        );
        assert_eq!(whole[2].body, r#"{"kind":"Pod","metadata":{"name":"b"}}"#);
        for first in 0..RECORDED.len() {
            for second in [first, (first + 7).min(RECORDED.len()), RECORDED.len()] {
                let bytes = RECORDED.as_bytes();
                let events = decode(&[&bytes[..first], &bytes[first..second], &bytes[second..]]).unwrap();
                assert_eq!(events, whole, "cut at {first} and {second}");
            }
        }
        let single: Vec<&[u8]> = RECORDED.as_bytes().chunks(1).collect();
        assert_eq!(decode(&single).unwrap(), whole);
    }

    #[test]
    fn truncated_stream_gives_whole_events_or_an_error() {
        let whole = decode(&[RECORDED.as_bytes()]).unwrap();
        let bytes = RECORDED.as_bytes();
        for end in 0..bytes.len() {
            let line = bytes[..end].rsplit(|&byte| byte == b'\n').next().unwrap().trim_ascii();
            match decode(&[&bytes[..end]]) {
                Ok(events) => {
                    assert_eq!(events, whole[..events.len()], "end at {end}");
                    assert!(line.is_empty() || line.ends_with(b"}"), "silent end at {end}");
                }
                Err(error) => assert!(matches!(error, FrameError::Truncated { .. }), "{end}: {error}"),
            }
        }
    }

    #[test]
    fn an_event_within_one_chunk_is_a_slice_of_it() {
        let chunk = Bytes::from_static(RECORDED.as_bytes());
        let mut decoder = WatchDecoder::new(1 << 10);
        decoder.push(chunk.clone());
        let body = decoder.next_event().unwrap().unwrap().body;
        let within = chunk.as_ptr_range();
        assert!(within.contains(&body.as_ptr()));
    }

    #[test]
    fn frame_without_an_event_is_an_error() {
        for garbage in [
            "<html>\n",
            "{}\n",
            "[]\n",
            "{\"type\":\"ADDED\"}\n",
            "{\"type\":\"NEWS\",\"object\":{}}\n",
            "{\"type\":\"ADDED\",\"object\":null}\n",
            "{\"type\":\"ADDED\",\"object\":[]}\n",
            "{\"type\":\"ADDED\",\"object\":{}\n",
            "{\"type\":\"ADDED\",\"object\":{}}}\n{\"type\"\n",
            "\0\n",
        ] {
            let outcome = decode(&[garbage.as_bytes()]);
            assert!(outcome.is_err(), "{garbage}: {outcome:?}");
        }
    }

    /// Returns an event with an object of this size.
    fn event_of(event_type: &str, name: &str, len: usize) -> String {
        let metadata = format!(r#"{{"name":"{name}","uid":"u","resourceVersion":"7"}}"#);
        let object = format!(r#"{{"kind":"Pod","metadata":{metadata},"x":"{}"}}"#, "x".repeat(len));
        format!("{{\"type\":\"{event_type}\",\"object\":{object}}}\n")
    }

    #[test]
    fn oversized_event_is_skipped_and_named_at_any_cut() {
        let large = event_of("MODIFIED", "b", 2_000);
        let stream = [&event_of("ADDED", "a", 0), &*large, &event_of("DELETED", "c", 0)].concat();
        for first in 0..stream.len() {
            let mut decoder = WatchDecoder::new(1 << 10);
            let (mut events, mut errors, mut most) = (Vec::new(), Vec::new(), 0);
            for chunk in [&stream[..first], &stream[first..]].iter().flat_map(|part| part.as_bytes().chunks(600)) {
                decoder.push(Bytes::copy_from_slice(chunk));
                loop {
                    match decoder.next_event() {
                        Ok(Some(event)) => events.push(event.event_type),
                        Ok(None) => break,
                        Err(FrameError::Oversize(oversize)) => errors.push(*oversize),
                        Err(error) => panic!("{error}"),
                    }
                }
                most = most.max(decoder.line.len());
            }
            assert_eq!(events, [EventType::Added, EventType::Deleted], "{first}");
            let [error] = &errors[..] else { panic!("{errors:?}") };
            let (name, size) = (error.meta.as_ref().map(|meta| &**meta.name()), error.size);
            assert_eq!((error.place, name), (Place::Event(2, EventType::Modified), Some("b")));
            assert_eq!((size, error.limit), (large.len() as u64 - 1, 1 << 10));
            assert!(most <= 1 << 10);
            assert!(decoder.finish().unwrap().is_none());
        }
    }

    #[test]
    fn watch_ending_in_skipped_data_is_truncated() {
        let large = event_of("ADDED", "b", 2_000);
        assert!(matches!(decode(&[large.trim_end().as_bytes()]).unwrap_err(), FrameError::Truncated { .. }));
    }

    #[test]
    fn oversized_non_object_line_is_rejected_early() {
        let long = vec![b'x'; 600];
        let garbage = [&*long, &*long, b"\n"].concat();
        for line in [&*garbage, event_of("ERROR", "e", 2_000).as_bytes(), event_of("BOOKMARK", "e", 2_000).as_bytes()] {
            for chunk in [600, line.len()] {
                let error = decode(&line.chunks(chunk).collect::<Vec<_>>()).unwrap_err();
                assert!(matches!(error, FrameError::TooLarge { limit: 1024, .. }), "{error}");
            }
        }
    }
}
