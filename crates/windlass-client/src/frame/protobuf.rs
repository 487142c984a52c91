//! Lists and watches in protobuf.
//!
//! A watch is a sequence of frames: a length of four bytes, and a message `WatchEvent`, whose object has an envelope. A
//! list is one envelope. Its items have none; each gets one, so that its bytes name their encoding and kind.

use bytes::{Bytes, BytesMut};
use windlass_api::{EventType, ListMeta, Place, RawEvent};
use windlass_protobuf::{Error, FieldHeader, MessageType, WatchEvent, envelope_start};

use super::{FrameError, Skipped, watch::event_type_of};

/// The maximum size of a list without its items. Real ones have a few hundred bytes, mostly a continue token.
const ENVELOPE_LIMIT: usize = 1 << 20;

/// The maximum size of the kind of a list, which is copied for each item.
const TYPES_LIMIT: usize = 1 << 10;

/// The maximum memory that is reserved for bytes that have not arrived.
const RESERVED: usize = 64 << 10;

/// The longest start of a field, or of a frame.
const HEADER: usize = 20;

/// The bytes that start each value.
const PREFIX: &[u8] = b"k8s\0";

/// The numbers of fields of `runtime.Unknown`, and of its `TypeMeta`.
const TYPE_META: u32 = 1;
const RAW: u32 = 2;
const API_VERSION: u32 = 1;
const KIND: u32 = 2;

/// The numbers of fields of each list.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

/// The bytes that were received and not used.
#[derive(Debug, Default)]
struct Window {
    /// The start, which arrived in earlier chunks.
    held: BytesMut,
    /// The unread part of the last chunk.
    chunk: Bytes,
}

/// Splits a watch into events.
#[derive(Debug)]
pub(crate) struct ProtobufWatchDecoder {
    window: Window,
    state: WatchState,
    /// The number of events so far.
    events: u64,
    limit: usize,
}

#[derive(Debug)]
enum WatchState {
    /// Before the length of a frame.
    Length,
    /// Within a frame of this length.
    Frame(usize),
    /// Within a frame above the size limit, of which this many bytes are left.
    Skip(u64, Skipped),
}

/// Splits a list into its items and its metadata.
#[derive(Debug)]
pub(crate) struct ProtobufListDecoder {
    window: Window,
    state: ListState,
    /// API version and kind of the items.
    types: Option<(String, String)>,
    /// The fields of the list except for its items.
    envelope: Vec<u8>,
    /// The number of bytes of the list's message that were not used; `None` before the message.
    left: Option<u64>,
    /// The number of items started so far.
    items: u64,
    limit: usize,
}

#[derive(Debug)]
enum ListState {
    /// Before the prefix.
    Start,
    /// Before a field of the envelope or, if it has started, of the list.
    Field,
    /// Within the types of the envelope.
    Types(usize),
    /// Within a field of the list that is kept. Its header is already in `envelope`.
    Kept(usize),
    /// Within a field that is not used, of which this many bytes are left.
    Ignored(u64),
    Item(usize),
    /// Within an item above the size limit, of which this many bytes are left.
    Skip(u64, Skipped),
}

// === impl Window ===

impl Window {
    fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "the last chunk must be used before the next one");
        self.chunk = chunk;
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.chunk.is_empty()
    }

    /// Returns the first bytes, up to the length of a header.
    fn start(&self) -> ([u8; HEADER], usize) {
        let mut start = [0; HEADER];
        let held = self.held.len().min(HEADER);
        start[..held].copy_from_slice(&self.held[..held]);
        let more = self.chunk.len().min(HEADER - held);
        start[held..held + more].copy_from_slice(&self.chunk[..more]);
        (start, held + more)
    }

    /// Drops up to this many bytes. Returns the number of those that have not arrived.
    fn drop_bytes(&mut self, count: u64) -> u64 {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let held = self.held.len().min(count);
        drop(self.held.split_to(held));
        let more = self.chunk.len().min(count - held);
        drop(self.chunk.split_to(more));
        (count - held - more) as u64
    }

    /// Returns this many bytes; `None`, after keeping all, if they have not arrived.
    fn take(&mut self, count: usize) -> Option<Bytes> {
        if self.held.is_empty() && self.chunk.len() >= count {
            return Some(self.chunk.split_to(count));
        }
        let missing = count.saturating_sub(self.held.len());
        // At once, because a buffer that grows with each chunk is copied. An announced size is not trusted beyond this.
        self.held.reserve(missing.min(RESERVED));
        let more = self.chunk.split_to(missing.min(self.chunk.len()));
        self.held.extend_from_slice(&more);
        (self.held.len() >= count).then(|| self.held.split_to(count).freeze())
    }

    /// Returns the header of the next field; `None`, after keeping all, if it has not arrived.
    fn header(&mut self, message: &'static str) -> Result<Option<FieldHeader>, FrameError> {
        let (start, length) = self.start();
        let header = FieldHeader::read(message, &start[..length]).map_err(malformed(message))?;
        if header.is_none() {
            self.hold();
        }
        Ok(header)
    }

    /// Keeps the rest of the chunk, which is the start of a header.
    fn hold(&mut self) {
        self.held.extend_from_slice(&std::mem::take(&mut self.chunk));
    }
}

