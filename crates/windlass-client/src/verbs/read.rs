//! The builders of get and list.

use std::{borrow::Cow, time::Duration};

use futures::StreamExt;
use windlass_api::{ListItem, ListMeta, ListOptions, ListWatchError, Object, ObjectList, VersionMatch};

use super::{Call, into_future, within};
use crate::{
    Error, Result, Tolerate as _,
    client::DefaultNamespace,
    list_stream::ListStream,
    operation::{Operation, Verb},
};

/// Reads an object.
#[must_use = "nothing is sent before `.await`"]
pub struct Get<K> {
    call: Call<K>,
    resource_version: Option<String>,
}

/// Reads an object that may not exist.
#[must_use = "nothing is sent before `.await`"]
pub struct GetOpt<K> {
    get: Get<K>,
}

/// Lists objects: all of them, or one page if a limit is set.
#[must_use = "nothing is sent before `.await`"]
pub struct List<K> {
    call: Call<K>,
    pub(super) options: ListOptions,
}

/// A list whose response is being read.
pub(super) struct Page<K> {
    stream: ListStream,
    operation: Operation,
    call: Call<K>,
}

/// A part of a list.
pub(super) enum PageItem<K> {
    Object(K),
    /// The end of the list.
    End(ListMeta),
}

into_future! {
    Get => K;
    GetOpt => Option<K>;
    List => ObjectList<K>;
}
within!(Get List);

impl<K: Object> Get<K> {
    pub(crate) fn new(call: Call<K>) -> Self {
        Self { call, resource_version: None }
    }

    /// Selects a subresource, such as `status`.
    pub fn subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.call.subresource(subresource);
        self
    }

    /// Requires this resource version or a later one. `"0"` accepts any version that the server has in its cache.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    async fn send(self) -> Result<K> {
        let version = self.resource_version;
        let sent = self.call.send(Verb::Get, DefaultNamespace::OfClient, |call| {
            Ok(call.target.get(version.as_deref(), call.codec.content)?)
        });
        sent.await?.object().await
    }
}

impl<K: Object> GetOpt<K> {
    pub(crate) const fn new(get: Get<K>) -> Self {
        Self { get }
    }

    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.get = self.get.within(namespace);
        self
    }

    async fn send(self) -> Result<Option<K>> {
        self.get.send().await.or_not_found()
    }
}

impl<K: Object> List<K> {
    pub(crate) fn new(call: Call<K>) -> Self {
        Self { call, options: ListOptions::default() }
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

    /// Sets the resource version, which the server interprets according to [`Self::version_match`]. `"0"` accepts any
    /// version that the server has in its cache.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.resource_version = Some(version.into());
        self
    }

    /// Sets how the server interprets the resource version.
    pub fn version_match(mut self, version_match: VersionMatch) -> Self {
        self.options.version_match = Some(version_match);
        self
    }

    /// Limits the time that the server may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Restricts the list to one shard, for example `shardRange(object.metadata.uid, '0x0', '0x8000000000000000')`.
    /// Requires a server with the feature `ShardedListAndWatch`; other servers list all objects.
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.options.shard = Some(selector.into());
        self
    }

    /// Replaces all options.
    pub fn options(mut self, options: ListOptions) -> Self {
        self.options = options;
        self
    }

    pub(super) async fn send(self) -> Result<ObjectList<K>> {
        let mut page = self.open().await?;
        let mut items = Vec::new();
        loop {
            match page.next().await? {
                PageItem::Object(object) => items.push(object),
                PageItem::End(metadata) => return Ok(ObjectList { metadata, items }),
            }
        }
    }

    /// Sends the request. The objects can be read while they arrive.
    pub(super) async fn open(&self) -> Result<Page<K>> {
        let call = self.call.clone();
        let sent = call
            .send(Verb::List, DefaultNamespace::All, |call| Ok(call.target.list(&self.options, call.codec.content)?));
        let sent = sent.await?;
        let stream = ListStream::new(sent.response, sent.call.client.object_limit());
        Ok(Page { stream, operation: sent.operation, call: sent.call })
    }
}

impl<K: Object> Page<K> {
    /// Returns the next part. Objects are decoded as they arrive, so the whole encoded list is never in memory.
    pub(super) async fn next(&mut self) -> Result<PageItem<K>> {
        let failure = match self.stream.next().await {
            Some(Ok(ListItem::Object(bytes))) => match self.call.decode(&bytes) {
                Ok(object) => return Ok(PageItem::Object(object)),
                Err(error) => error,
            },
            Some(Ok(ListItem::End(metadata))) => return Ok(PageItem::End(metadata)),
            Some(Err(error)) => error,
            None => ListWatchError::Transport("the list ended early".into()),
        };
        Err(Error::new(self.operation.clone(), failure))
    }
}

// Implemented by hand, because a derive would require `K: Clone`.
impl<K> Clone for List<K> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), options: self.options.clone() }
    }
}
