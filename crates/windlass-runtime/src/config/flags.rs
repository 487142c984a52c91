//! Flags that say what a configuration file says.

use std::{io::Write as _, net::IpAddr, path::PathBuf, process, time::Duration};

use clap::{ArgAction, Args};

use super::{ConfigurationError, LogFormat, LogLevel, ManagerConfiguration, TimeEncoding, units};
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
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// How it is logged: text or json
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What is logged of a part of the program; may be given again
    #[arg(long, value_name = "TARGET=LEVEL", value_parser = target, action = ArgAction::Append)]
    pub log_target: Vec<(String, LogLevel)>,

    /// Log for development: text, from debug on, with the source of warnings; with =false for production: json, from info on, with the source of errors. As in Go's programs; --zap-* and --log-* override it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub zap_devel: Option<bool>,
    /// The level of the log in the terms of zap: debug, info, error, panic (nothing), or 1 for debug and more for trace
    #[arg(long, value_name = "LEVEL", value_parser = zap_level)]
    pub zap_log_level: Option<LogLevel>,
    /// How it is logged, as Go's programs say it: console or json
    #[arg(long, value_name = "FORMAT")]
    pub zap_encoder: Option<LogFormat>,
    /// From which level on lines carry file and line of the source: info, error or panic (none). There are no stack traces
    #[arg(long, value_name = "LEVEL", value_parser = zap_level)]
    pub zap_stacktrace_level: Option<LogLevel>,
    /// The time in front of a line: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano
    #[arg(long, value_name = "ENCODING")]
    pub zap_time_encoding: Option<TimeEncoding>,
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
        if let Some(is_development) = self.zap_devel {
            let (level, format, location) = if is_development {
                (LogLevel::Debug, LogFormat::Text, LogLevel::Warn)
            } else {
                (LogLevel::Info, LogFormat::Json, LogLevel::Error)
            };
            (config.logging.level, config.logging.format) = (level, format);
            config.logging.location_level = Some(location);
        }
        set! {
            logging.level = zap_log_level;
            logging.format = zap_encoder;
            logging.location_level = zap_stacktrace_level;
            logging.time_encoding = zap_time_encoding;
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

/// Parses a level as controller-runtime's zap flags have it: a name, or a verbosity above zero.
fn zap_level(text: &str) -> Result<LogLevel, String> {
    match text.parse::<u32>() {
        Ok(0) => Err("a verbosity is greater than 0".to_owned()),
        Ok(1) => Ok(LogLevel::Debug),
        Ok(_) => Ok(LogLevel::Trace),
        // Nothing here is logged as a panic.
        Err(_) if text.eq_ignore_ascii_case("panic") => Ok(LogLevel::Off),
        Err(_) => text.parse(),
    }
}

/// `TARGET=LEVEL`
fn target(text: &str) -> Result<(String, LogLevel), String> {
    let (target, level) = text.split_once('=').ok_or("a target and a level are expected: windlass_client=debug")?;
    Ok((target.to_owned(), level.parse()?))
}
