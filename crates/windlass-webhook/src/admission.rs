//! Admission webhooks: they allow or deny writes, and change objects before they are stored.
//!
//! A [`Mutator`] or a [`Validator`] handles one kind with typed objects; a [`Handler`] receives the raw request. A
//! [`Chain`] combines several of them.

mod chain;
mod mutator;
mod overlay;
mod request;
mod response;
mod validator;
mod webhook;

use std::future::Future;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Resource;

pub use self::{
    chain::Chain,
    mutator::{Mutating, Mutator},
    request::{AdmissionRequest, Operation, Request},
    response::{Denial, Response, Warnings},
    validator::{Validating, Validator},
};
pub(crate) use webhook::Admission;

/// Handles raw admission requests, for cases that a [`Mutator`] or a [`Validator`] does not cover.
///
/// Functions of a request are handlers.
pub trait Handler: Send + Sync + 'static {
    /// Returns the response to a request. A panic is contained and answered with status 500.
    fn handle(&self, request: &Request) -> impl Future<Output = Response> + Send;
}

impl<F: Fn(&Request) -> Response + Send + Sync + 'static> Handler for F {
    fn handle(&self, request: &Request) -> impl Future<Output = Response> + Send {
        std::future::ready(self(request))
    }
}

/// A [`Handler`] as a trait object.
pub(crate) trait DynHandler: Send + Sync {
    fn handle<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Response>;
}

impl<H: Handler> DynHandler for H {
    fn handle<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Response> {
        Box::pin(Handler::handle(self, request))
    }
}

/// Decodes an object of a request. Returns a denial with the reason if it fails.
fn decode<K: Resource>(object: &Value) -> Result<K, Denial> {
    let expected = K::api_resource();
    let said = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (said("apiVersion"), said("kind"));
    if (api_version, kind) != (&*expected.api_version(), &*expected.kind) {
        let message = match object {
            Value::Null => "there is no content to decode".to_owned(),
            _ => format!(
                "unable to decode {api_version}, Kind={kind} into {}, Kind={}",
                expected.api_version(),
                expected.kind
            ),
        };
        return Err(Denial::errored(400, message));
    }
    crate::body::from_value(object).map_err(|error| Denial::errored(400, error.to_string()))
}

#[cfg(test)]
mod tests;
