//! Application of a configuration to a manager.

use std::{path::PathBuf, time::Duration};

use windlass_client::{Client, Config, Kubeconfig, RateLimit, config::Selection};

use super::{
    Access, Cache, Certificate, ConfigurationError, Connection, Controllers, LeaderElectionConfig,
    ManagerConfiguration, Metrics, ShardingConfig, checks,
};
use crate::{
    CacheOptions, ControllerDefaults, LeaderElection, ManagerBuilder, Sharding,
    health::Probes,
    metrics::{MetricsServer, Registry},
};

impl ManagerBuilder {
    /// Applies a configuration: metrics, probes and console, leader election, sharding, caches, controllers, and the
    /// grace period. The other sections have their own methods: [`Connection::connect`], [`Webhook::server`] and
    /// [`Logging::init`].
    ///
    /// ```no_run
    /// use windlass_runtime::{Manager, Result, config::ManagerConfiguration, shutdown};
    ///
    /// # async fn main_() -> Result<()> {
    /// let config = ManagerConfiguration::default().with_file("/etc/painter/config.yaml")?;
    /// let manager = Manager::builder(config.client.connect()?).configured(&config)?.build();
    /// manager.run(shutdown::signal()).await
    /// # }
    /// ```
    ///
    /// [`Webhook::server`]: super::Webhook::server
    /// [`Logging::init`]: super::Logging::init
    pub fn configured(mut self, config: &ManagerConfiguration) -> Result<Self, ConfigurationError> {
        config.validate()?;
        let metrics = config.metrics.clone();
        self = self
            .grace_period(config.graceful_shutdown_timeout)
            .changed_caches(|usual| config.cache.over(usual))
            .changed_controllers(|defaults| config.controllers.over(defaults))
            .probes(Probes::bind(&config.health.bind_address));
        for (name, of) in &config.controllers.overrides {
            self = self.override_controller(name, *of);
        }
        if !checks::is_off(&metrics.bind_address) {
            self = self.metrics_server(move |registry| metrics.server(registry));
        }
        if !checks::is_off(&config.console.bind_address) {
            self = self.console(config.console.bind_address.clone());
        }
        if config.leader_election.enabled {
            self = self.leader_election(LeaderElection::from(&config.leader_election));
        }
        if config.sharding.enabled {
            self = self.sharding(Sharding::from(&config.sharding));
        }
        Ok(self)
    }
}

impl Metrics {
    /// Creates a server for the metrics of a registry, for programs that add it to a manager themselves.
    pub fn server(&self, registry: &Registry) -> MetricsServer {
        let server = MetricsServer::bind(&self.bind_address, registry);
        let server = match (self.secure, self.certificate.files()) {
            (false, _) => server,
            (true, None) => server.secure(),
            (true, Some([certificate, key])) => server.secure_with_files(certificate, key),
        };
        let usual = if self.secure { Access::Authorized } else { Access::Everybody };
        match self.access.unwrap_or(usual) {
            Access::Authorized => server.for_authorized(),
            Access::Everybody => server,
        }
    }
}

impl Certificate {
    /// Returns the paths of the certificate and its key, if configured.
    fn files(&self) -> Option<[PathBuf; 2]> {
        self.path.as_ref().map(|path| [path.join(&self.name), path.join(&self.key)])
    }
}

impl Cache {
    /// Overrides the options that are configured, and retains the others.
    fn over(&self, mut options: CacheOptions) -> CacheOptions {
        if let Some(budget) = self.memory_budget {
            options = options.changed(|informer| informer.budget(budget));
        }
        if let Some(period) = self.resync {
            options = options.changed(|informer| informer.resync(period));
        }
        if self.namespaces.is_empty() { options } else { options.only_within(&self.namespaces) }
    }
}

impl Connection {
    /// Creates a client. Returns an error if the kubeconfig cannot be loaded.
    ///
    /// Reads a few small files synchronously.
    pub fn connect(&self) -> windlass_client::Result<Client> {
        let selection = Selection { context: self.context.clone(), ..Selection::default() };
        let config = match &self.kubeconfig {
            Some(path) => Config::from_kubeconfig(&Kubeconfig::read(path)?, &selection)?,
            None => Config::infer_with(&selection)?,
        };
        let client = Client::new(config)?;
        Ok(match self.rate_limit() {
            Some(limit) => client.with_rate_limit(limit),
            None => client,
        })
    }

