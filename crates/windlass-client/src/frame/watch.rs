//! A watch: one event per line, `{"type":"ADDED","object":{…}}`.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_api::{EventType, RawEvent};

use super::FrameError;

/// Cuts a watch into events.
#[derive(Debug)]
pub(crate) struct WatchDecoder {
    /// What is left of the last chunk.
    chunk: Bytes,
    /// The start of a line that goes on in the next chunk. Holds no newline.
    line: BytesMut,
    limit: usize,
}

impl WatchDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { chunk: Bytes::new(), line: BytesMut::new(), limit }
    }

    /// Adds a chunk. [`Self::next_event`] must have returned `None` before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "events are taken before more comes in");
        self.chunk = chunk;
    }

    /// The next event; `None` when it is not whole yet.
    pub(crate) fn next_event(&mut self) -> Result<Option<RawEvent>, FrameError> {
        while let Some(end) = memchr::memchr(b'\n', &self.chunk) {
            let rest = self.chunk.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.chunk, rest);
            line.truncate(end);
            if !self.line.is_empty() {
                self.keep(&line)?;
                line = self.line.split().freeze();
            }
            if line.len() > self.limit {
                return Err(FrameError::TooLarge { limit: self.limit });
            }
            if !line.trim_ascii().is_empty() {
                return event(&line).map(Some);
            }
        }
        let rest = std::mem::take(&mut self.chunk);
        self.keep(&rest)?;
        Ok(None)
    }

    /// The stream has ended. A last event without a newline counts if it is whole.
    pub(crate) fn finish(&mut self) -> Result<Option<RawEvent>, FrameError> {
        let line = self.line.split().freeze();
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        careful_event(&line).map(Some).map_err(|_| FrameError::Truncated { within: "an event" })
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(FrameError::TooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

fn event(line: &Bytes) -> Result<RawEvent, FrameError> {
    match usual_event(line) {
        Some(event) => Ok(event),
        None => careful_event(line),
    }
}

/// The layout that servers written in Go always send: type, then object, then nothing. The object is what stands
/// between, unseen.
fn usual_event(line: &Bytes) -> Option<RawEvent> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (event_type, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
    let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
    if !(object.starts_with(b"{") && object.ends_with(b"}")) {
        return None;
    }
    Some(RawEvent { event_type: event_type_of(event_type)?, body: line.slice_ref(object) })
}

/// Any layout: the line is parsed, the object in it only walked over.
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

fn event_type_of(text: &[u8]) -> Option<EventType> {
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
    fn a_stream_that_ends_anywhere_gives_its_whole_events_or_an_error() {
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
    fn what_is_no_event_is_an_error() {
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

    #[test]
    fn a_line_beyond_the_limit_is_refused_before_it_is_held() {
        let long = vec![b'x'; 600];
        let error = decode(&[&long, &long]).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { limit: 1024 }), "{error}");
        let line = [&*long, &*long, b"\n"].concat();
        assert!(matches!(decode(&[&line]).unwrap_err(), FrameError::TooLarge { .. }));
    }
}
