//! The configuration of a program that runs a manager: a file, and flags that say the same.
//!
//! A [`ManagerConfiguration`] begins with what the program finds right, and changes with whatever stands above: the file, the
//! environment, the flags. [`ManagerBuilder::configured`](crate::ManagerBuilder::configured) applies it, and each part says what
//! its fields do:
//!
//! ```yaml
//! apiVersion: windlass.dev/v1alpha1
//! kind: ManagerConfiguration
//! metrics: {bindAddress: ":8443", secure: true}
//! health: {bindAddress: ":8081"}
//! leaderElection: {enabled: true, id: painter.example.com, leaseDuration: 15s}
//! controllers:
//!   groupKindConcurrency: {Deployment.apps: 4}
//!   overrides: {painter: {concurrency: 8, reconcileTimeout: 1m}}
//! cache: {namespaces: [shop, stock], memoryBudget: 64Mi}
//! logging: {level: info, format: json, targets: {windlass_client: debug}}
//! ```
//!
//! The features: `config` for all of this, `flags` for [`ManagerFlags`], `logging` for [`Logging::init`].
//!
//! # What is guaranteed
//!
//! - Nothing is passed over: a field that is not known, or a value that makes no sense, is an error that names the file, the
//!   place and the field.
//! - What a file or a flag does not say stays as the program has it.
//! - What [`ManagerConfiguration::to_yaml`] writes is read as the same configuration.
//!
//! # What is not
//!
//! - The file is read once. Who changes it starts the program again; only certificates are read again while it runs.
//! - Fields that programs add themselves have no place in the file.

mod apply;
mod document;
mod error;
#[cfg(feature = "flags")]
mod flags;
mod logging;
mod parts;
mod rules;
pub(crate) mod units;

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(feature = "flags")]
pub use self::flags::ManagerFlags;
pub use self::{
    error::ConfigurationError,
    logging::{LogFormat, LogLevel, Logging, TimeEncoding},
    parts::{
        Access, Cache, Certificate, Connection, ConsoleAddress, Controllers, Election, Health, Metrics, Shards, Webhook,
    },
};

/// Everything about a manager that whoever runs the program may want to choose.
///
/// Its defaults are those of the programs that kubebuilder makes; a program changes them before it reads a file or flags:
///
/// ```
/// use windlass_runtime::config::ManagerConfiguration;
///
/// let mut defaults = ManagerConfiguration::default();
/// defaults.leader_election.id = "painter.example.com".into();
/// let text = "{apiVersion: windlass.dev/v1alpha1, kind: ManagerConfiguration, leaderElection: {enabled: true}}";
/// let config = defaults.with_text(text)?;
/// assert!(config.leader_election.enabled);
/// assert_eq!(config.leader_election.id, "painter.example.com");
/// # Ok::<_, windlass_runtime::config::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ManagerConfiguration {
    api_version: ApiVersion,
    kind: Kind,
    /// Where numbers are shown, and to whom.
    #[serde(default)]
    pub metrics: Metrics,
    /// Where probes are answered.
    #[serde(default)]
    pub health: Health,
    /// Where a browser is shown what goes on.
    #[serde(default)]
    pub console: ConsoleAddress,
    /// Whether one of several processes is to lead, and how it is found.
    #[serde(default)]
    pub leader_election: Election,
    /// Whether several processes share the keys, and how they find each other.
    #[serde(default)]
    pub sharding: Shards,
    /// Where webhooks are served.
    #[serde(default)]
    pub webhook: Webhook,
    /// How long runnables may take to end before they are aborted; 30 seconds.
    #[serde(default = "grace", with = "units::duration")]
    pub graceful_shutdown_timeout: Duration,
    /// What caches hold.
    #[serde(default)]
    pub cache: Cache,
    /// How controllers run.
    #[serde(default)]
    pub controllers: Controllers,
    /// How the cluster is reached.
    #[serde(default)]
    pub client: Connection,
    /// What is logged, and how.
    #[serde(default)]
    pub logging: Logging,
}

/// What a file says first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum ApiVersion {
    #[default]
    #[serde(rename = "windlass.dev/v1alpha1")]
    V1Alpha1,
}

/// What a file says second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[default]
    ManagerConfiguration,
}

const fn grace() -> Duration {
    Duration::from_secs(30)
}

impl Default for ManagerConfiguration {
    fn default() -> Self {
        Self {
            api_version: ApiVersion::default(),
            kind: Kind::default(),
            metrics: Metrics::default(),
            health: Health::default(),
            console: ConsoleAddress::default(),
            leader_election: Election::default(),
            sharding: Shards::default(),
            webhook: Webhook::default(),
            graceful_shutdown_timeout: grace(),
            cache: Cache::default(),
            controllers: Controllers::default(),
            client: Connection::default(),
            logging: Logging::default(),
        }
    }
}

#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod tests;
