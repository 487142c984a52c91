//! Metrics of controllers: [`ControllerMetrics`] receives measurements, [`Registry`] stores them in the Prometheus
//! format, and [`MetricsServer`] serves them. The last two require the feature `metrics`.

#[cfg(feature = "metrics")]
mod access;
#[cfg(feature = "metrics")]
mod caches;
#[cfg(feature = "metrics")]
mod depth;
#[cfg(feature = "metrics")]
mod factory;
#[cfg(feature = "metrics")]
mod registry;
#[cfg(feature = "metrics")]
mod requests;
#[cfg(feature = "metrics")]
mod server;
#[cfg(all(feature = "metrics", feature = "sharding"))]
mod shards;
#[cfg(all(feature = "certificates", feature = "metrics"))]
mod tls;

#[cfg(feature = "metrics")]
pub use self::{registry::Registry, requests::RequestCounter, server::MetricsServer};
pub use crate::observer::{ControllerMetrics, NoMetrics, UnfinishedProbe};
