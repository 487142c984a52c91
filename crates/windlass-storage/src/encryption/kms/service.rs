//! The calls of a plugin.

use std::{fmt, time::Duration};

use futures::future::BoxFuture;

use super::messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};

/// The result of a call. The error names the call and the plugin.
pub(super) type Answer<'a, T> = BoxFuture<'a, Result<T, String>>;

/// A plugin. Each call is safe to repeat, and ends after the timeout.
pub(super) trait Service: fmt::Debug + Send + Sync {
    fn timeout(&self) -> Duration;

    fn status(&self, request: StatusRequest) -> Answer<'_, StatusResponse>;

    fn encrypt(&self, request: EncryptRequest) -> Answer<'_, EncryptResponse>;

    fn decrypt(&self, request: DecryptRequest) -> Answer<'_, DecryptResponse>;
}
