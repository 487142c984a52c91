//! Long lists, rendered piece by piece.

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tokio::task;
use windlass_api::Status;
use windlass_cbor::{SELF_DESCRIBED, append_json, append_list, append_map, append_text};

use super::{
    body::{Body, BodyError},
    json::{self, Indenter},
    media::{Encoding, MetaVersion},
    respond::{push_partial, respond},
};
use crate::{
    codec::{ProtobufList, to_yaml, to_yaml_item},
    encoded::Style,
    offload::offload,
    resource::{Item, ListItem},
};

/// The approximate size of the pieces of a long list in bytes.
const PIECE: usize = 64 << 10;

/// The maximum size of the objects in such a piece. In some views an object is much smaller.
const PIECE_OBJECTS: usize = 256 << 10;

/// The number of pieces that are copied before other requests may run.
const COPIED: usize = 4;

/// The number of bytes of a list in protobuf that are kept until they are sent.
const KEPT: usize = 16 << 20;

/// The end of a table; the rows are its last field.
const END_OF_TABLE: &[u8] = b"]}";

/// The bytes before and after the items of a list.
pub(super) struct Frame {
    form: Form,
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// The form of the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
    Cbor,
}

impl Frame {
    /// Creates the frame of a list in JSON.
    pub(super) fn new(kind: &str, api_version: &str, metadata: &Value, style: Style) -> Self {
        let (kind, api_version) = (json::encode(&kind), json::encode(&api_version));
        let metadata = json::encode(metadata);
        let parts: (Vec<&[u8]>, Vec<&[u8]>) = match style {
            Style::BuiltIn => (
                vec![
                    b"{\"kind\":",
                    &kind,
                    b",\"apiVersion\":",
                    &api_version,
                    b",\"metadata\":",
                    &metadata,
                    b",\"items\":[",
                ],
                vec![b"]}\n"],
            ),
            Style::Custom => (
                vec![b"{\"apiVersion\":", &api_version, b",\"items\":["],
                vec![b"],\"kind\":", &kind, b",\"metadata\":", &metadata, b"}\n"],
            ),
        };
        Self { form: Form::Json, head: parts.0.concat(), tail: parts.1.concat() }
    }

    /// Creates the frame of a list in YAML, whose keys are sorted.
    pub(super) fn of_yaml(kind: &str, api_version: &str, metadata: &Value) -> Self {
        let head = to_yaml(&json!({"apiVersion": api_version})) + "items:\n";
        let tail = to_yaml(&json!({"kind": kind, "metadata": metadata}));
        Self { form: Form::Yaml, head: head.into(), tail: tail.into() }
    }

    /// Creates the frame of a list of this length in CBOR.
    pub(super) fn of_cbor(kind: &str, api_version: &str, metadata: &Value, length: usize) -> Result<Self, Status> {
        let mut head = SELF_DESCRIBED.to_vec();
        append_map(4, &mut head);
        for (key, text) in [("kind", kind), ("apiVersion", api_version)] {
            append_text(key, &mut head);
            append_text(text, &mut head);
        }
        append_text("metadata", &mut head);
        append_json(&json::encode(metadata), &mut head).map_err(Status::internal)?;
        append_text("items", &mut head);
        append_list(length, &mut head);
        Ok(Self { form: Form::Cbor, head, tail: Vec::new() })
    }

    /// Creates the frame of a table from a table without rows.
    pub(super) fn of_table(mut none: Vec<u8>) -> Self {
        let tail = none.split_off(none.len().saturating_sub(END_OF_TABLE.len()));
        debug_assert_eq!(tail, END_OF_TABLE, "the rows are the last field");
        Self { form: Form::Json, head: none, tail: [END_OF_TABLE, b"\n"].concat() }
    }
}

/// The pieces of a list, each rendered when it is requested.
pub(super) struct Pieces<R> {
    frame: Frame,
    items: std::vec::IntoIter<ListItem>,
    state: State,
    render: R,
    /// Set if the list is indented.
    indenter: Option<Indenter>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// At least one item has been written.
    Items,
    Done,
}

