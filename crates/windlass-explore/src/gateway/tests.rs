//! Tests with a cluster, through the TLS socket.

mod attribution;
mod containers;
mod faults;
mod watches;