    fn rate_limit(&self) -> Option<RateLimit> {
        // Clamps the interval to the range from one nanosecond to 292 years.
        let interval = Duration::try_from_secs_f64(self.qps?.recip()).unwrap_or(Duration::MAX);
        Some(RateLimit::new(interval, self.burst()))
    }

    fn burst(&self) -> u32 {
        let usual = self.qps.unwrap_or_default() * 1.5;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "floats saturate, as intended")]
        self.burst.unwrap_or(usual.ceil() as u32).max(1)
    }
}

#[cfg(feature = "webhook")]
impl super::Webhook {
    /// Creates a webhook server, to be added to a manager. Without a certificate directory, the program must set a
    /// certificate with [`windlass_webhook::Server::certificate`].
    pub fn server(&self, webhooks: windlass_webhook::Webhooks) -> windlass_webhook::Server {
        use std::net::{IpAddr, Ipv6Addr, SocketAddr};

        use windlass_webhook::{CertificateFiles, Server};

        let host = self.host.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let mut server = Server::new(webhooks).listen(SocketAddr::new(host, self.port));
        if let Some([certificate, key]) = self.certificate.files() {
            server = server.certificate_files(CertificateFiles::new(certificate, key));
        }
        if let Some(authorities) = &self.client_ca {
            server = server.client_ca(authorities);
        }
        if self.http2 { server } else { server.http1_only() }
    }
}

impl From<&LeaderElectionConfig> for LeaderElection {
    /// Converts the settings, ignoring `enabled`.
    fn from(election: &LeaderElectionConfig) -> Self {
        let mut held = Self::new(&election.id)
            .lease_duration(election.lease_duration)
            .renew_deadline(election.renew_deadline)
            .retry_period(election.retry_period);
        if let Some(namespace) = &election.namespace {
            held = held.namespace(namespace);
        }
        if election.release_on_cancel { held.release_on_stop() } else { held }
    }
}

impl From<&ShardingConfig> for Sharding {
    /// Converts the settings, ignoring `enabled`.
    fn from(shards: &ShardingConfig) -> Self {
        let sharding = Self::new(&shards.group)
            .lease_duration(shards.lease_duration)
            .renew_deadline(shards.renew_deadline)
            .retry_period(shards.retry_period)
            .margin(shards.margin)
            .patience(shards.patience);
        match &shards.namespace {
            Some(namespace) => sharding.namespace(namespace),
            None => sharding,
        }
    }
}

impl Controllers {
    /// Overrides the defaults that are configured, and retains the others.
    fn over(&self, mut defaults: ControllerDefaults) -> ControllerDefaults {
        if let Some(workers) = self.concurrency {
            defaults = defaults.concurrency(workers.get());
        }
        for (kind, workers) in &self.group_kind_concurrency {
            defaults = defaults.concurrency_of(checks::group_kind(kind), workers.get());
        }
        if let Some(timeout) = self.cache_sync_timeout {
            defaults = defaults.sync_timeout(timeout);
        }
        if let Some(limit) = self.reconcile_timeout {
            defaults = defaults.reconcile_timeout(limit);
        }
        defaults
    }
}

#[cfg(test)]
mod tests {
    use windlass_cache::InformerOptions;

    use super::*;

    #[test]
    fn caches_change_only_for_configured_fields() {
        let program = || CacheOptions::within("program").informer(InformerOptions::default().budget(7).labels("app=a"));
        let shown = |options: CacheOptions| format!("{options:?}");
        assert_eq!(shown(Cache::default().over(program())), shown(program()));

        let said = Cache {
            namespaces: vec!["other".into(), "file".into()],
            resync: Some(Duration::from_secs(9)),
            memory_budget: Some(5),
        };
        let expected = InformerOptions::default().labels("app=a").budget(5).resync(Duration::from_secs(9));
        let expected = CacheOptions::within_each(["other", "file"]).informer(expected);
        assert_eq!(shown(said.over(program())), shown(expected.clone()));
        let of_several = program().namespace("file", InformerOptions::default());
        let own = InformerOptions::default().budget(5).resync(Duration::from_secs(9));
        assert_eq!(
            shown(said.over(of_several)),
            shown(expected.namespace("file", own)),
            "what a namespace has of its own"
        );
    }

    #[test]
    fn burst_defaults_to_one_and_a_half_qps() {
        let burst = |qps| Connection { qps: Some(qps), ..Connection::default() }.burst();
        assert_eq!([20.0, 0.1, 1e20].map(burst), [30, 1, u32::MAX]);
        assert!(Connection::default().rate_limit().is_none());
    }
}
