//! Accepting connections, with a pause after each failure.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time,
};

/// The pause after the first failure. Each further failure doubles it, as in Go's `net/http`.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A source of connections.
pub(crate) trait Listener: Send {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts a connection. Cancel-safe.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

/// Accepts the connections of a listener.
///
/// After a failure that would recur immediately, such as too many open files, it pauses for 5 ms. The pause doubles
/// with each failure, up to one second, until a connection is accepted.
#[derive(Debug)]
pub(crate) struct Acceptor<L> {
    listener: L,
    pause: Pause,
}

/// The pause after a failure.
#[derive(Debug, Default)]
struct Pause(Duration);

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // Fails if the client has disconnected, so the next accept need not wait.
        stream.set_nodelay(true).map_err(|error| io::Error::new(io::ErrorKind::ConnectionAborted, error))?;
        Ok((stream, peer))
    }
}

impl<L: Listener> Acceptor<L> {
    /// Creates an acceptor for a listener.
    pub(crate) fn new(listener: L) -> Self {
        Self { listener, pause: Pause::default() }
    }

    /// Returns the next connection. Calls `failed` for each failure that causes a pause, so that the server can close
    /// idle connections.
    ///
    /// Cancel-safe. Cancelling also ends a pause: the server does so when a connection ends and frees its descriptor.
    pub(crate) async fn next_or(&mut self, mut failed: impl FnMut()) -> (L::Stream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => {
                    self.pause = Pause::default();
                    return accepted;
                }
                // The client disconnected before the accept.
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    let pause = self.pause.next();
                    tracing::warn!(%error, ?pause, "cannot accept a connection, trying again after a pause");
                    failed();
                    time::sleep(pause).await;
                }
            }
        }
    }
}

impl Pause {
    fn next(&mut self) -> Duration {
        self.0 = if self.0.is_zero() { FIRST_PAUSE } else { LONGEST_PAUSE.min(self.0 * 2) };
        self.0
    }
}

/// Reports whether a failure affects one connection only, so that the next one can be accepted immediately.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second() {
        let mut pause = Pause::default();
        let pauses: Vec<u128> = std::iter::repeat_with(|| pause.next().as_millis()).take(10).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn lost_client_causes_no_pause() {
        assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
        // EMFILE and ENFILE.
        for code in [24, 23] {
            assert!(!is_of_one_connection(&io::Error::from_raw_os_error(code)), "{code}");
        }
    }
}
