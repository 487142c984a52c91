//! Lists: `{"kind":"PodList","metadata":{…},"items":[{…},…]}`, with fields in any order.
//!
//! Items are cut out as they arrive. The rest, the envelope, is buffered. Without the items, it is a small JSON
//! document, which is parsed when it is complete.

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use windlass_api::{ListMeta, Meta, Place, Skipper};

use super::{FrameError, Skipped};

/// The maximum size of the envelope. Real ones have a few hundred bytes, mostly a continue token.
const ENVELOPE_LIMIT: usize = 1 << 20;

/// Splits a list into its items and its metadata.
#[derive(Debug)]
pub(crate) struct ListDecoder {
    /// The unread part of the last chunk.
    chunk: Bytes,
    state: State,
    /// Everything received so far except items.
    envelope: Vec<u8>,
    /// The start of an item that continues in the next chunk.
    item: BytesMut,
    /// The scanner's state within an item.
    skipper: Skipper,
    /// The number of items started so far.
    items: u64,
    /// `Some` while an item above the size limit is being skipped.
    skipped: Option<Skipped>,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first brace.
    Start,
    /// Outside of the items. The next state is `Items` at the bracket after the key `items`, or `Complete` at the last
    /// brace.
    Envelope(Envelope),
    /// Between items. The next state is `Item` at a brace, or `Envelope` at the closing bracket.
    Items(Expect),
    /// Within an item, which starts at the start of the chunk or in `item`, or which is being skipped. The state ends
    /// at its closing brace.
    Item,
    /// After the last brace: only white space may follow.
    Complete,
}

/// The position in the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Envelope {
    /// The number of open brackets; 1 at the level of `items`.
    depth: u32,
    text: Text,
    /// The meaning of the next string or value at level 1.
    next: Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Key,
    /// Within a key that starts at this offset of the envelope.
    KeyFrom(usize),
    /// The value of `items`.
    Items,
    /// Any other value.
    Value,
}

/// The tokens that are valid between items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    ItemOrEnd,
    CommaOrEnd,
    Item,
}

