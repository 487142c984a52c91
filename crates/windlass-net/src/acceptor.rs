//! Accepting connections, with a pause after each failure.

use std::{io, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    time,
};

/// The pause after the first failure. Each further failure doubles it, as in Go's `net/http`.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Accepts the connections of a listener.
///
/// After a failure that would recur immediately, such as too many open files, it pauses for 5 ms. The pause doubles
/// with each failure, up to one second, until a connection is accepted.
#[derive(Debug)]
pub struct Acceptor<'l> {
    listener: &'l TcpListener,
    pause: Pause,
}

/// The pause after a failure.
#[derive(Debug, Default)]
struct Pause(Duration);

impl<'l> Acceptor<'l> {
    /// Creates an acceptor for a listener.
    #[must_use]
    pub fn new(listener: &'l TcpListener) -> Self {
        Self { listener, pause: Pause::default() }
    }

    /// Returns the next connection. Cancel-safe.
    pub async fn next(&mut self) -> TcpStream {
        self.next_or(|_| ()).await
    }

    /// Returns the next connection. Calls `failed` for each failure that causes a pause, so that the server can close
    /// idle connections. Cancel-safe.
    pub async fn next_or(&mut self, mut failed: impl FnMut(&io::Error)) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    self.pause = Pause::default();
                    return stream;
                }
                // The client disconnected before the accept.
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    let pause = self.pause.next();
                    tracing::warn!(%error, ?pause, "cannot accept a connection, trying again after a pause");
                    failed(&error);
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
    fn only_lost_clients_are_not_followed_by_a_pause() {
        assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
        // EMFILE and ENFILE.
        for code in [24, 23] {
            assert!(!is_of_one_connection(&io::Error::from_raw_os_error(code)), "{code}");
        }
    }
}
