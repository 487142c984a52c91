//! Responses: objects, lists and statuses in the negotiated form.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::task;
use windlass_api::Status;

use super::{
    body::Body,
    json::{self, Indenter},
    media::{Encoding, ErrorEncoding, MetaVersion, Representation, ResponseKind, View, wrong_view},
};
use crate::{
    audit::AuditContext,
    codec::{ProtobufList, to_protobuf, to_yaml, to_yaml_item},
    descriptions::Descriptions,
    discovery::Document,
    encoded::{Style, push_json},
    health::Report,
    offload::{LARGE, PART, offload},
    registry::ItemList,
    resource::{Item, ResourceInfo},
    table::{self, Header, IncludeObject},
};

/// The approximate size of the pieces of a long list in bytes.
const PIECE: usize = 64 << 10;

/// The maximum size of the objects in such a piece. In some views an object is much smaller.
const PIECE_OBJECTS: usize = 256 << 10;

/// The number of pieces that are copied before other requests may run.
const COPIED: usize = 4;

/// The kind of a list of partial objects.
const PARTIAL_LIST: &str = "PartialObjectMetadataList";

/// The end of a table; the rows are its last field.
const END_OF_TABLE: &[u8] = b"]}";

pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The Content-Type of metrics in Prometheus' text format.
pub(super) const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// The rendering of objects.
#[derive(Clone, Debug)]
pub(super) struct Renderer {
    pub(super) resource: Arc<ResourceInfo>,
    pub(super) representation: Representation,
    /// The objects included in the rows of tables.
    pub(super) include: IncludeObject,
    pub(super) descriptions: Descriptions,
    /// The event of the request, which may contain the response.
    pub(super) audit: AuditContext,
    /// The current time, for ages.
    pub(super) now: Timestamp,
}

// === objects ===

impl Renderer {
    /// Returns a response with one object. A large one is converted outside of the runtime.
    pub(super) async fn object(&self, code: StatusCode, item: &Item) -> Result<Response<Body>, Status> {
        if item.encoded.len_hint() < LARGE || self.is_copied() {
            return self.render_object(code, item);
        }
        let (renderer, item) = (self.clone(), item.clone());
        offload(move || renderer.render_object(code, &item)).await?
    }

    /// Reports whether responses consist of the bytes in storage.
    fn is_copied(&self) -> bool {
        matches!(self.representation, Representation { view: View::Whole, encoding: Encoding::Json, .. })
    }

    fn render_object(&self, code: StatusCode, item: &Item) -> Result<Response<Body>, Status> {
        let compact = match self.representation.view {
            View::Whole => {
                let mut out = Vec::with_capacity(item.encoded.len_hint());
                item.render(&mut out);
                out
            }
            View::PartialList(_) => {
                return Err(wrong_view(
                    PARTIAL_LIST,
                    &go_type(&self.resource, ResponseKind::Object),
                    ResponseKind::Object,
                ));
            }
            View::Partial(_) | View::Table(_) => json::encode(&self.render(item.value(), self.header())),
        };
        Ok(self.document(code, compact))
    }

    /// Returns a response with a complete document, and records it for the audit log.
    fn document(&self, code: StatusCode, mut compact: Vec<u8>) -> Response<Body> {
        let encoding = self.representation.encoding;
        if !self.audit.wants_response() {
            return document(code, compact, encoding);
        }
        if encoding != Encoding::Json {
            self.audit.record_response(Bytes::copy_from_slice(&compact));
            return document(code, compact, encoding);
        }
        let length = compact.len();
        compact.push(b'\n');
        let body = Bytes::from(compact);
        // The event shares the bytes of the response.
        self.audit.record_response(body.slice(..length));
        respond(code, HeaderValue::from_static(encoding.media_type()), Body::whole(body))
    }