impl<R: Fn(&Item, &mut Vec<u8>) + Send + 'static> Pieces<R> {
    /// Creates the pieces of a list. `render` appends an item in JSON.
    pub(super) fn new(frame: Frame, items: Vec<ListItem>, render: R) -> Self {
        Self { frame, items: items.into_iter(), state: State::Head, render, indenter: None }
    }

    /// Indents the list if it is JSON.
    #[must_use]
    pub(super) fn indented(self, is_indented: bool) -> Self {
        Self { indenter: is_indented.then(Indenter::default), ..self }
    }

    /// Reports whether the frame is in JSON.
    pub(super) fn is_json(&self) -> bool {
        self.frame.form == Form::Json
    }

    /// Returns a body that is rendered while it is sent: on the threads for long computations, or, if the items are only
    /// copied, in its task.
    pub(super) fn into_body(mut self, is_copied: bool) -> Body {
        if !is_copied {
            // The response begins at once, which frees the seats of the request: other users need not wait for it.
            return Body::fallible(stream::try_unfold(self, |mut pieces| async {
                if pieces.state == State::Done {
                    return Ok(None);
                }
                let (piece, pieces) = offload(move || (pieces.next(), pieces)).await.map_err(BodyError::new)?;
                let piece = piece.transpose().map_err(BodyError::new)?;
                Ok(piece.map(|piece| (piece, pieces)))
            }));
        }
        let first = self.next().unwrap_or_else(|| Ok(Bytes::new()));
        if self.state == State::Done
            && let Ok(only) = &first
        {
            return Body::whole(only.clone());
        }
        let rest = stream::unfold((self, 0), |(mut pieces, copied)| async move {
            if copied == COPIED {
                task::yield_now().await;
            }
            Some((pieces.next()?, (pieces, copied % COPIED + 1)))
        });
        Body::fallible(stream::iter([first]).chain(rest).map(|piece| piece.map_err(BodyError::new)))
    }
}

impl<R: Fn(&Item, &mut Vec<u8>)> Pieces<R> {
    /// Renders the whole list.
    pub(super) fn into_bytes(self) -> Result<Vec<u8>, Status> {
        let mut whole = Vec::new();
        for piece in self {
            whole.extend_from_slice(&piece?);
        }
        Ok(whole)
    }
}

impl<R: Fn(&Item, &mut Vec<u8>)> Iterator for Pieces<R> {
    type Item = Result<Bytes, Status>;

    /// Returns the next piece. After an error, the list is over.
    fn next(&mut self) -> Option<Result<Bytes, Status>> {
        let mut out = Vec::new();
        match self.state {
            State::Done => return None,
            State::Head => out = std::mem::take(&mut self.frame.head),
            State::Items => out.reserve(PIECE + PIECE / 8),
        }
        let mut read = 0;
        while out.len() < PIECE && read < PIECE_OBJECTS {
            let Some(item) = self.items.next() else {
                out.extend_from_slice(&self.frame.tail);
                self.state = State::Done;
                break;
            };
            read += item.len_hint();
            let item = match item.get() {
                Ok(item) => item,
                Err(status) => {
                    self.state = State::Done;
                    return Some(Err(status));
                }
            };
            match self.frame.form {
                Form::Json => {
                    if self.state == State::Items {
                        out.push(b',');
                    }
                    (self.render)(&item, &mut out);
                }
                Form::Cbor => {
                    let mut json = Vec::with_capacity(item.encoded.len_hint());
                    (self.render)(&item, &mut json);
                    if let Err(error) = append_json(&json, &mut out) {
                        self.state = State::Done;
                        return Some(Err(Status::internal(error)));
                    }
                }
                Form::Yaml => {
                    let mut json = Vec::with_capacity(item.encoded.len_hint());
                    (self.render)(&item, &mut json);
                    let value: Value = serde_json::from_slice(&json).expect("the server encoded this JSON");
                    out.extend_from_slice(to_yaml_item(&value).as_bytes());
                }
            }
            self.state = State::Items;
        }
        if let Some(indenter) = &mut self.indenter {
            out = indenter.indent(&out);
        }
        Some(Ok(out.into()))
    }
}