impl ListDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            state: State::Start,
            envelope: Vec::new(),
            item: BytesMut::new(),
            skipper: Skipper::default(),
            items: 0,
            skipped: None,
            limit,
        }
    }

    /// Adds a chunk. [`Self::next_item`] must have returned `None` before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "all items must be taken before the next chunk");
        self.chunk = chunk;
    }

    /// Returns the next item; `None` if more data is needed. [`FrameError::Oversize`] stands for one item, and others
    /// follow it.
    pub(crate) fn next_item(&mut self) -> Result<Option<Bytes>, FrameError> {
        while !self.chunk.is_empty() {
            match self.state {
                State::Start => self.start()?,
                State::Envelope(envelope) => self.envelope(envelope)?,
                State::Items(expect) => self.between(expect)?,
                State::Item => {
                    if let Some(item) = self.item()? {
                        self.state = State::Items(Expect::CommaOrEnd);
                        return Ok(Some(item));
                    }
                }
                State::Complete => {
                    let rest = std::mem::take(&mut self.chunk);
                    if !rest.trim_ascii().is_empty() {
                        return Err(FrameError::unexpected("nothing after the list", rest.trim_ascii()));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Ends the stream. Returns the list's metadata, or an error if the list is incomplete.
    pub(crate) fn finish(&mut self) -> Result<ListMeta, FrameError> {
        #[derive(Deserialize)]
        struct Document {
            metadata: Option<ListMeta>,
            // Every list has this field, even if it is null. A response without it is not a list and must not be
            // mistaken for an empty one.
            #[serde(deserialize_with = "no_items")]
            #[allow(dead_code, reason = "only its presence matters")]
            items: (),
        }
        if self.state != State::Complete {
            return Err(FrameError::Truncated { within: "a list" });
        }
        let document: Document = serde_json::from_slice(&self.envelope)
            .map_err(|source| FrameError::Json { what: "a list without its items", source })?;
        Ok(document.metadata.unwrap_or_default())
    }

    fn start(&mut self) -> Result<(), FrameError> {
        match self.chunk.iter().position(|byte| !byte.is_ascii_whitespace()) {
            None => self.chunk.clear(),
            Some(at) if self.chunk[at] == b'{' => {
                self.chunk = self.chunk.split_off(at + 1);
                self.envelope.push(b'{');
                self.state = State::Envelope(Envelope { depth: 1, text: Text::Outside, next: Next::Key });
            }
            Some(at) => return Err(FrameError::unexpected("a list", &self.chunk[at..])),
        }
        Ok(())
    }

    fn envelope(&mut self, mut at: Envelope) -> Result<(), FrameError> {
        let chunk = std::mem::take(&mut self.chunk);
        for (index, &byte) in chunk.iter().enumerate() {
            if self.envelope.len() >= ENVELOPE_LIMIT {
                return Err(FrameError::TooLarge { what: "a list without its items", limit: ENVELOPE_LIMIT });
            }
            let level = at.depth;
            self.envelope.push(byte);
            match (at.text, byte) {
                (Text::Escaped, _) => at.text = Text::Inside,
                (Text::Inside, b'\\') => at.text = Text::Escaped,
                (Text::Inside, b'"') => {
                    at.text = Text::Outside;
                    if let Next::KeyFrom(start) = at.next {
                        at.next = if is_items(&self.envelope[start..]) { Next::Items } else { Next::Value };
                    }
                }
                (Text::Outside, b'"') => {
                    at.text = Text::Inside;
                    if level == 1 && at.next == Next::Key {
                        at.next = Next::KeyFrom(self.envelope.len() - 1);
                    }
                }
                (Text::Outside, b',') if level == 1 => at.next = Next::Key,
                (Text::Outside, b'[') if level == 1 && at.next == Next::Items => {
                    self.chunk = chunk.slice(index + 1..);
                    self.state = State::Items(Expect::ItemOrEnd);
                    return Ok(());
                }
                (Text::Outside, b'{' | b'[') => at.depth += 1,
                (Text::Outside, b'}' | b']') => {
                    at.depth -= 1;
                    if at.depth == 0 {
                        self.chunk = chunk.slice(index + 1..);
                        self.state = State::Complete;
                        return Ok(());
                    }
                }
                (Text::Inside | Text::Outside, _) => {}
            }
        }
        self.state = State::Envelope(at);
        Ok(())
    }

    fn between(&mut self, expect: Expect) -> Result<(), FrameError> {
        let Some(at) = self.chunk.iter().position(|byte| !byte.is_ascii_whitespace()) else {
            self.chunk.clear();
            return Ok(());
        };
        let mut rest = self.chunk.split_off(at);
        self.state = match (expect, rest[0]) {
            (Expect::ItemOrEnd | Expect::Item, b'{') => {
                self.items += 1;
                State::Item
            }
            (Expect::CommaOrEnd, b',') => {
                rest = rest.split_off(1);
                State::Items(Expect::Item)
            }
            (Expect::ItemOrEnd | Expect::CommaOrEnd, b']') => {
                rest = rest.split_off(1);
                self.envelope.push(b']');
                State::Envelope(Envelope { depth: 1, text: Text::Outside, next: Next::Value })
            }
            (Expect::CommaOrEnd, _) => return Err(FrameError::unexpected("a comma between items", &rest)),
            (Expect::ItemOrEnd | Expect::Item, _) => return Err(FrameError::unexpected("an item of a list", &rest)),
        };
        self.chunk = rest;
        Ok(())
    }

    fn item(&mut self) -> Result<Option<Bytes>, FrameError> {
        let end = self.skipper.advance(&self.chunk);
        let rest = self.chunk.split_off(end.unwrap_or(self.chunk.len()));
        let part = std::mem::replace(&mut self.chunk, rest);
        if self.skipped.is_none() && self.item.len() + part.len() > self.limit {
            self.skip(&part);
        }
        if let Some(mut skipped) = self.skipped.take() {
            skipped.more(&part);
            if end.is_some() {
                self.state = State::Items(Expect::CommaOrEnd);
                return Err(skipped.end(self.limit));
            }
            self.skipped = Some(skipped);
            return Ok(None);
        }
        if end.is_some() && self.item.is_empty() {
            return Ok(Some(part));
        }
        self.item.extend_from_slice(&part);
        Ok(end.map(|_| self.item.split().freeze()))
    }

    /// Starts to skip the item, which continues with `part`.
    fn skip(&mut self, part: &Bytes) {
        let mut start = std::mem::take(&mut self.item);
        let held = start.len();
        start.extend_from_slice(&part[..self.limit - held]);
        let (place, meta) = (Place::Item(self.items), Meta::parse_start(&start));
        self.skipped = Some(Skipped { place, meta, size: held as u64 });
    }
}

/// Reports whether a key, including its quotes, is `items`.
fn is_items(quoted: &[u8]) -> bool {
    quoted == br#""items""#
        || (quoted.contains(&b'\\') && serde_json::from_slice::<String>(quoted).is_ok_and(|key| key == "items"))
}

/// Accepts null, as Go encodes a nil slice, and the empty list that remains after the items are cut out.
fn no_items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    Option::<Vec<IgnoredAny>>::deserialize(deserializer).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str =
        r#"{"metadata":{"name":"a","annotations":{"items":"[{\"items\":[1,2]}]"}},"items":[{"x":"}]\\"}]}"#;

    fn lists() -> Vec<String> {
        let meta = r#""metadata":{"resourceVersion":"42","continue":"c]}","remainingItemCount":7,"items":[0],"shardInfo":{"selector":"s"}}"#;
        let items = format!("\"items\":[{ITEM},\n {{}} ,{ITEM}]");
        vec![
            format!(r#"{{"kind":"PodList","apiVersion":"v1",{meta},{items}}}"#),
            format!(r#"{{ {items} , "kind" : "Pod\"List" , {meta} }}"#) + "\n",
            format!(r#"  {{"annotations":["items",{{"items":[]}}],"it\u0065ms":[{ITEM},{{}},{ITEM}],{meta}}}"#),
        ]
    }

    fn decode(chunks: &[&[u8]]) -> Result<(Vec<Bytes>, ListMeta), FrameError> {
        let mut decoder = ListDecoder::new(1 << 10);
        let mut items = Vec::new();
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = decoder.next_item()? {
                items.push(item);
            }
        }
        Ok((items, decoder.finish()?))
    }

    #[test]
    fn items_and_metadata_are_found_in_any_order() {
        for list in lists() {
            let (items, meta) = decode(&[list.as_bytes()]).unwrap();
            assert_eq!(items, [ITEM, "{}", ITEM], "{list}");
            assert_eq!((meta.resource_version.as_u64(), meta.remaining), (Some(42), Some(7)));
            assert_eq!(meta.continue_token.as_deref(), Some("c]}"));
            assert_eq!(meta.shard.unwrap().selector, "s");
        }
    }

    #[test]
    fn a_list_cut_anywhere_gives_the_same_items() {
        for list in lists() {
            let whole = decode(&[list.as_bytes()]).unwrap();
            let bytes = list.as_bytes();
            for first in 0..bytes.len() {
                for second in [first, (first + 5).min(bytes.len()), bytes.len()] {
                    let cut = decode(&[&bytes[..first], &bytes[first..second], &bytes[second..]]).unwrap();
                    assert_eq!(cut, whole, "cut at {first} and {second}");
                }
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(decode(&single).unwrap(), whole);
        }
    }

    #[test]
    fn truncated_list_is_always_an_error() {
        for list in lists() {
            for end in 0..list.trim_end().len() {
                let error = decode(&[&list.as_bytes()[..end]]).unwrap_err();
                assert!(matches!(error, FrameError::Truncated { .. }), "{end}: {error}");
            }
        }
    }

    #[test]
    fn an_empty_list_is_a_list() {
        for list in [
            r#"{"metadata":{"resourceVersion":"1"},"items":null}"#,
            r#"{"items":[],"metadata":{"resourceVersion":"1"}}"#,
        ] {
            let (items, meta) = decode(&[list.as_bytes()]).unwrap();
            assert!(items.is_empty());
            assert_eq!(meta.resource_version.as_u64(), Some(1));
        }
    }

    #[test]
    fn body_without_a_list_is_an_error() {
        for garbage in [
            "<html></html>",
            "[]",
            "{}",
            r#"{"kind":"Status","code":500}"#,
            r#"{"items":{}}"#,
            r#"{"items":[1]}"#,
            r#"{"items":[null]}"#,
            r#"{"items":[{} {}]}"#,
            r#"{"items":[{},]}"#,
            r#"{"items":[,{}]}"#,
            r#"{"items":[],"items":[{}]}"#,
            r#"{"items":[]} trailing"#,
            r#"{"items":[]}{"items":[]}"#,
            r#"{"items":[],"metadata":[1}]"#,
            r#"{"items" [{}]}"#,
        ] {
            let outcome = decode(&[garbage.as_bytes()]);
            assert!(outcome.is_err(), "{garbage}: {outcome:?}");
        }
    }

    #[test]
    fn an_item_within_one_chunk_is_a_slice_of_it() {
        let chunk = Bytes::from(lists().remove(0));
        let mut decoder = ListDecoder::new(1 << 10);
        decoder.push(chunk.clone());
        let item = decoder.next_item().unwrap().unwrap();
        assert!(chunk.as_ptr_range().contains(&item.as_ptr()));
    }

    #[test]
    fn oversized_item_is_skipped_and_named_at_any_cut() {
        let long =
            format!(r#"{{"metadata":{{"name":"b","uid":"u","resourceVersion":"7"}},"a":"}}{}"}}"#, "x".repeat(2_000));
        let list = format!(r#"{{"items":[{ITEM},{long}, {ITEM}],"metadata":{{"resourceVersion":"9"}}}}"#);
        for first in 0..list.len() {
            let mut decoder = ListDecoder::new(1 << 10);
            let (mut items, mut errors, mut most) = (Vec::new(), Vec::new(), 0);
            for chunk in [&list[..first], &list[first..]].iter().flat_map(|part| part.as_bytes().chunks(600)) {
                decoder.push(Bytes::copy_from_slice(chunk));
                loop {
                    match decoder.next_item() {
                        Ok(Some(item)) => items.push(item),
                        Ok(None) => break,
                        Err(FrameError::Oversize(oversize)) => errors.push(*oversize),
                        Err(error) => panic!("{error}"),
                    }
                }
                most = most.max(decoder.item.len());
            }
            assert_eq!(items, [ITEM, ITEM], "{first}");
            let [error] = &errors[..] else { panic!("{errors:?}") };
            let (name, size) = (error.meta.as_ref().map(|meta| &**meta.name()), error.size);
            assert_eq!((error.place, name, size, error.limit), (Place::Item(2), Some("b"), long.len() as u64, 1 << 10));
            assert!(most <= 1 << 10);
            assert_eq!(decoder.finish().unwrap().resource_version.as_u64(), Some(9));
        }
    }

    #[test]
    fn list_ending_in_skipped_data_is_truncated() {
        let list = format!(r#"{{"items":[{{"a":"{}"#, "x".repeat(2_000));
        assert!(matches!(decode(&[list.as_bytes()]).unwrap_err(), FrameError::Truncated { .. }));
    }

    #[test]
    fn an_envelope_beyond_its_limit_is_refused() {
        let endless = vec![b' '; 2 << 20];
        assert!(matches!(decode(&[b"{", &endless]).unwrap_err(), FrameError::TooLarge { .. }));
    }
}