    /// Returns the header of a single table.
    pub(super) fn header(&self) -> Header<'_> {
        Header::Columns(&self.descriptions)
    }

    /// Renders an object in the negotiated view. In a watch, only the first table has column definitions.
    pub(super) fn render(&self, object: Value, header: Header<'_>) -> Value {
        match self.representation.view {
            View::Whole => object,
            View::Partial(version) | View::PartialList(version) => partial(object, version),
            View::Table(version) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                if object["kind"] == "Scale" {
                    return table::scale_table(metadata, object, self.include, &self.descriptions, self.now);
                }
                self.table(metadata, std::iter::once(object), header, version)
            }
        }
    }

    /// Returns a list, in pieces if it is long. Long lists are converted outside of the runtime, in several parts.
    pub(super) async fn list(self, list: ItemList) -> Result<Response<Body>, Status> {
        if size(&list) < LARGE || self.is_copied() && self.is_streamed() {
            return self.render_list(list);
        }
        match (self.representation.encoding, self.representation.view) {
            (Encoding::Protobuf, View::Whole | View::PartialList(_)) if !self.audit.wants_response() => {
                let mut pieces = self.protobuf_list(list)?;
                while !pieces.items.as_slice().is_empty() {
                    pieces = offload(move || {
                        pieces.push(PART);
                        pieces
                    })
                    .await?;
                }
                Ok(pieces.finish())
            }
            _ if self.is_streamed() => self.render_list(list),
            _ => offload(move || self.render_list(list)).await?,
        }
    }

    /// Reports whether lists are encoded while they are sent.
    fn is_streamed(&self) -> bool {
        let is_streamed = match (self.representation.encoding, self.representation.view) {
            (Encoding::Json | Encoding::PrettyJson, View::Table(_)) => !table::is_ordered(&self.resource),
            (Encoding::Json | Encoding::PrettyJson, _) => true,
            (Encoding::Yaml, view) => !matches!(view, View::Table(_)),
            (Encoding::Protobuf, _) => false,
        };
        is_streamed && !self.audit.wants_response()
    }

    fn render_list(&self, list: ItemList) -> Result<Response<Body>, Status> {
        let style = self.resource.shape.style();
        if self.representation.encoding == Encoding::Protobuf && self.audit.wants_response() {
            // The audit log is JSON.
            let representation = Representation { encoding: Encoding::Json, ..self.representation };
            Self { representation, ..self.clone() }.render_list(list.clone())?;
        }
        match self.representation.view {
            View::Partial(_) => Err(wrong_view(
                "PartialObjectMetadata",
                &go_type(&self.resource, ResponseKind::List),
                ResponseKind::List,
            )),
            View::Table(version) => {
                let metadata = list_metadata(&list, Style::BuiltIn);
                if self.is_streamed() {
                    let none = json::encode(&self.table(metadata, std::iter::empty(), self.header(), version));
                    let row = self.row(version);
                    let render = move |item: &Item, out: &mut Vec<u8>| push_json(&row(item.value()), out);
                    return Ok(self.concatenate(Frame::of_table(none), list, render));
                }
                let objects = list.items.into_iter().map(|item| item.value());
                let compact = json::encode(&self.table(metadata, objects, self.header(), version));
                Ok(self.document(StatusCode::OK, compact))
            }
            View::PartialList(version) => {
                if self.representation.encoding == Encoding::Protobuf {
                    return Ok(self.protobuf_list(list)?.finish());
                }
                let kind = PARTIAL_LIST;
                let metadata = list_metadata(&list, Style::BuiltIn);
                if list.items.is_empty() {
                    // Unlike a list of objects, an empty list of partial objects is null.
                    let none =
                        json!({"kind": kind, "apiVersion": version.api_version(), "metadata": metadata, "items": null});
                    return Ok(self.document(StatusCode::OK, json::encode(&none)));
                }
                let frame = self.frame(kind, version.api_version(), &metadata, Style::BuiltIn);
                Ok(self.concatenate(frame, list, move |item, out| push_json(&partial(item.value(), version), out)))
            }
            View::Whole => {
                if self.representation.encoding == Encoding::Protobuf {
                    return Ok(self.protobuf_list(list)?.finish());
                }
                let (kind, api_version) = (&self.resource.list_kind, self.resource.api_version());
                let metadata = list_metadata(&list, style);
                let frame = if list.items.is_empty() {
                    Frame::new(kind, &api_version, &metadata, style)
                } else {
                    self.frame(kind, &api_version, &metadata, style)
                };
                Ok(self.concatenate(frame, list, Item::render_item))
            }
        }
    }

    fn table(
        &self,
        metadata: Value,
        objects: impl Iterator<Item = Value>,
        header: Header<'_>,
        version: MetaVersion,
    ) -> Value {
        let mut table = table::table(&self.resource, metadata, objects, self.include, header, self.now);
        if version == MetaVersion::V1Beta1 {
            let beta = Value::from(version.api_version());
            for row in table["rows"].as_array_mut().into_iter().flatten() {
                if self.include == IncludeObject::Metadata {
                    row["object"]["apiVersion"] = beta.clone();
                }
            }
            table["apiVersion"] = beta;
        }
        table
    }

    /// Returns a function that renders the rows of a table one by one.
    fn row(&self, version: MetaVersion) -> impl Fn(Value) -> Value + Send + 'static {
        let (resource, include, now) = (Arc::clone(&self.resource), self.include, self.now);
        move |object| {
            let mut row = table::row(&resource, object, include, now);
            if version == MetaVersion::V1Beta1 && include == IncludeObject::Metadata {
                row["object"]["apiVersion"] = version.api_version().into();
            }
            row
        }
    }

    /// Returns the bytes around the items of a list, which is not empty.
    fn frame(&self, kind: &str, api_version: &str, metadata: &Value, style: Style) -> Frame {
        if self.representation.encoding == Encoding::Yaml && self.is_streamed() {
            return Frame::of_yaml(kind, api_version, metadata);
        }
        Frame::new(kind, api_version, metadata, style)
    }

    /// Returns a response with the items of a list in a frame. `render` appends an item in JSON.
    fn concatenate(
        &self,
        frame: Frame,
        list: ItemList,
        render: impl Fn(&Item, &mut Vec<u8>) + Send + 'static,
    ) -> Response<Body> {
        let size = size(&list);
        let is_elsewhere = size >= LARGE && !self.is_copied();
        // Converted objects belong to this response, others to the storage.
        let held = if self.resource.conversion.is_some() { size } else { 0 };
        let mut pieces = Pieces { frame, items: list.items.into_iter(), state: State::Head, render, indenter: None };
        let encoding = self.representation.encoding;
        // A YAML list without items has no frame of its own.
        if !self.is_streamed() || encoding == Encoding::Yaml && pieces.frame.form == Form::Json {
            let mut compact: Vec<u8> = pieces.flatten().collect();
            compact.pop();
            return self.document(StatusCode::OK, compact);
        }
        pieces.indenter = (encoding == Encoding::PrettyJson).then(Indenter::default);
        let body = if is_elsewhere {
            // The response begins at once, which frees the seats of the request: other users need not wait for it.
            Body::frames(stream::unfold(pieces, |mut pieces| async {
                if pieces.state == State::Done {
                    return None;
                }
                let piece = offload(move || (pieces.next(), pieces)).await;
                piece.ok().and_then(|(piece, pieces)| Some((piece?, pieces)))
            }))
            .with_held_bytes(held)
        } else {
            let first = pieces.next().unwrap_or_default();
            if pieces.state == State::Done {
                Body::whole(first)
            } else {
                let rest = stream::unfold((pieces, 0), |(mut pieces, copied)| async move {
                    if copied == COPIED {
                        task::yield_now().await;
                    }
                    Some((pieces.next()?, (pieces, copied % COPIED + 1)))
                });
                Body::frames(stream::iter([first]).chain(rest)).with_held_bytes(held)
            }
        };
        respond(StatusCode::OK, HeaderValue::from_static(encoding.media_type()), body)
    }

    /// Begins a list in protobuf.
    fn protobuf_list(&self, list: ItemList) -> Result<ProtobufPieces, Status> {
        let (kind, api_version, style, version) = match self.representation.view {
            View::PartialList(version) => {
                (PARTIAL_LIST, version.api_version().to_owned(), Style::BuiltIn, Some(version))
            }
            _ => (&*self.resource.list_kind, self.resource.api_version(), self.resource.shape.style(), None),
        };
        let head = json!({"kind": kind, "apiVersion": api_version, "metadata": list_metadata(&list, style)});
        let kind = ProtobufList::of(&head).ok_or_else(|| Status::internal("the list has no protobuf message"))?;
        let items = list.items.into_iter();
        Ok(ProtobufPieces { head, kind, version, items, pieces: Vec::new(), last: Vec::new(), length: 0 })
    }
}