/// A list in protobuf. The encoding starts with the length, so all of it is encoded before the first piece is sent. Only
/// the first [`KEPT`] bytes are kept. The other items are encoded again while they are sent.
pub(super) struct ProtobufPieces {
    /// The list without its items, in JSON.
    head: Vec<u8>,
    encoder: ProtobufItems,
    /// The items that are not encoded yet.
    items: std::vec::IntoIter<ListItem>,
    /// `true` if only the list keeps the items in memory.
    is_loaded: bool,
    /// The maximum of `length` up to which encoded items are kept.
    kept: usize,
    pieces: Vec<Bytes>,
    last: Vec<u8>,
    /// The bytes of `pieces` and of `again`.
    length: usize,
    /// The items that must be encoded again.
    again: Vec<ListItem>,
}

/// The encoder of the items of a list.
#[derive(Clone, Copy)]
struct ProtobufItems {
    kind: ProtobufList,
    /// The version of the metadata in a partial list.
    version: Option<MetaVersion>,
}

/// The end of a list in protobuf, which is encoded while it is sent.
struct ProtobufRest {
    encoder: ProtobufItems,
    items: std::vec::IntoIter<ListItem>,
    /// The announced number of bytes that are not encoded yet.
    left: usize,
    end: &'static [u8],
}

impl ProtobufPieces {
    /// Begins a list with this head. Returns `None` if it has no protobuf message.
    pub(super) fn new(
        head: &Value,
        version: Option<MetaVersion>,
        items: Vec<ListItem>,
        is_loaded: bool,
    ) -> Option<Self> {
        let head = json::encode(head);
        let encoder = ProtobufItems { kind: ProtobufList::of(&head)?, version };
        let (pieces, last, again) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { head, encoder, items: items.into_iter(), is_loaded, kept: KEPT, pieces, last, length: 0, again })
    }

    /// Reports whether all items are encoded.
    pub(super) fn is_complete(&self) -> bool {
        self.items.as_slice().is_empty()
    }

    /// Encodes items of about this number of bytes.
    pub(super) fn push(&mut self, bytes: usize) -> Result<(), Status> {
        let mut read = 0;
        while read < bytes
            && let Some(item) = self.items.next()
        {
            read += item.len_hint();
            self.encoder.push(&item, &mut self.last)?;
            if self.length >= self.kept {
                self.length += self.last.len();
                self.last.clear();
                self.again.push(item);
            } else if self.last.len() >= PIECE {
                self.length += self.last.len();
                self.pieces.push(Bytes::from(std::mem::take(&mut self.last)));
            }
        }
        Ok(())
    }

    /// Encodes the rest, and returns the response.
    pub(super) fn finish(mut self) -> Result<Response<Body>, Status> {
        self.push(usize::MAX)?;
        let length = self.length + self.last.len();
        let (first, end) = ProtobufList::frame(&self.head, length);
        let kept: usize = self.pieces.iter().map(Bytes::len).sum();
        let mut pieces = self.pieces;
        pieces.insert(0, Bytes::from(first));
        let body = if self.again.is_empty() {
            self.last.extend_from_slice(end);
            pieces.push(Bytes::from(self.last));
            Body::pieces(pieces)
        } else {
            let loaded: usize = if self.is_loaded { self.again.iter().map(ListItem::len_hint).sum() } else { 0 };
            let held = kept + loaded + size_of_val(&*self.again);
            let left = self.length - kept;
            let rest = ProtobufRest { encoder: self.encoder, items: self.again.into_iter(), left, end };
            let pieces = stream::iter(pieces.into_iter().map(Ok));
            Body::fallible(pieces.chain(rest.into_stream())).with_held_bytes(held)
        };
        Ok(respond(StatusCode::OK, HeaderValue::from_static(Encoding::Protobuf.media_type()), body))
    }
}

