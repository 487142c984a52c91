//! Responses: objects, lists and statuses in the negotiated form.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_api::Status;

use super::{
    body::Body,
    json,
    media::{Encoding, ErrorEncoding, MetaVersion, Representation, ResponseKind, View, wrong_view},
    pieces::{Frame, Pieces, ProtobufPieces},
};
use crate::{
    audit::AuditContext,
    codec::{to_protobuf, to_yaml},
    descriptions::Descriptions,
    discovery::Document,
    encoded::{Style, push_json},
    health::Report,
    offload::{LARGE, PART, offload},
    registry::ItemList,
    resource::{Item, ListItem, ResourceInfo},
    table::{self, Header, IncludeObject},
};

/// The kind of a list of partial objects.
const PARTIAL_LIST: &str = "PartialObjectMetadataList";

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
            View::Partial(version) => {
                let mut out = Vec::with_capacity(item.encoded.len_hint());
                push_partial(item, version, &mut out);
                out
            }
            View::Table(_) => json::encode(&self.render(item.value(), self.header())),
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
    pub(super) async fn list(self, list: ItemList<ListItem>) -> Result<Response<Body>, Status> {
        if size(&list) < LARGE || self.is_copied() && self.is_streamed() {
            return self.render_list(list);
        }
        match (self.representation.encoding, self.representation.view) {
            (Encoding::Protobuf, View::Whole | View::PartialList(_)) if !self.audit.wants_response() => {
                let mut pieces = self.protobuf_list(list)?;
                while !pieces.is_complete() {
                    pieces = offload(move || pieces.push(PART).map(|()| pieces)).await??;
                }
                pieces.finish()
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
            (Encoding::Yaml | Encoding::Cbor, view) => !matches!(view, View::Table(_)),
            (Encoding::Protobuf, _) => false,
        };
        is_streamed && !self.audit.wants_response()
    }

    fn render_list(&self, list: ItemList<ListItem>) -> Result<Response<Body>, Status> {
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
                    return self.concatenate(Frame::of_table(none), list, render);
                }
                let objects =
                    list.items.iter().map(|item| Ok(item.get()?.value())).collect::<Result<Vec<_>, Status>>()?;
                let compact = json::encode(&self.table(metadata, objects.into_iter(), self.header(), version));
                Ok(self.document(StatusCode::OK, compact))
            }
            View::PartialList(version) => {
                if self.representation.encoding == Encoding::Protobuf {
                    return self.protobuf_list(list)?.finish();
                }
                let kind = PARTIAL_LIST;
                let metadata = list_metadata(&list, Style::BuiltIn);
                if list.items.is_empty() {
                    // Unlike a list of objects, an empty list of partial objects is null.
                    let none =
                        json!({"kind": kind, "apiVersion": version.api_version(), "metadata": metadata, "items": null});
                    return Ok(self.document(StatusCode::OK, json::encode(&none)));
                }
                let frame = self.frame(kind, version.api_version(), &metadata, Style::BuiltIn, list.items.len())?;
                self.concatenate(frame, list, move |item, out| push_partial(item, version, out))
            }
            View::Whole => {
                if self.representation.encoding == Encoding::Protobuf {
                    return self.protobuf_list(list)?.finish();
                }
                let (kind, api_version) = (&self.resource.list_kind, self.resource.api_version());
                let metadata = list_metadata(&list, style);
                let frame = if list.items.is_empty() {
                    Frame::new(kind, &api_version, &metadata, style)
                } else {
                    self.frame(kind, &api_version, &metadata, style, list.items.len())?
                };
                self.concatenate(frame, list, Item::render_item)
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
    fn frame(
        &self,
        kind: &str,
        api_version: &str,
        metadata: &Value,
        style: Style,
        length: usize,
    ) -> Result<Frame, Status> {
        match self.representation.encoding {
            Encoding::Yaml if self.is_streamed() => Ok(Frame::of_yaml(kind, api_version, metadata)),
            Encoding::Cbor if self.is_streamed() => Frame::of_cbor(kind, api_version, metadata, length),
            _ => Ok(Frame::new(kind, api_version, metadata, style)),
        }
    }

    /// Returns a response with the items of a list in a frame. `render` appends an item in JSON.
    fn concatenate(
        &self,
        frame: Frame,
        list: ItemList<ListItem>,
        render: impl Fn(&Item, &mut Vec<u8>) + Send + 'static,
    ) -> Result<Response<Body>, Status> {
        let size = size(&list);
        let is_copied = size < LARGE || self.is_copied() && !list.items.iter().any(ListItem::is_compressed);
        // Loaded and converted objects belong to this response, others to the storage.
        let loaded = if list.is_loaded || self.resource.conversion.is_some() { size } else { 0 };
        let held = loaded + size_of_val(&*list.items);
        let pieces = Pieces::new(frame, list.items, render);
        let encoding = self.representation.encoding;
        // A list without items has no frame of another encoding.
        if !self.is_streamed() || matches!(encoding, Encoding::Yaml | Encoding::Cbor) && pieces.is_json() {
            let mut compact = pieces.into_bytes()?;
            compact.pop();
            return Ok(self.document(StatusCode::OK, compact));
        }
        let body = pieces.indented(encoding == Encoding::PrettyJson).into_body(is_copied);
        let held = held.max(body.held_bytes());
        let body = body.with_held_bytes(held);
        Ok(respond(StatusCode::OK, HeaderValue::from_static(encoding.media_type()), body))
    }

    /// Begins a list in protobuf.
    fn protobuf_list(&self, list: ItemList<ListItem>) -> Result<ProtobufPieces, Status> {
        let (kind, api_version, style, version) = match self.representation.view {
            View::PartialList(version) => {
                (PARTIAL_LIST, version.api_version().to_owned(), Style::BuiltIn, Some(version))
            }
            _ => (&*self.resource.list_kind, self.resource.api_version(), self.resource.shape.style(), None),
        };
        let head = json!({"kind": kind, "apiVersion": api_version, "metadata": list_metadata(&list, style)});
        let is_loaded = list.is_loaded || self.resource.conversion.is_some();
        let pieces = ProtobufPieces::new(&head, version, list.items, is_loaded);
        pieces.ok_or_else(|| Status::internal("the list has no protobuf message"))
    }
}

/// Returns the number of bytes of the objects in a list.
fn size(list: &ItemList<ListItem>) -> usize {
    list.items.iter().map(ListItem::len_hint).sum()
}

fn list_metadata(list: &ItemList<ListItem>, style: Style) -> Value {
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

/// Appends an object with only its metadata, in JSON.
pub(super) fn push_partial(item: &Item, version: MetaVersion, out: &mut Vec<u8>) {
    if !item.encoded.render_partial(version.api_version(), item.revision, out) {
        push_json(&partial(item.value(), version), out);
    }
}

/// Returns an object with only its metadata.
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

/// Returns a response with a complete document. A document that has no message in protobuf stays JSON.
pub(super) fn document(code: StatusCode, mut compact: Vec<u8>, encoding: Encoding) -> Response<Body> {
    let tree = || serde_json::from_slice::<Value>(&compact).expect("the server encoded this JSON");
    let (body, encoding) = match encoding {
        Encoding::PrettyJson => (json::indent(&compact), encoding),
        Encoding::Yaml => (to_yaml(&tree()).into_bytes(), encoding),
        Encoding::Protobuf if let Some(message) = to_protobuf(&compact) => (message, encoding),
        Encoding::Cbor if let Ok(document) = windlass_cbor::from_json(&compact) => (document, encoding),
        Encoding::Json | Encoding::Protobuf | Encoding::Cbor => {
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