fn malformed(what: &'static str) -> impl Fn(Error) -> FrameError {
    move |source| FrameError::Protobuf { what, source }
}

// === impl ProtobufWatchDecoder ===

impl ProtobufWatchDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { window: Window::default(), state: WatchState::Length, events: 0, limit }
    }

    /// Adds a chunk. [`Self::next_event`] must have returned `None` before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.window.push(chunk);
    }

    /// Returns the next event; `None` if it is incomplete. [`FrameError::Oversize`] stands for one event, and others
    /// follow it.
    pub(crate) fn next_event(&mut self) -> Result<Option<RawEvent>, FrameError> {
        loop {
            match std::mem::replace(&mut self.state, WatchState::Length) {
                WatchState::Length => {
                    let ([a, b, c, d, ..], 4..) = self.window.start() else {
                        self.window.hold();
                        return Ok(None);
                    };
                    self.window.drop_bytes(4);
                    self.state = WatchState::Frame(u32::from_be_bytes([a, b, c, d]) as usize);
                }
                WatchState::Frame(length) => {
                    let Some(frame) = self.window.take(length.min(self.limit)) else {
                        self.state = WatchState::Frame(length);
                        return Ok(None);
                    };
                    self.events += 1;
                    if length <= self.limit {
                        return event(&frame).map(Some);
                    }
                    let skipped = self.begin_skip(&frame, length)?;
                    self.state = WatchState::Skip((length - self.limit) as u64, skipped);
                }
                WatchState::Skip(left, skipped) => {
                    let left = self.window.drop_bytes(left);
                    if left == 0 {
                        return Err(skipped.end(self.limit));
                    }
                    self.state = WatchState::Skip(left, skipped);
                    return Ok(None);
                }
            }
        }
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self) -> Result<Option<RawEvent>, FrameError> {
        if matches!(self.state, WatchState::Length) && self.window.is_empty() {
            return Ok(None);
        }
        Err(FrameError::Truncated { within: "an event" })
    }

    /// Skips a frame. Only events that change an object are skipped; any other frame of this size is an error.
    fn begin_skip(&self, start: &Bytes, length: usize) -> Result<Skipped, FrameError> {
        let event = WatchEvent::read(start).map_err(malformed("a watch event"))?;
        let event_type = event_type_of(event.event_type.as_bytes())
            .filter(|event_type| !matches!(event_type, EventType::Bookmark | EventType::Error))
            .ok_or(FrameError::TooLarge { what: "a frame that is no change of an object", limit: self.limit })?;
        let (place, meta) = (Place::Event(self.events, event_type), windlass_protobuf::meta(event.object));
        Ok(Skipped { place, meta, size: length as u64 })
    }
}

fn event(frame: &Bytes) -> Result<RawEvent, FrameError> {
    let event = WatchEvent::read(frame).map_err(malformed("a watch event"))?;
    let event_type = event_type_of(event.event_type.as_bytes())
        .ok_or_else(|| FrameError::unexpected("a type of watch event", event.event_type.as_bytes()))?;
    if !windlass_protobuf::is_protobuf(event.object) {
        return Err(FrameError::unexpected("an object in a watch event", event.object));
    }
    Ok(RawEvent { event_type, body: frame.slice_ref(event.object) })
}

// === impl ProtobufListDecoder ===

