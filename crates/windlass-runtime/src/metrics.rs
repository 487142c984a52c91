//! Metrics of controllers: [`ControllerMetrics`] receives measurements, [`Registry`] stores them in the Prometheus
//! format, and [`MetricsServer`] serves them.

mod access;
mod caches;
mod depth;
mod factory;
mod registry;
mod requests;
mod server;

pub(crate) use self::caches::{selector, short};
pub use self::{registry::Registry, requests::RequestCounter, server::MetricsServer};
pub use crate::observer::{ControllerMetrics, NoMetrics, UnfinishedProbe};
