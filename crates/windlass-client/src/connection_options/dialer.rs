//! Connections opened by a custom function.

use std::{fmt, future::Future, io, sync::Arc};

use futures::future::{BoxFuture, FutureExt as _};
use tokio::io::{AsyncRead, AsyncWrite};

type Dial = dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Box<dyn Wire>>> + Send + Sync;

/// A function that opens connections and replaces the built-in TCP connector: for example with a Unix socket, a tunnel,
/// or a connection within this process. TLS and proxies are layered on top, as with TCP.
///
/// The function receives the host and port of the server or proxy. Its duration counts towards
/// [`Config::connect_timeout`](crate::config::Config::connect_timeout).
///
/// ```
/// use tokio::net::TcpStream;
/// use windlass_client::{Config, config::Dialer};
///
/// let config = Config::new("https://cluster.example".parse()?);
/// let config = config.with_dialer(Dialer::new(|_host, port| TcpStream::connect(("10.0.0.7", port))));
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
#[derive(Clone)]
pub struct Dialer(Arc<Dial>);

/// The requirements on a connection.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Dialer {
    /// Creates a dialer that calls `dial`.
    pub fn new<D, F, W>(dial: D) -> Self
    where
        D: Fn(String, u16) -> F + Send + Sync + 'static,
        F: Future<Output = io::Result<W>> + Send + 'static,
        W: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self(Arc::new(move |host, port| {
            let dialed = dial(host, port);
            async move { Ok(Box::new(dialed.await?) as Box<dyn Wire>) }.boxed()
        }))
    }

    pub(crate) async fn dial(&self, host: String, port: u16) -> io::Result<Box<dyn Wire>> {
        (self.0)(host, port).await
    }
}

/// Two dialers are equal if one is a clone of the other.
impl PartialEq for Dialer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Dialer {}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}
