//! Connections that continue with another protocol, such as WebSocket.

use std::{any::Any, fmt, future::Future, pin::Pin, sync::Arc};

use http::Extensions;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

/// The bytes of a connection after the response with code 101.
pub type UpgradedStream = TokioIo<Upgraded>;

/// The permission to continue a connection with another protocol. It is an extension of HTTP/1.1 requests with the header
/// `Upgrade`.
///
/// An application that uses it leaves the connection to this server, with all its limits and its shutdown.
#[derive(Clone)]
pub struct Upgrade {
    stream: OnUpgrade,
    upgraded: UpgradedWork,
    /// Dropped when the work ends.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// The work on a connection after HTTP, if an application has set it.
#[derive(Clone, Default)]
pub(crate) struct UpgradedWork(Arc<Mutex<Option<Work>>>);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Upgrade {
    /// Drops a value when the work ends, or when there will be none. An application that passes the request on can so
    /// follow the work of another one. Replaces the value of an earlier call.
    #[must_use]
    pub fn keep(self, value: impl Any + Send + Sync) -> Self {
        Self { kept: Some(Arc::new(value)), ..self }
    }

    /// Sets the work on the connection after the response. It is dropped unless the response has code 101, and when the
    /// connection must be closed.
    pub fn run<F>(self, work: impl FnOnce(UpgradedStream) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { stream, upgraded, kept } = self;
        let work = Box::pin(async move {
            let _kept = kept;
            match stream.await {
                Ok(stream) => work(TokioIo::new(stream)).await,
                Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
            }
        });
        *upgraded.0.lock() = Some(work);
    }
}

impl UpgradedWork {
    /// Adds an [`Upgrade`] to the extensions of a request that asks for another protocol.
    pub(crate) fn offer(&self, extensions: &mut Extensions) {
        if let Some(stream) = extensions.get::<OnUpgrade>().cloned() {
            extensions.insert(Upgrade { stream, upgraded: self.clone(), kept: None });
        }
    }

    /// Takes the work, if there is any.
    pub(crate) fn take(&self) -> Option<Work> {
        self.0.lock().take()
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade").finish_non_exhaustive()
    }
}