/// Returns the number of bytes of the objects in a list.
fn size(list: &ItemList) -> usize {
    list.items.iter().map(|item| item.encoded.len_hint()).sum()
}

/// A list in protobuf. The encoding starts with the length, so all of it is encoded before the first piece is sent.
struct ProtobufPieces {
    head: Value,
    kind: ProtobufList,
    /// The version of the metadata in a partial list.
    version: Option<MetaVersion>,
    /// The items that are not encoded yet.
    items: std::vec::IntoIter<Item>,
    pieces: Vec<Bytes>,
    last: Vec<u8>,
    length: usize,
}

impl ProtobufPieces {
    /// Encodes items of about this number of bytes.
    fn push(&mut self, bytes: usize) {
        let mut read = 0;
        while read < bytes
            && let Some(item) = self.items.next()
        {
            read += item.encoded.len_hint();
            let mut value = item.value();
            if let Some(version) = self.version {
                value = partial(value, version);
            }
            self.kind.push(&value, &mut self.last);
            if self.last.len() >= PIECE {
                self.length += self.last.len();
                self.pieces.push(Bytes::from(std::mem::take(&mut self.last)));
            }
        }
    }

    /// Encodes the rest, and returns the response.
    fn finish(mut self) -> Response<Body> {
        self.push(usize::MAX);
        let length = self.length + self.last.len();
        let (first, end) = self.kind.frame(&self.head, length);
        self.last.extend_from_slice(end);
        let pieces = std::iter::once(Bytes::from(first)).chain(self.pieces);
        let body = Body::pieces(pieces.chain(std::iter::once(Bytes::from(self.last))).collect());
        respond(StatusCode::OK, HeaderValue::from_static(Encoding::Protobuf.media_type()), body)
    }
}

