//! An embedded Kubernetes API server, in process or over HTTPS

mod codec;
mod patch;
mod watch_cache;

pub mod storage;
