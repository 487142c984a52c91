//! Flags that say what a configuration file says.

use std::{io::Write as _, net::IpAddr, path::PathBuf, process, time::Duration};

use clap::{ArgAction, Args};

use super::{ConfigurationError, LogFormat, LogLevel, ManagerConfiguration, units};
use windlass_api::ErrorChain;

/// Flags of a program that runs a manager: those that kubebuilder's programs have, and a few more. They are part of the
/// program's own:
///
/// ```
/// use clap::Parser;
/// use windlass_runtime::config::{ManagerConfiguration, ManagerFlags};
///
/// #[derive(Parser)]
/// struct Options {
///     #[command(flatten)]
///     manager: ManagerFlags,
/// }
///
/// let options = Options::parse_from(["painter", "--leader-elect", "--metrics-bind-address=:8443"]);
/// let mut defaults = ManagerConfiguration::default();
/// defaults.leader_election.id = "painter.example.com".into();
/// let config = options.manager.configuration(defaults)?;
/// assert!(config.leader_election.enabled);
/// # Ok::<_, windlass_runtime::config::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Manager")]
#[non_exhaustive]
pub struct ManagerFlags {
    /// A file with the configuration; flags stand above it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the configuration that would hold, and end
    #[arg(long)]
    pub print_config: bool,

    /// The kubeconfig; by default $KUBECONFIG, ~/.kube/config or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Where metrics are shown: host:port, :port, or 0 for nowhere
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_bind_address: Option<String>,
    /// Show metrics over TLS, to those whom the cluster lets
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub metrics_secure: Option<bool>,
    /// The directory of the certificate for metrics; without it, one is made
    #[arg(long, value_name = "DIR")]
    pub metrics_cert_path: Option<PathBuf>,
    /// The file of the certificate there
    #[arg(long, value_name = "FILE")]
    pub metrics_cert_name: Option<String>,
    /// The file of its key there
    #[arg(long, value_name = "FILE")]
    pub metrics_cert_key: Option<String>,

    /// Where probes are answered: host:port, :port, or 0 for nowhere
    #[arg(long, value_name = "ADDRESS")]
    pub health_probe_bind_address: Option<String>,

    /// Where a browser is shown what goes on: a port of this machine, host:port, or 0 for nowhere
    #[arg(long, value_name = "ADDRESS")]
    pub console: Option<String>,

    /// Act only while elected among the processes that run this program
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: Option<bool>,
    /// The name of the lease
    #[arg(long, value_name = "NAME")]
    pub leader_election_id: Option<String>,
    /// The namespace of the lease
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,

    /// Share the work with the other processes that run this program
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub sharding: Option<bool>,
    /// The name of those who share it
    #[arg(long, value_name = "NAME")]
    pub sharding_group: Option<String>,
    /// The namespace of their leases
    #[arg(long, value_name = "NAMESPACE")]
    pub sharding_namespace: Option<String>,

    /// The address at which webhooks are asked; by default each of the machine's
    #[arg(long, value_name = "IP")]
    pub webhook_host: Option<IpAddr>,
    /// The port of webhooks
    #[arg(long, value_name = "PORT")]
    pub webhook_port: Option<u16>,
    /// The directory of the certificate for webhooks
    #[arg(long, value_name = "DIR")]
    pub webhook_cert_path: Option<PathBuf>,
    /// The file of the certificate there
    #[arg(long, value_name = "FILE")]
    pub webhook_cert_name: Option<String>,
    /// The file of its key there
    #[arg(long, value_name = "FILE")]
    pub webhook_cert_key: Option<String>,
    /// Let webhooks be called by HTTP/2
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_http2: Option<bool>,

    /// Look only at what is in this namespace; may be given again, or name several with commas between
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', action = ArgAction::Append)]
    pub watch_namespace: Vec<String>,
    /// How long what runs may take to end: 30s
    #[arg(long, value_name = "DURATION", value_parser = units::duration_of)]
    pub graceful_shutdown_timeout: Option<Duration>,

    /// What is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", alias = "zap-log-level")]
    pub log_level: Option<LogLevel>,
    /// How it is logged: text or json
    #[arg(long, value_name = "FORMAT", alias = "zap-encoder")]
    pub log_format: Option<LogFormat>,
    /// What is logged of a part of the program; may be given again
    #[arg(long, value_name = "TARGET=LEVEL", value_parser = target, action = ArgAction::Append)]
    pub log_target: Vec<(String, LogLevel)>,
}

impl ManagerFlags {
    /// The configuration in the end: `defaults`, and above them the file, the environment and the flags, in this order.
    pub fn configuration(&self, defaults: ManagerConfiguration) -> Result<ManagerConfiguration, ConfigurationError> {
        let config = match &self.config {
            Some(path) => defaults.with_file(path)?,
            None => defaults,
        };
        let config = self.over(config.with_environment()?);
        config.validate()?;
        Ok(config)
    }

    /// The same for a `main`: what cannot be used is told, and ends the process with status 2; `--print-config` prints, and ends
    /// it with 0. As clap's `parse` does with what it finds.
    #[must_use]
    pub fn configuration_or_exit(&self, defaults: ManagerConfiguration) -> ManagerConfiguration {
        let config = self.configuration(defaults).unwrap_or_else(|error| {
            // Whoever has closed our output is not there to be told.
            let _ = writeln!(std::io::stderr(), "error: {}", ErrorChain(&error));
            process::exit(2)
        });
        if self.print_config {
            let _ = write!(std::io::stdout(), "{}", config.to_yaml());
            process::exit(0);
        }
        config
    }

    /// What the flags say, in place of what there is.
    pub(super) fn over(&self, mut config: ManagerConfiguration) -> ManagerConfiguration {
        /// Each field with the flag that stands above it.
        macro_rules! set {
            ($($($field:ident).+ = $flag:ident;)+) => {
                $(if let Some(value) = &self.$flag {
                    config.$($field).+ = value.clone().into();
                })+
            };
        }
        set! {
            client.kubeconfig = kubeconfig;
            client.context = context;
            metrics.bind_address = metrics_bind_address;
            metrics.secure = metrics_secure;
            metrics.certificate.path = metrics_cert_path;
            metrics.certificate.name = metrics_cert_name;
            metrics.certificate.key = metrics_cert_key;
            health.bind_address = health_probe_bind_address;
            console.bind_address = console;
            leader_election.enabled = leader_elect;
            leader_election.id = leader_election_id;
            leader_election.namespace = leader_election_namespace;
            sharding.enabled = sharding;
            sharding.group = sharding_group;
            sharding.namespace = sharding_namespace;
            webhook.host = webhook_host;
            webhook.port = webhook_port;
            webhook.certificate.path = webhook_cert_path;
            webhook.certificate.name = webhook_cert_name;
            webhook.certificate.key = webhook_cert_key;
            webhook.http2 = enable_http2;
            graceful_shutdown_timeout = graceful_shutdown_timeout;
            logging.level = log_level;
            logging.format = log_format;
        }
        if !self.watch_namespace.is_empty() {
            config.cache.namespaces.clone_from(&self.watch_namespace);
        }
        config.logging.targets.extend(self.log_target.iter().cloned());
        config
    }
}

/// `TARGET=LEVEL`
fn target(text: &str) -> Result<(String, LogLevel), String> {
    let (target, level) = text.split_once('=').ok_or("a target and a level are expected: windlass_client=debug")?;
    Ok((target.to_owned(), level.parse()?))
}
