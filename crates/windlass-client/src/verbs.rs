//! The builders that the verbs of [`Client`] return: options are chained methods, and `.await` sends the request.
//!
//! Builders own all their data, so a call can be moved into a task. A builder that is dropped before it is awaited
//! sends nothing. Dropping the future cancels the request, but a write may already have been carried out.

mod delete;
mod pages;
mod read;
mod retry_watch;
mod submit;
mod watch;
mod write;

use std::borrow::Cow;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use windlass_api::{BoxError, Content, DryRun, ListWatchError, Object, managed_fields::ManagedFieldsMode};

pub use delete::{Delete, DeleteCollection, Deletion};
pub use pages::{Items, Paged};
pub use read::{Get, GetOpt, List};
pub use retry_watch::RetryWatch;
pub use submit::{Evict, Submit};
pub use watch::{Watch, WatchStream};
pub use write::{Apply, Create, PatchOne, Update};

use crate::{
    Client, Error, Result,
    body::Body,
    client::DefaultNamespace,
    codec::Codec,
    negotiation::Encodable,
    operation::{Operation, Verb},
    request::{RequestError, Target},
    response, write_observer,
};

/// The part that all verbs share: the client, the target, and the decoding of the response.
pub(crate) struct Call<K> {
    client: Client,
    target: Target,
    codec: Codec<K>,
    /// The name to use in errors if the target has none: that of an object to be created.
    subject: Option<String>,
}

// Implemented by hand, because a derive would require `K: Clone`.
impl<K> Clone for Call<K> {
    fn clone(&self) -> Self {
        let Self { client, target, codec, subject } = self;
        Self { client: client.clone(), target: target.clone(), codec: *codec, subject: subject.clone() }
    }
}

impl<K: Object> Call<K> {
    pub(crate) const fn new(client: Client, target: Target, codec: Codec<K>) -> Self {
        Self { client, target, codec, subject: None }
    }

    fn encode(&self, object: &K) -> serde_json::Result<Bytes> {
        (self.codec.encode)(&self.target.resource, object)
    }

    fn within(&mut self, namespace: impl Into<String>) {
        self.target.namespace = Some(namespace.into()).filter(|namespace| !namespace.is_empty());
    }

    fn subresource(&mut self, subresource: impl Into<Cow<'static, str>>) {
        self.target.subresource = Some(subresource.into());
    }

    fn operation(&self, verb: Verb) -> Operation {
        let operation = self.target.operation(verb);
        Operation { name: operation.name.or_else(|| self.subject.clone()), ..operation }
    }

    /// Sends the request that `build` creates for the target. Returns an error if the response is not a success.
    async fn send(
        mut self,
        verb: Verb,
        default: DefaultNamespace,
        build: impl FnOnce(&Self) -> Result<Request<Bytes>, BuildError>,
    ) -> Result<Sent<K>> {
        let placed = self.client.place(&mut self.target, default);
        let operation = self.operation(verb);
        let request = match placed.map_err(BuildError::Request).and_then(|()| build(&self)) {
            Ok(request) => request,
            Err(BuildError::Request(source)) => {
                return Err(Error::Request { operation: Box::new(operation), source });
            }
            Err(BuildError::Encode(source)) => return Err(Error::Encode { operation: Box::new(operation), source }),
        };
        let encodable = match self.codec.content {
            Content::AllFields => Encodable::Neither,
            _ if self.codec.has_required_fields => Encodable::Both,
            _ => Encodable::Response,
        };
        match self.client.execute_negotiated(request, &self.target, &operation, encodable).await {
            Ok(response) => Ok(Sent { response, operation, call: self }),
            Err(error) => Err(Error::new(operation, error)),
        }
    }
}

impl<K: Object> Call<K> {
    /// Decodes an object of a response.
    fn decode(&self, body: &[u8]) -> Result<K, ListWatchError> {
        let mut object = self.decode_as_sent(body).map_err(ListWatchError::Decode)?;
        (self.codec.complete)(&self.target.resource, &mut object);
        Ok(object)
    }
}

impl<K: Object> Call<K> {
    fn decode_as_sent(&self, body: &[u8]) -> Result<K, BoxError> {
        let managed_fields = self.client.managed_fields();
        if !windlass_protobuf::is_protobuf(body) {
            return Ok(managed_fields.decode(body)?);
        }
        if managed_fields == ManagedFieldsMode::Drop
            && let Ok(Some(metadata)) = windlass_protobuf::Metadata::read(body)
            && let Some(parts) = metadata.without_managed_fields(body)
        {
            return Ok(windlass_decoders::decode(&parts.to_vec())?);
        }
        Ok(windlass_decoders::decode(body)?)
    }
}

/// The reason why a request cannot be built.
pub(crate) enum BuildError {
    Request(RequestError),
    Encode(serde_json::Error),
}

impl From<RequestError> for BuildError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<serde_json::Error> for BuildError {
    fn from(error: serde_json::Error) -> Self {
        Self::Encode(error)
    }
}

/// A call whose response has started.
struct Sent<K> {
    response: Response<Body>,
    operation: Operation,
    call: Call<K>,
}

impl<K> Sent<K> {
    /// Reads the response to its end, so that the connection can be reused.
    async fn drain(self) {
        let mut body = self.response.into_body();
        while let Some(Ok(_)) = body.frame().await {}
    }

    /// Reads the response to its end and reports the stored object to the write observer.
    async fn drain_written(self, dry_run: DryRun) {
        let Some(observer) = self.call.client.write_observer().filter(|_| dry_run == DryRun::No) else {
            return self.drain().await;
        };
        if let Ok(body) = response::collect(self.response.into_body(), self.call.client.response_limit()).await {
            write_observer::stored_encoded(observer, &self.call.target, &body);
        }
    }
}

impl<K: Object> Sent<K> {
    /// Decodes the object in the response.
    async fn object(self) -> Result<K> {
        let body = response::collect(self.response.into_body(), self.call.client.response_limit()).await;
        body.and_then(|body| self.call.decode(&body)).map_err(|error| Error::new(self.operation, error))
    }
}

impl<K: Object> Sent<K> {
    /// Decodes the object in the response to a write, after reporting it to the write observer.
    async fn written(self, dry_run: DryRun) -> Result<K> {
        let client = self.call.client.clone();
        let Some(observer) = client.write_observer().filter(|_| dry_run == DryRun::No) else {
            return self.object().await;
        };
        let target = self.call.target.clone();
        let object = self.object().await?;
        write_observer::stored(observer, &target, &object);
        Ok(object)
    }
}

/// Implements `IntoFuture` for builders, so that `.await` sends them.
macro_rules! into_future {
    ($($builder:ident => $output:ty;)*) => {$(
        impl<K: windlass_api::Object> std::future::IntoFuture for $builder<K> {
            type Output = $crate::Result<$output>;
            type IntoFuture = futures::future::BoxFuture<'static, Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.send())
            }
        }

        impl<K> std::fmt::Debug for $builder<K> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($builder)).finish_non_exhaustive()
            }
        }
    )*};
}

/// The namespace option, which almost every verb has.
macro_rules! within {
    ($($builder:ident)*) => {$(
        impl<K: windlass_api::Object> $builder<K> {
            /// Sets the namespace. Overrides any namespace set before.
            pub fn within(mut self, namespace: impl Into<String>) -> Self {
                self.call.within(namespace);
                self
            }
        }
    )*};
}

use {into_future, within};
