//! Conversion of custom resources between the versions of their kind.
//!
//! One version is the hub, the others are spokes that [`Convert`] to it and from it: with n versions there are n − 1
//! conversions to write, each both ways. A [`Converter`] does it all by itself, without types.

mod hub;
mod round_trip;
mod webhook;

use std::future::Future;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{BoxError, GroupVersion, Resource};

pub use hub::Hub;
pub use round_trip::{RoundTripError, hub_round_trips, spoke_round_trips};
pub(crate) use webhook::Conversions;

/// A version of a kind that converts to its hub, another version of the kind, and back.
///
/// What the hub cannot hold is lost on the way through it. The API server keeps the metadata by itself, apart from labels and
/// annotations. Whether something is lost, a test finds with [`spoke_round_trips`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not convert to `{Hub}`",
    note = "it takes an `impl Convert<{Hub}> for {Self}`"
)]
pub trait Convert<Hub>: Resource {
    /// The same object in the version of the hub.
    fn to_hub(self) -> Result<Hub, BoxError>;

    /// The object of the hub in this version.
    fn from_hub(hub: Hub) -> Result<Self, BoxError>;
}

/// Converts objects of one kind between any of its versions.
pub trait Converter: Send + Sync + 'static {
    /// The object in the version `to`; `apiVersion` and `kind` are set by the caller. A panic is contained.
    fn convert(&self, object: Value, to: &GroupVersion) -> impl Future<Output = Result<Value, BoxError>> + Send;
}

/// A [`Converter`] of whatever type.
pub(crate) trait DynConverter: Send + Sync {
    fn convert<'a>(&'a self, object: Value, to: &'a GroupVersion) -> BoxFuture<'a, Result<Value, BoxError>>;
}

impl<C: Converter> DynConverter for C {
    fn convert<'a>(&'a self, object: Value, to: &'a GroupVersion) -> BoxFuture<'a, Result<Value, BoxError>> {
        Box::pin(Converter::convert(self, object, to))
    }
}

#[cfg(test)]
mod tests;
