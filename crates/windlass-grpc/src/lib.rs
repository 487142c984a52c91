//! A small gRPC client: messages over one HTTP/2 connection.
//!
//! The modules, from the entry point down:
//!
//! ```text
//! testing     a server for tests
//! connection  calls on one connection
//! message     frames with a length, and the status in trailers
//! status      the errors of calls
//! ```
//!
//! # Guarantees
//!
//! - A failed call reports whether its request may have been executed: [`CallError`].
//! - A message that is longer than the limit of the connection is an error, and a length reserves at most 1 MiB before
//!   the message arrives.
//!
//! # Not guaranteed
//!
//! - Calls have no time limit. Use `tokio::time::timeout`.
//! - There is no compression, and a connection that is lost stays lost.

#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod connection;
mod message;
mod status;

pub use self::{
    connection::{Connection, KeepAlive, Settings},
    message::{Messages, decode, frame},
    status::{CallError, Status, chain, code},
};

/// The example of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
