//! The socket layer of all servers in Windlass: the API server, webhooks, metrics and probes, and `windlass proxy`.
//!
//! - [`Acceptor`] accepts connections and backs off while the process has no file descriptors.
//! - [`WriteTimeout`] fails a connection whose peer does not read.

mod acceptor;
mod write_timeout;

pub use self::{acceptor::Acceptor, write_timeout::WriteTimeout};
