//! Objects in the tabular form that servers render: a [`Table`] of columns and rows, and its text.
//!
//! The server defines the columns; those of a custom resource come from its CustomResourceDefinition. `kubectl get`
//! prints these tables.

mod text;

use std::{borrow::Cow, fmt, future::IntoFuture};

use futures::{Stream, TryStreamExt, future::BoxFuture};
use http::Request;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use windlass_api::{
    ApiResource, Content, DynamicObject, EventType, ListMeta, ListOptions, ListWatchError, RawEvent, Status,
    WatchOptions,
};

pub use text::{Columns, Headers, TableWriter, TextLayout};

use crate::{
    Client, Error, Result,
    operation::{Operation, Verb},
    request::{RequestError, Target},
    response,
    watch_stream::RawWatchStream,
};

/// Objects as a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Table {
    /// The list's metadata: its resource version and, for a page, the continue token.
    #[serde(default)]
    pub metadata: ListMeta,
    /// The column definitions, in order. Watch events after the first omit them.
    #[serde(rename = "columnDefinitions", default, deserialize_with = "list")]
    pub columns: Vec<TableColumn>,
    /// The rows, one per object.
    #[serde(default, deserialize_with = "list")]
    pub rows: Vec<TableRow>,
}

/// The definition of a column.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct TableColumn {
    /// The name, such as `Ready`.
    pub name: String,
    /// The type: `string`, `integer`, `number`, `boolean` or `date`.
    #[serde(rename = "type")]
    pub data_type: String,
    /// The format: `name` for the object's name, otherwise usually empty.
    #[serde(default)]
    pub format: String,
    /// The description.
    #[serde(default)]
    pub description: String,
    /// The priority. Columns with priority 0 are always shown, others only in wide output.
    #[serde(default)]
    pub priority: i32,
}

/// The row of one object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct TableRow {
    /// The cells, one per column.
    #[serde(default)]
    pub cells: Vec<Value>,
    /// The object: its metadata, or the whole object [if requested](GetTable::with_objects).
    #[serde(default)]
    pub object: DynamicObject,
}

/// Reads objects as a table. `.await` sends the request.
#[derive(Clone)]
#[must_use = "nothing is sent before `.await`"]
pub struct GetTable {
    client: Client,
    target: Target,
    options: ListOptions,
    rows: Rows,
}

/// The form of the objects in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// Their metadata, which is the server's default.
    Metadata,
    Objects,
}

/// An event of a watch in tabular form.
#[derive(Clone, Debug, PartialEq)]
pub struct TableEvent {
    /// The event type.
    pub event_type: EventType,
    /// The object in a table of one row. [`Table::columns`] is empty except in the first event.
    pub table: Table,
}

impl Client {
    /// Reads objects as a table: all objects of a resource, or [one](GetTable::named).
    pub fn table(&self, resource: &ApiResource) -> GetTable {
        let target = Target::new(resource.clone());
        GetTable { client: self.clone(), target, options: ListOptions::default(), rows: Rows::Metadata }
    }
}

impl GetTable {
    /// Sets the namespace.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.target = self.target.within(namespace);
        self
    }

    /// Selects a single object by name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.target = self.target.named(name);
        self
    }

    /// Selects a subresource, such as `status`.
    pub fn subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.target = self.target.subresource(subresource);
        self
    }

    /// Includes the whole objects in the rows instead of their metadata.
    pub fn with_objects(mut self) -> Self {
        self.rows = Rows::Objects;
        self
    }

    /// Sets the label selector, for example `app=web,tier in (a,b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.labels = Some(selector.into());
        self
    }

    /// Sets the field selector, for example `spec.nodeName=n`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.fields = Some(selector.into());
        self
    }

    /// Limits the number of returned objects. [`Self::continue_from`] returns the rest.
    pub fn limit(mut self, limit: u32) -> Self {
        self.options.limit = Some(limit);
        self
    }

    /// Requests the page that follows the one whose metadata contained this token.
    pub fn continue_from(mut self, token: impl Into<String>) -> Self {
        self.options.continue_token = Some(token.into());
        self
    }

    /// Watches objects as tables, starting after a resource version. Works for a [named](Self::named) object, too.
    pub async fn watch(
        self,
        resource_version: impl Into<String>,
    ) -> Result<impl Stream<Item = Result<TableEvent>> + Send> {
        let mut target = self.target;
        let mut fields = self.options.fields;
        if let Some(name) = target.name.take() {
            let name = format!("metadata.name={name}");
            fields = Some(fields.map_or_else(|| name.clone(), |fields| format!("{fields},{name}")));
        }
        let options = WatchOptions {
            labels: self.options.labels,
            fields,
            resource_version: Some(resource_version.into()),
            ..WatchOptions::default()
        };
        let operation = target.operation(Verb::Watch);
        let request = target.watch(&options, Content::Table);
        let response = execute(&self.client, self.rows, request, &operation).await?;
        let events = RawWatchStream::new(response, self.client.object_limit());
        Ok(events
            .and_then(|event| std::future::ready(read_event(&event)))
            .map_err(move |error| Error::new(operation.clone(), error)))
    }

    async fn send(self) -> Result<Table> {
        let verb = if self.target.name.is_some() { Verb::Get } else { Verb::List };
        let operation = self.target.operation(verb);
        let request = match verb {
            Verb::Get => self.target.get(None, Content::Table),
            _ => self.target.list(&self.options, Content::Table),
        };
        let response = execute(&self.client, self.rows, request, &operation).await?;
        let decoded = response::decode::<Table>(response, self.client.response_limit()).await;
        decoded.map_err(|error| Error::new(operation, error))
    }
}

async fn execute(
    client: &Client,
    rows: Rows,
    request: Result<Request<bytes::Bytes>, RequestError>,
    operation: &Operation,
) -> Result<http::Response<crate::body::Body>> {
    let refused = |source| Error::Request { operation: Box::new(operation.clone()), source };
    let request = request.and_then(|request| rows.asked_for(request)).map_err(refused)?;
    client.execute(request, operation).await.map_err(|error| Error::new(operation.clone(), error))
}

impl Rows {
    fn asked_for(self, mut request: Request<bytes::Bytes>) -> Result<Request<bytes::Bytes>, RequestError> {
        if self == Self::Objects {
            let joint = if request.uri().query().is_some() { '&' } else { '?' };
            let path = format!("{}{joint}includeObject=Object", request.uri());
            *request.uri_mut() = path.parse().map_err(|_| RequestError::Uri { path })?;
        }
        Ok(request)
    }
}

fn read_event(event: &RawEvent) -> Result<TableEvent, ListWatchError> {
    let decode = |error: serde_json::Error| ListWatchError::Decode(error.into());
    if event.event_type == EventType::Error {
        return Err(serde_json::from_slice::<Status>(&event.body).map_err(decode)?.into());
    }
    let table = serde_json::from_slice(&event.body).map_err(decode)?;
    Ok(TableEvent { event_type: event.event_type, table })
}

impl IntoFuture for GetTable {
    type Output = Result<Table>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for GetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetTable").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Decodes a list. Go encodes a nil slice as `null`, which decodes as an empty list.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
