//! A plugin behind a Unix socket.

use std::{error::Error as StdError, io, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use http::HeaderMap;
use parking_lot::Mutex;
use prost::Message;
use tokio::time::{self, Instant};
use windlass_grpc::{CallError, Connection, Settings, chain, decode, frame};

use super::{
    endpoint::Endpoint,
    messages::{DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse},
    service::{Answer, Service},
};

const STATUS: &str = "/v2.KeyManagementService/Status";
const ENCRYPT: &str = "/v2.KeyManagementService/Encrypt";
const DECRYPT: &str = "/v2.KeyManagementService/Decrypt";

/// The scheme and the authority of requests, as in kube-apiserver.
const ORIGIN: &str = "http://localhost";

/// The pauses between attempts at a call: the first one, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A client of a plugin. It connects with the first call, and again after the connection is lost.
#[derive(Debug)]
pub(super) struct Plugin {
    endpoint: Endpoint,
    timeout: Duration,
    connection: Mutex<Option<Connection>>,
    /// Held while a connection is established, so that there is one. Not held during calls.
    connecting: tokio::sync::Mutex<()>,
}

impl Plugin {
    pub(super) fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        Self { endpoint, timeout, connection: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// Makes a call. Until the timeout, it waits for a plugin that does not run yet, and repeats the call on another
    /// connection if one is lost: a plugin may restart.
    async fn call<R: Message + Default>(&self, path: &'static str, request: &impl Message) -> Result<R, String> {
        let request = frame(request);
        let deadline = Instant::now() + self.timeout;
        let mut last = None;
        let error = if let Ok(answer) = time::timeout_at(deadline, self.attempts(path, request, &mut last)).await {
            match answer.and_then(decode) {
                Ok(response) => return Ok(response),
                Err(error) => chain(&error),
            }
        } else {
            let last = last.map(|error: CallError| format!(": {}", chain(&error))).unwrap_or_default();
            format!("no response within {:?}{last}", self.timeout)
        };
        let method = path.rsplit('/').next().unwrap_or_default();
        Err(format!("cannot call {method} of the plugin at {}: {error}", self.endpoint))
    }

    /// Repeats a call until the plugin has responded.
    async fn attempts(
        &self,
        path: &'static str,
        request: Bytes,
        last: &mut Option<CallError>,
    ) -> Result<Bytes, CallError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.attempt(path, request.clone()).await {
                Err(error @ (CallError::Unsent(_) | CallError::Lost(_))) => error,
                answered => return answered,
            };
            *last = Some(error);
            time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    async fn attempt(&self, path: &'static str, request: Bytes) -> Result<Bytes, CallError> {
        self.connection().await?.unary(path, &HeaderMap::new(), request).await
    }

    async fn connection(&self) -> Result<Connection, CallError> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let socket = connect(self.endpoint.path()).await.map_err(|error| CallError::Unsent(error.into()))?;
        let (connection, driver) = Connection::handshake(socket, ORIGIN, Settings::default()).await?;
        let endpoint = self.endpoint.to_string();
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(endpoint, error = &error as &dyn StdError, "a connection to a KMS plugin was lost");
            }
        });
        *self.connection.lock() = Some(connection.clone());
        Ok(connection)
    }

    fn current(&self) -> Option<Connection> {
        self.connection.lock().as_ref().filter(|connection| !connection.is_closed()).cloned()
    }
}

#[cfg(unix)]
async fn connect(path: &str) -> io::Result<tokio::net::UnixStream> {
    tokio::net::UnixStream::connect(path).await
}

#[cfg(not(unix))]
async fn connect(_: &str) -> io::Result<tokio::net::TcpStream> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
}

impl Service for Plugin {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn status(&self, request: StatusRequest) -> Answer<'_, StatusResponse> {
        async move { self.call(STATUS, &request).await }.boxed()
    }

    fn encrypt(&self, request: EncryptRequest) -> Answer<'_, EncryptResponse> {
        async move { self.call(ENCRYPT, &request).await }.boxed()
    }

    fn decrypt(&self, request: DecryptRequest) -> Answer<'_, DecryptResponse> {
        async move { self.call(DECRYPT, &request).await }.boxed()
    }
}
