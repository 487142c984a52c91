//! Conversion of custom resources between the versions of their kind.
//!
//! One version is the hub; the others are spokes that [`Convert`] to the hub and back. With n versions you write n − 1
//! conversions, each in both directions. A [`Converter`] converts between all versions without types.

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

/// A version of a kind that converts to the kind's hub version and back.
///
/// Data that the hub cannot represent is lost in a conversion. The API server itself preserves metadata, except for
/// labels and annotations. Use [`spoke_round_trips`] in a test to detect losses.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not convert to `{Hub}`",
    note = "implement `Convert<{Hub}>` for `{Self}`"
)]
pub trait Convert<Hub>: Resource {
    /// Converts the object to the hub version.
    fn to_hub(self) -> Result<Hub, BoxError>;

    /// Converts an object of the hub version to this version.
    fn from_hub(hub: Hub) -> Result<Self, BoxError>;
}

/// Converts objects of one kind between any of its versions.
pub trait Converter: Send + Sync + 'static {
    /// Returns the object in the version `to`. The caller sets `apiVersion` and `kind`. A panic is contained.
    fn convert(&self, object: Value, to: &GroupVersion) -> impl Future<Output = Result<Value, BoxError>> + Send;
}

/// A [`Converter`] as a trait object.
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
