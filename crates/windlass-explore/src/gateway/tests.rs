//! Tests with a cluster, through the TLS socket.

mod attribution;
mod faults;
mod watches;