impl ProtobufListDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            window: Window::default(),
            state: ListState::Start,
            types: None,
            envelope: Vec::new(),
            left: None,
            items: 0,
            limit,
        }
    }

    /// Adds a chunk. [`Self::next_item`] must have returned `None` before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.window.push(chunk);
    }

    /// Returns the next item with an envelope; `None` if more data is needed. [`FrameError::Oversize`] stands for one
    /// item, and others follow it.
    pub(crate) fn next_item(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            match std::mem::replace(&mut self.state, ListState::Field) {
                ListState::Start => {
                    let Some(prefix) = self.window.take(PREFIX.len()) else {
                        self.state = ListState::Start;
                        return Ok(None);
                    };
                    if prefix != PREFIX {
                        return Err(FrameError::unexpected("a list in protobuf", &prefix));
                    }
                }
                ListState::Field => match self.window.header("a list")? {
                    None => return Ok(None),
                    Some(header) => self.field(header)?,
                },
                ListState::Types(length) => match self.window.take(length) {
                    None => {
                        self.state = ListState::Types(length);
                        return Ok(None);
                    }
                    Some(types) => self.types = Some(types_of(&types)?),
                },
                ListState::Kept(length) => match self.window.take(length) {
                    None => {
                        self.state = ListState::Kept(length);
                        return Ok(None);
                    }
                    Some(content) => self.envelope.extend_from_slice(&content),
                },
                ListState::Ignored(left) => {
                    let left = self.window.drop_bytes(left);
                    if left > 0 {
                        self.state = ListState::Ignored(left);
                        return Ok(None);
                    }
                }
                ListState::Item(length) => {
                    let Some(item) = self.window.take(length.min(self.limit)) else {
                        self.state = ListState::Item(length);
                        return Ok(None);
                    };
                    self.items += 1;
                    if length <= self.limit {
                        return Ok(Some(self.enveloped(&item, length).freeze()));
                    }
                    let meta = windlass_protobuf::meta(&self.enveloped(&item, length));
                    let skipped = Skipped { place: Place::Item(self.items), meta, size: length as u64 };
                    self.state = ListState::Skip((length - self.limit) as u64, skipped);
                }
                ListState::Skip(left, skipped) => {
                    let left = self.window.drop_bytes(left);
                    if left == 0 {
                        return Err(skipped.end(self.limit));
                    }
                    self.state = ListState::Skip(left, skipped);
                    return Ok(None);
                }
            }
        }
    }

    /// Ends the stream. Returns the list's metadata, or an error if the list is incomplete.
    pub(crate) fn finish(&mut self) -> Result<ListMeta, FrameError> {
        let is_complete = matches!(self.state, ListState::Field) && self.window.is_empty() && self.left == Some(0);
        if !is_complete {
            return Err(FrameError::Truncated { within: "a list" });
        }
        #[derive(serde::Deserialize)]
        struct Document {
            metadata: Option<ListMeta>,
        }
        // All lists have the same metadata.
        let ty = MessageType::of("v1", "PodList").ok_or(FrameError::Truncated { within: "a list" })?;
        let document: Document = ty.deserialize(&self.envelope).map_err(malformed("a list without its items"))?;
        Ok(document.metadata.unwrap_or_default())
    }

    /// Begins a field of the envelope or of the list.
    fn field(&mut self, header: FieldHeader) -> Result<(), FrameError> {
        let too_large = || FrameError::TooLarge { what: "a list without its items", limit: ENVELOPE_LIMIT };
        let within = |length: u64, limit| usize::try_from(length).ok().filter(|length| *length <= limit);
        let types_too_large = || FrameError::TooLarge { what: "the kind of a list", limit: TYPES_LIMIT };
        let (start, _) = self.window.start();
        self.window.drop_bytes(header.size as u64);
        let Some(left) = self.left.filter(|left| *left > 0) else {
            self.state = match header.number {
                TYPE_META if header.is_bytes && self.left.is_none() => {
                    ListState::Types(within(header.length, TYPES_LIMIT).ok_or_else(types_too_large)?)
                }
                RAW if header.is_bytes && self.left.is_none() => {
                    if self.types.is_none() {
                        return Err(FrameError::unexpected("the kind of a list", b""));
                    }
                    self.left = Some(header.length);
                    return Ok(());
                }
                RAW | TYPE_META => return Err(FrameError::unexpected("one list", &start[..header.size])),
                _ => ListState::Ignored(header.length),
            };
            return Ok(());
        };
        let size = header.length.saturating_add(header.size as u64);
        let rest = left.checked_sub(size).ok_or(FrameError::Truncated { within: "a list" })?;
        self.left = Some(rest);
        self.state = match header.number {
            ITEMS if header.is_bytes => ListState::Item(usize::try_from(header.length).unwrap_or(usize::MAX)),
            METADATA if header.is_bytes => {
                if self.envelope.len() > ENVELOPE_LIMIT {
                    return Err(too_large());
                }
                self.envelope.extend_from_slice(&start[..header.size]);
                ListState::Kept(within(header.length, ENVELOPE_LIMIT).ok_or_else(too_large)?)
            }
            _ => ListState::Ignored(header.length),
        };
        Ok(())
    }

    /// Returns an item, or its start, with an envelope for an item of this length.
    fn enveloped(&self, item: &[u8], length: usize) -> BytesMut {
        let (api_version, kind) = self.types.as_ref().map_or(("", ""), |(version, kind)| (version, kind));
        let start = envelope_start(api_version, kind, length);
        let mut value = BytesMut::with_capacity(start.len() + item.len());
        value.extend_from_slice(&start);
        value.extend_from_slice(item);
        value
    }
}

/// Returns API version and kind of the items of a list.
fn types_of(types: &[u8]) -> Result<(String, String), FrameError> {
    let (mut version, mut kind) = (String::new(), String::new());
    let mut rest = types;
    while !rest.is_empty() {
        let incomplete = FrameError::Truncated { within: "the kind of a list" };
        let Some(header) = FieldHeader::read("TypeMeta", rest).map_err(malformed("the kind of a list"))? else {
            return Err(incomplete);
        };
        let end = usize::try_from(header.length).unwrap_or(usize::MAX).saturating_add(header.size);
        let Some(content) = rest.get(header.size..end) else { return Err(incomplete) };
        let text = || String::from_utf8_lossy(content).into_owned();
        match header.number {
            API_VERSION => version = text(),
            KIND => kind = text(),
            _ => {}
        }
        rest = &rest[end..];
    }
    match kind.strip_suffix("List") {
        Some(item) => Ok((version, item.to_owned())),
        None => Err(FrameError::unexpected("a list", kind.as_bytes())),
    }
}

#[cfg(test)]
#[path = "protobuf/tests.rs"]
mod tests;