impl ProtobufItems {
    /// Appends an item.
    fn push(self, item: &ListItem, out: &mut Vec<u8>) -> Result<(), Status> {
        let item = item.get()?;
        let mut json = Vec::with_capacity(item.encoded.len_hint());
        match self.version {
            Some(version) => push_partial(&item, version, &mut json),
            None => item.render_item(&mut json),
        }
        self.kind.push(&json, out);
        Ok(())
    }
}

impl ProtobufRest {
    /// Returns the pieces, each encoded on the threads for long computations when it is requested.
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
        stream::try_unfold(Some(self), |rest| async {
            let Some(rest) = rest else { return Ok(None) };
            let next = offload(move || rest.next()).await.map_err(BodyError::new)?;
            next.map(Some).map_err(BodyError::new)
        })
    }

    /// Encodes the next piece. Returns `None` instead of the rest after the last one.
    fn next(mut self) -> Result<(Bytes, Option<Self>), Status> {
        let (mut out, mut read) = (Vec::with_capacity(PIECE + PIECE / 8), 0);
        while out.len() < PIECE
            && read < PIECE_OBJECTS
            && let Some(item) = self.items.next()
        {
            read += item.len_hint();
            self.encoder.push(&item, &mut out)?;
        }
        let is_last = self.items.as_slice().is_empty();
        let left = self.left.checked_sub(out.len()).filter(|left| *left == 0 || !is_last);
        self.left = left.ok_or_else(|| Status::internal("the second encoding of a list has another length"))?;
        if is_last {
            out.extend_from_slice(self.end);
            return Ok((out.into(), None));
        }
        Ok((out.into(), Some(self)))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::{encoded::Encoded, offload::all_turns, storage::Revision};

    fn config_map(number: usize) -> ListItem {
        let data = json!({"text": "x".repeat(1000 + number)});
        let object =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": format!("c{number}")}, "data": data});
        Item { encoded: Encoded::new(&object, Style::BuiltIn), revision: Revision(7) }.into()
    }

    fn protobuf(count: usize, kept: usize) -> Body {
        let head = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}});
        let items = (0..count).map(config_map).collect();
        let mut pieces = ProtobufPieces { kept, ..ProtobufPieces::new(&head, None, items, false).unwrap() };
        pieces.push(10_000).unwrap();
        pieces.finish().unwrap().into_body()
    }

    #[tokio::test]
    async fn long_list_in_protobuf_is_kept_in_part_and_sent_as_a_whole() {
        for count in [1, 60, 300, 1000] {
            let whole = protobuf(count, usize::MAX).collect().await.unwrap().to_bytes();
            assert!(whole.starts_with(b"k8s\0") && whole.len() > count * 1000);
            for kept in [0, 1, 100_000, 300_000] {
                let body = protobuf(count, kept);
                let held = body.held_bytes();
                assert!(held < kept + 2 * PIECE + count * 200, "{held} bytes of {}", whole.len());
                assert!(body.collect().await.unwrap().to_bytes() == whole, "{count} items, {kept} bytes");
            }
        }
    }

    #[tokio::test]
    async fn list_in_protobuf_fails_if_its_length_changes() {
        let head = json!({"kind": "ConfigMapList", "apiVersion": "v1"});
        let encoder = ProtobufItems { kind: ProtobufList::of(&json::encode(&head)).unwrap(), version: None };
        for left in [10, 10_000] {
            let rest = ProtobufRest { encoder, items: vec![config_map(1)].into_iter(), left, end: b"" };
            let error = rest.into_stream().boxed().next().await.unwrap().unwrap_err();
            assert!(error.to_string().ends_with("the second encoding of a list has another length"), "{error}");
        }
    }

    #[tokio::test]
    async fn body_fails_if_the_runtime_of_its_rendering_ends() {
        let frame = Frame::new("List", "v1", &json!({}), Style::BuiltIn);
        let mut body = Pieces::new(frame, Vec::new(), Item::render_item).into_body(false);
        let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let _all = all_turns().await;
        {
            let _entered = other.enter();
            assert!(body.frame().now_or_never().is_none());
        }
        other.shutdown_background();
        let error = body.frame().await.unwrap().unwrap_err();
        assert!(error.to_string().starts_with("the response is incomplete: "), "{error}");
    }
}
