//! The client's implementation of [`ListWatch`], which caches use.

use futures::{
    future::BoxFuture,
    stream::{BoxStream, StreamExt},
};
use windlass_api::{ApiResource, Content, ListItem, ListOptions, ListWatch, ListWatchError, RawEvent, WatchOptions};

use crate::{
    Client,
    body::Body,
    client::DefaultNamespace,
    list_stream::ListStream,
    negotiation::Encodable,
    operation::{Operation, Verb},
    request::{RequestError, Target},
    watch_stream::RawWatchStream,
};

/// Lists and watches the objects of one resource as encoded bytes, in one namespace or in all.
///
/// Encoded objects may share memory with the network buffer; a cache that retains them should copy them. Objects above
/// the client's size limit ([`Client::with_object_limit`]) are skipped, each with an error that names it.
#[derive(Clone, Debug)]
pub struct ResourceListWatch {
    client: Client,
    target: Target,
    content: Content,
}

type Stream<T> = BoxStream<'static, Result<T, ListWatchError>>;

impl Client {
    /// Returns the list and watch calls of a resource for a cache, in one namespace or, with `None`, in all.
    #[must_use]
    pub fn list_watch(&self, resource: &ApiResource, namespace: Option<&str>) -> ResourceListWatch {
        let target = Target::new(resource.clone()).within(namespace.unwrap_or_default());
        ResourceListWatch { client: self.clone(), target, content: Content::Object }
    }
}

impl ResourceListWatch {
    /// Restricts the objects to their metadata.
    #[must_use]
    pub const fn metadata_only(mut self) -> Self {
        self.content = Content::Metadata;
        self
    }

    /// Returns metadata only if either the caller or this value restricts it.
    fn content_for(&self, asked: Content) -> Content {
        if self.content == Content::Metadata { self.content } else { asked }
    }

    async fn open(
        &self,
        verb: Verb,
        content: Content,
        build: impl FnOnce(&Target) -> Result<http::Request<bytes::Bytes>, RequestError>,
    ) -> Result<http::Response<Body>, ListWatchError> {
        let mut target = self.target.clone();
        let placed = self.client.place(&mut target, DefaultNamespace::All);
        let operation: Operation = target.operation(verb);
        let request = placed.and_then(|()| build(&target));
        // An invalid request is a permanent failure, but `ListWatchError` has no better variant for it.
        let request = request.map_err(|error| ListWatchError::Transport(error.into()))?;
        let encodable = if content == Content::AllFields { Encodable::Neither } else { Encodable::Response };
        self.client.execute_negotiated(request, &target, &operation, encodable).await
    }
}

impl ListWatch for ResourceListWatch {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<Stream<ListItem>, ListWatchError>> {
        Box::pin(async move {
            let content = self.content_for(options.content);
            let response = self.open(Verb::List, content, |target| target.list(&options, content)).await?;
            Ok(ListStream::new(response, self.client.object_limit()).boxed())
        })
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<Stream<RawEvent>, ListWatchError>> {
        Box::pin(async move {
            let content = self.content_for(options.content);
            let response = self.open(Verb::Watch, content, |target| target.watch(&options, content)).await?;
            Ok(RawWatchStream::new(response, self.client.object_limit()).boxed())
        })
    }
}
