//! The common part of all reviews: kind, versions and responses.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::body::RequestError;

/// The supported versions of one review kind.
pub(crate) struct Family {
    pub(crate) kind: &'static str,
    /// The first version is used in responses to requests without a version.
    pub(crate) versions: &'static [&'static str],
}

/// A parsed review of a family.
pub(crate) struct Review {
    pub(crate) api_version: String,
    pub(crate) fields: Map<String, Value>,
}

impl Family {
    /// Parses a document as a review.
    pub(crate) fn read(&self, document: Value) -> Result<Review, RequestError> {
        let Value::Object(mut fields) = document else {
            return Err(RequestError::undecodable(format_args!("expected one {}", self.kind)));
        };
        let mut text = |field: &str| match fields.shift_remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(_) => Err(RequestError::undecodable(format_args!("{field} is not a string"))),
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let api_version = api_version.unwrap_or_else(|| self.versions[0].to_owned());
        let kind = kind.unwrap_or_else(|| self.kind.to_owned());
        if kind != self.kind || !self.versions.contains(&api_version.as_str()) {
            return Err(RequestError::undecodable(format_args!(
                "no kind {kind:?} is registered for version {api_version:?}"
            )));
        }
        Ok(Review { api_version, fields })
    }

    /// Returns a response to a review of `api_version`, or to an unreadable document.
    pub(crate) fn answer(&self, api_version: Option<&str>, field: &str, value: Value) -> Value {
        let api_version = api_version.unwrap_or(self.versions[0]);
        Value::Object(Map::from_iter([
            ("apiVersion".to_owned(), api_version.into()),
            ("kind".to_owned(), self.kind.into()),
            (field.to_owned(), value),
        ]))
    }
}

impl Review {
    /// Decodes the request part of a review.
    pub(crate) fn part<T: DeserializeOwned>(&mut self, field: &str) -> Result<T, RequestError> {
        match self.fields.shift_remove(field) {
            None | Some(Value::Null) => Err(RequestError::undecodable(format_args!("the review has no {field}"))),
            Some(part) => T::deserialize(part).map_err(RequestError::undecodable),
        }
    }
}

/// Runs a handler and catches its panic. Returns the panic message as the error.
pub(crate) async fn contained<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)");
        tracing::error!(panic = text, "a webhook panicked");
        text.to_owned()
    })
}