/// The bytes before and after the items of a list.
struct Frame {
    form: Form,
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// The form of the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Yaml,
}

impl Frame {
    fn new(kind: &str, api_version: &str, metadata: &Value, style: Style) -> Self {
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
    fn of_yaml(kind: &str, api_version: &str, metadata: &Value) -> Self {
        let head = to_yaml(&json!({"apiVersion": api_version})) + "items:\n";
        let tail = to_yaml(&json!({"kind": kind, "metadata": metadata}));
        Self { form: Form::Yaml, head: head.into(), tail: tail.into() }
    }

    /// Creates the frame of a table from a table without rows.
    fn of_table(mut none: Vec<u8>) -> Self {
        let tail = none.split_off(none.len().saturating_sub(END_OF_TABLE.len()));
        debug_assert_eq!(tail, END_OF_TABLE, "the rows are the last field");
        Self { form: Form::Json, head: none, tail: [END_OF_TABLE, b"\n"].concat() }
    }
}

/// The pieces of a list, each rendered when it is requested.
struct Pieces<R> {
    frame: Frame,
    items: std::vec::IntoIter<Item>,
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

impl<R: Fn(&Item, &mut Vec<u8>)> Iterator for Pieces<R> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
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
            read += item.encoded.len_hint();
            match self.frame.form {
                Form::Json => {
                    if self.state == State::Items {
                        out.push(b',');
                    }
                    (self.render)(&item, &mut out);
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
        Some(out.into())
    }
}

fn list_metadata(list: &ItemList, style: Style) -> Value {
    let mut metadata = Map::new();
    let revision = Value::from(list.revision.0.to_string());
    let token = list.continue_token.as_deref();
    // Objects that are not stored have no resourceVersion.
    if style == Style::BuiltIn && list.revision.0 != 0 {
        metadata.insert("resourceVersion".into(), revision.clone());
    }
    if let Some(token) = token.or((style == Style::Custom).then_some("")) {
        metadata.insert("continue".into(), token.into());
    }
    if let Some(remaining) = list.remaining {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    if style == Style::Custom {
        metadata.insert("resourceVersion".into(), revision);
    }
    Value::Object(metadata)
}

fn partial(object: Value, version: MetaVersion) -> Value {
    let mut partial = table::partial(object);
    partial["apiVersion"] = version.api_version().into();
    partial
}

/// Returns Go's name of an object's type, for messages.
fn go_type(resource: &ResourceInfo, shown: ResponseKind) -> String {
    let package = match resource.group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        group => group,
    };
    match (resource.shape.style(), shown) {
        (Style::Custom, ResponseKind::Object) => "*unstructured.Unstructured".to_owned(),
        (Style::Custom, ResponseKind::List) => "*unstructured.UnstructuredList".to_owned(),
        (Style::BuiltIn, ResponseKind::Object) => format!("*{package}.{}", resource.kind),
        (Style::BuiltIn, ResponseKind::List) => format!("*{package}.{}", resource.list_kind),
    }
}

// === documents, statuses, texts ===

/// Returns a response with a complete document. A document without a protobuf message stays JSON.
pub(super) fn document(code: StatusCode, mut compact: Vec<u8>, encoding: Encoding) -> Response<Body> {
    let tree = || serde_json::from_slice::<Value>(&compact).expect("the server encoded this JSON");
    let (body, encoding) = match encoding {
        Encoding::PrettyJson => (json::indent(&compact), encoding),
        Encoding::Yaml => (to_yaml(&tree()).into_bytes(), encoding),
        Encoding::Protobuf if let Some(message) = to_protobuf(&tree()) => (message, encoding),
        Encoding::Json | Encoding::Protobuf => {
            compact.push(b'\n');
            (compact, Encoding::Json)
        }
    };
    respond(code, HeaderValue::from_static(encoding.media_type()), Body::whole(body))
}

/// Returns a response with a status and the headers that depend on it.
pub(super) fn status(status: &Status, encoding: ErrorEncoding) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let compact = json::encode(status);
    let encoding = match encoding {
        ErrorEncoding::As(encoding) => encoding,
        ErrorEncoding::Forced => Encoding::PrettyJson,
    };
    let mut response = document(code, compact, encoding);
    let headers = response.headers_mut();
    if let Some(seconds) =
        status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns a response that rejects a request in authentication or authorization.
pub(super) fn unauthorized(error: &Status, encoding: ErrorEncoding) -> Response<Body> {
    let mut response = status(error, encoding);
    if response.status() != StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    }
    response
}

/// Returns a plain-text response, for people and probes.
pub(super) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = respond(code, TEXT, Body::whole(text));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
}

/// Returns the response to a probe.
pub(super) fn report(report: Report) -> Response<Body> {
    let mut response = text(report.status, report.text.into_owned());
    if !report.no_sniff {
        response.headers_mut().remove(header::X_CONTENT_TYPE_OPTIONS);
    }
    response
}

/// Returns a response with a generated document. Small JSON documents can be indented.
pub(super) fn generated_document(document: Document, encoding: Encoding) -> Response<Body> {
    let mut body = document.body;
    if encoding == Encoding::PrettyJson && document.content_type == Encoding::Json.media_type() {
        body = json::indent(&body);
    }
    let code = StatusCode::from_u16(document.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = code;
    if code != StatusCode::NOT_MODIFIED
        && !document.content_type.is_empty()
        && let Ok(content_type) = HeaderValue::from_str(&document.content_type)
    {
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    }
    for (name, value) in document.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().append(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Returns a response with a code, a content type and a body.
pub(super) fn respond(code: StatusCode, content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
