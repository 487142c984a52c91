//! Command-line flags for the settings of a configuration file.

use std::{io::Write as _, net::IpAddr, path::PathBuf, process, time::Duration};

use clap::{ArgAction, Args};

use super::{ConfigurationError, LogFormat, LogLevel, ManagerConfiguration, TimeEncoding};
use crate::units;
use windlass_api::ErrorChain;

/// Command-line flags of a program that runs a manager: the flags of kubebuilder's programs, and a few more. Flatten
/// them into the program's own options:
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
    /// A configuration file; flags override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the resulting configuration and exit
    #[arg(long)]
    pub print_config: bool,

    /// The kubeconfig; defaults to $KUBECONFIG, ~/.kube/config or the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// The address of the metrics endpoint: host:port, :port, or 0 to disable it
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_bind_address: Option<String>,
    /// Serve metrics over TLS, only to clients that the cluster authorizes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub metrics_secure: Option<bool>,
    /// The directory of the metrics certificate; without it, a self-signed one is generated
    #[arg(long, value_name = "DIR")]
    pub metrics_cert_path: Option<PathBuf>,
    /// The file name of the metrics certificate
    #[arg(long, value_name = "FILE")]
    pub metrics_cert_name: Option<String>,
    /// The file name of the metrics key
    #[arg(long, value_name = "FILE")]
    pub metrics_cert_key: Option<String>,

    /// The address of the probe endpoint: host:port, :port, or 0 to disable it
    #[arg(long, value_name = "ADDRESS")]
    pub health_probe_bind_address: Option<String>,

    /// The address of the console: a loopback port, host:port, or 0 to disable it
    #[arg(long, value_name = "ADDRESS")]
    pub console: Option<String>,

    /// Reconcile only while elected as the leader among the replicas of this program
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: Option<bool>,
    /// The name of the lease
    #[arg(long, value_name = "NAME")]
    pub leader_election_id: Option<String>,
    /// The namespace of the lease
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,

    /// Share the work with the other replicas of this program
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub sharding: Option<bool>,
    /// The name of the sharding group
    #[arg(long, value_name = "NAME")]
    pub sharding_group: Option<String>,
    /// The namespace of the sharding leases
    #[arg(long, value_name = "NAMESPACE")]
    pub sharding_namespace: Option<String>,

    /// The IP address of the webhook server; defaults to all addresses
    #[arg(long, value_name = "IP")]
    pub webhook_host: Option<IpAddr>,
    /// The port of the webhook server
    #[arg(long, value_name = "PORT")]
    pub webhook_port: Option<u16>,
    /// The directory of the webhook certificate
    #[arg(long, value_name = "DIR")]
    pub webhook_cert_path: Option<PathBuf>,
    /// The file name of the webhook certificate
    #[arg(long, value_name = "FILE")]
    pub webhook_cert_name: Option<String>,
    /// The file name of the webhook key
    #[arg(long, value_name = "FILE")]
    pub webhook_cert_key: Option<String>,
    /// Serve webhooks over HTTP/2 as well
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_http2: Option<bool>,

    /// Cache only objects in this namespace; repeat the flag, or separate several by commas
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', action = ArgAction::Append)]
    pub watch_namespace: Vec<String>,
    /// The time for runnables to end at shutdown, for example 30s
    #[arg(long, value_name = "DURATION", value_parser = units::duration_of)]
    pub graceful_shutdown_timeout: Option<Duration>,

    /// The log level: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// The log format: text or json
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// The log level of a module; may be repeated
    #[arg(long, value_name = "TARGET=LEVEL", value_parser = target, action = ArgAction::Append)]
    pub log_target: Vec<(String, LogLevel)>,

    /// Log for development: text, level debug, source locations of warnings. With =false, log for production: json,
    /// level info, source locations of errors. Same as in Go programs; other --zap-* and --log-* flags override it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub zap_devel: Option<bool>,
    /// The log level in terms of zap: debug, info, error, panic (nothing), or a number: 1 for debug, higher for trace
    #[arg(long, value_name = "LEVEL", value_parser = zap_level)]
    pub zap_log_level: Option<LogLevel>,
    /// The log format in terms of Go programs: console or json
    #[arg(long, value_name = "FORMAT")]
    pub zap_encoder: Option<LogFormat>,
    /// The minimum level of log lines with source file and line: info, error or panic (none). Stack traces are not
    /// supported
    #[arg(long, value_name = "LEVEL", value_parser = zap_level)]
    pub zap_stacktrace_level: Option<LogLevel>,
    /// The timestamp format of log lines: epoch, millis, nano, iso8601, rfc3339 or rfc3339nano
    #[arg(long, value_name = "ENCODING")]
    pub zap_time_encoding: Option<TimeEncoding>,
}

impl ManagerFlags {
    /// Returns the resulting configuration: `defaults`, overridden by the file, the environment and the flags, in this
    /// order.
    pub fn configuration(&self, defaults: ManagerConfiguration) -> Result<ManagerConfiguration, ConfigurationError> {
        let config = match &self.config {
            Some(path) => defaults.with_file(path)?,
            None => defaults,
        };
        let config = self.over(config.with_environment()?);
        config.validate()?;
        Ok(config)
    }

    /// Returns the resulting configuration, for use in `main`. On an invalid configuration it prints the error and
    /// exits with status 2. With `--print-config` it prints the configuration and exits with status 0. This matches the
    /// behavior of clap's `parse`.
    #[must_use]
    pub fn configuration_or_exit(&self, defaults: ManagerConfiguration) -> ManagerConfiguration {
        let config = self.configuration(defaults).unwrap_or_else(|error| {
            // If stderr is closed, the error cannot be printed.
            let _ = writeln!(std::io::stderr(), "error: {}", ErrorChain(&error));
            process::exit(2)
        });
        if self.print_config {
            let _ = write!(std::io::stdout(), "{}", config.to_yaml());
            process::exit(0);
        }
        config
    }

    /// Overrides the configuration with the values of the flags.
    pub(super) fn over(&self, mut config: ManagerConfiguration) -> ManagerConfiguration {
        /// Each field with its flag.
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

/// Parses a level in the format of controller-runtime's zap flags: a name, or a verbosity above zero.
fn zap_level(text: &str) -> Result<LogLevel, String> {
    match text.parse::<u32>() {
        Ok(0) => Err("the verbosity must be greater than 0".to_owned()),
        Ok(1) => Ok(LogLevel::Debug),
        Ok(_) => Ok(LogLevel::Trace),
        // No message has the level panic.
        Err(_) if text.eq_ignore_ascii_case("panic") => Ok(LogLevel::Off),
        Err(_) => text.parse(),
    }
}

/// Parses `TARGET=LEVEL`.
fn target(text: &str) -> Result<(String, LogLevel), String> {
    let (target, level) = text.split_once('=').ok_or("expected TARGET=LEVEL, such as windlass_client=debug")?;
    Ok((target.to_owned(), level.parse()?))
}
