//! Tests of parsing, validation, flags and the log. `tests/runtime/configured.rs` tests the effects on a manager.

use std::num::NonZeroUsize;

use super::*;
use crate::ControllerOverride;

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: ManagerConfiguration\n";

/// Every field with a value that is not its default.
pub(super) const WHOLE: &str = r#"apiVersion: windlass.dev/v1alpha1
kind: ManagerConfiguration
metrics:
  bindAddress: ":8443"
  secure: false
  access: everybody
  certificate:
    path: /certs/metrics
    name: metrics.crt
    key: metrics.key
health:
  bindAddress: 127.0.0.1:8082
console:
  bindAddress: 127.0.0.1:9090
leaderElection:
  enabled: true
  id: painter.example.com
  namespace: painters
  leaseDuration: 30s
  renewDeadline: 20s
  retryPeriod: 1.5s
  releaseOnCancel: true
sharding:
  enabled: true
  group: painters
  namespace: painters
  leaseDuration: 40s
  renewDeadline: 30s
  retryPeriod: 2.5s
  margin: 1s
  patience: 2m0s
webhook:
  host: "::1"
  port: 10250
  http2: true
  certificate:
    path: /certs/webhook
    name: webhook.crt
    key: webhook.key
  clientCA: /certs/clients.crt
gracefulShutdownTimeout: 1m0s
cache:
  namespaces:
  - shop
  - stock
  resync: 10h0m0s
  memoryBudget: 64Mi
controllers:
  concurrency: 2
  groupKindConcurrency:
    Deployment.apps: 4
  cacheSyncTimeout: 1m30s
  reconcileTimeout: 5m0s
  overrides:
    painter:
      concurrency: 8
      cacheSyncTimeout: 10s
      reconcileTimeout: 500ms
client:
  kubeconfig: /etc/kubeconfig
  context: staging
  qps: 2.5
  burst: 5
logging:
  level: warn
  format: json
  timeEncoding: epoch
  locationLevel: error
  targets:
    windlass_client: debug
"#;

fn read(body: &str) -> Result<ManagerConfiguration, ConfigurationError> {
    ManagerConfiguration::default().with_text(&format!("{HEAD}{body}"))
}

#[test]
fn written_configuration_is_read_back_unchanged() {
    let whole = ManagerConfiguration::default().with_text(WHOLE).unwrap();
    assert_eq!(whole.to_yaml(), WHOLE);
    let painter = ControllerOverride {
        concurrency: NonZeroUsize::new(8),
        sync_timeout: Some(Duration::from_secs(10)),
        reconcile_timeout: Some(Duration::from_millis(500)),
    };
    assert_eq!(whole.controllers.overrides["painter"], painter);
    assert_eq!(whole.cache.memory_budget, Some(64 << 20));

    let defaults = ManagerConfiguration::default();
    assert_eq!(defaults.clone().with_text(&defaults.to_yaml()).unwrap(), defaults);
    let json = serde_json::to_string_pretty(&defaults).unwrap().replace("  ", "\t");
    assert_eq!(ManagerConfiguration::default().with_text(&json).unwrap(), defaults, "JSON, with tabs");
}

#[test]
fn fields_missing_in_the_file_keep_program_values() {
    let whole = ManagerConfiguration::default().with_text(WHOLE).unwrap();
    assert_eq!(whole.clone().with_text(HEAD).unwrap(), whole);

    let body =
        "leaderElection: {renewDeadline: 5s, namespace: null}\nhealth:\ncontrollers: {overrides: {glazier: {}}}\n";
    let changed = whole.clone().with_text(&format!("{HEAD}{body}")).unwrap();
    let mut expected = whole;
    expected.leader_election.renew_deadline = Duration::from_secs(5);
    expected.leader_election.namespace = None;
    expected.controllers.overrides.insert("glazier".into(), ControllerOverride::default());
    assert_eq!(changed, expected);
}

#[test]
fn mistakes_are_named_by_line_and_field() {
    for (body, expected) in [
        (
            "leaderElection:\n  enabled: true\n  leaseDuraton: 15s\n",
            "line 5, column 17: leaderElection.leaseDuraton: unknown field `leaseDuraton`, expected one of `enabled`, \
             `id`, `namespace`, `leaseDuration`, `renewDeadline`, `retryPeriod`, `releaseOnCancel`",
        ),
        (
            "controllers: {overrides: {web: {speed: 3}}}\n",
            "line 3, column 40: controllers.overrides.web.speed: unknown field `speed`, expected one of `concurrency`, \
             `cacheSyncTimeout`, `reconcileTimeout`",
        ),
        (
            "leaderElection:\n  leaseDuration: 15\n",
            "line 4, column 18: leaderElection.leaseDuration: time: missing unit in duration \"15\"",
        ),
        ("gracefulShutdownTimeout: -5s\n", "line 3, column 26: gracefulShutdownTimeout: a duration of -5s is negative"),
        (
            "leaderElection: {enabled: yes}\n",
            "line 3, column 27: leaderElection.enabled: invalid type: string \"yes\", expected a boolean",
        ),
        ("webhook: {port: 99999}\n", "line 3, column 17: webhook.port: invalid value: integer `99999`, expected u16"),
        (
            "cache: {namespaces: [shop, 7]}\n",
            "line 3, column 28: cache.namespaces[1]: invalid type: integer `7`, expected a string",
        ),
        (
            "console: {bindAddress: true}\n",
            "line 3, column 24: console.bindAddress: invalid type: boolean `true`, expected a string",
        ),
        ("webhook: {host: nowhere}\n", "line 3, column 17: webhook.host: invalid IP address syntax"),
        ("metrics: 8080\n", "line 3, column 10: metrics: invalid type: integer `8080`, expected a map"),
        (
            "metrics: {access: nobody}\n",
            "line 3, column 19: metrics.access: unknown variant `nobody`, expected `authorized` or `everybody`",
        ),
        (
            "logging: {targets: {windlass_client: loud}}\n",
            "line 3, column 38: logging.targets.windlass_client: unknown variant `loud`, expected one of `off`, \
             `error`, `warn`, `info`, `debug`, `trace`",
        ),
        (
            "logging: {format: xml}\n",
            "line 3, column 19: logging.format: unknown variant `xml`, expected `text` or `json`",
        ),
        (
            "cache: {memoryBudget: much}\n",
            "line 3, column 23: cache.memoryBudget: \"much\" is not a number of bytes, such as 64Mi",
        ),
        ("cache: {memoryBudget: -1}\n", "line 3, column 23: cache.memoryBudget: -1 bytes are negative"),
        (
            "controllers: {groupKindConcurrency: {Deployment.apps: 0}}\n",
            "line 3, column 55: controllers.groupKindConcurrency.Deployment.apps: invalid value: integer `0`, expected a \
             nonzero usize",
        ),
        ("health: {}\nhealth: {}\n", "line 4, column 1: duplicate key health"),
        ("---\nhealth: {}\n", "line 4, column 1: more than one YAML document"),
    ] {
        assert_eq!(read(body).unwrap_err().to_string(), expected, "{body}");
    }
    for (text, expected) in [
        ("", "line 1, column 1: invalid type: null, expected a map"),
        ("kind: ManagerConfiguration", "line 1, column 1: missing field `apiVersion`"),
        (
            "apiVersion: v1\nkind: Config\n",
            "line 1, column 13: apiVersion: unknown variant `v1`, expected `windlass.dev/v1alpha1`",
        ),
        (
            "apiVersion: windlass.dev/v1alpha1\nkind: Config\n",
            "line 2, column 7: kind: unknown variant `Config`, expected `ManagerConfiguration`",
        ),
    ] {
        assert_eq!(ManagerConfiguration::default().with_text(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn invalid_values_are_reported_with_their_field() {
    let address =
        "is not a valid address: expected host:port, :port for every address of the machine, or 0 to disable it";
    for (body, expected) in [
        ("metrics: {bindAddress: 8080}\n", format!("metrics.bindAddress: \"8080\" {address}")),
        ("health: {bindAddress: \"::1:x\"}\n", format!("health.bindAddress: \"::1:x\" {address}")),
        ("health: {bindAddress: \"::1:8081\"}\n", format!("health.bindAddress: \"::1:8081\" {address}")),
        (
            "metrics: {bindAddress: \":8081\"}\n",
            "health.bindAddress: \":8081\" is also the address of the metrics".into(),
        ),
        (
            "console: {bindAddress: \"localhost\"}\n",
            "console.bindAddress: \"localhost\" is not a valid address: expected a loopback port, host:port, or 0 to \
             disable it"
                .into(),
        ),
        (
            "metrics: {secure: false, access: authorized}\n",
            "metrics.access: tokens would be sent in plain text: metrics.secure is false".into(),
        ),
        (
            "leaderElection: {enabled: true}\n",
            "leaderElection.id: LeaderElectionID must be configured".into(),
        ),
        (
            "leaderElection: {enabled: true, id: a, leaseDuration: 10s}\n",
            "leaderElection.leaseDuration: leaseDuration must be greater than renewDeadline".into(),
        ),
        (
            "leaderElection: {enabled: true, id: a, retryPeriod: 9s}\n",
            "leaderElection.renewDeadline: renewDeadline must be greater than retryPeriod*JitterFactor".into(),
        ),
        (
            "leaderElection: {enabled: true, id: a, retryPeriod: 0s}\n",
            "leaderElection.retryPeriod: retryPeriod must be greater than zero".into(),
        ),
        (
            "sharding: {enabled: true}\n",
            "sharding.group: the group \"\" is not a valid label value: ".into(),
        ),
        (
            "sharding: {enabled: true, group: a, renewDeadline: 1s}\n",
            "sharding.renewDeadline: renewDeadline must be greater than retryPeriod*JitterFactor".into(),
        ),
        (
            "cache: {namespaces: [a, a]}\n",
            "cache.namespaces[1]: \"a\" is listed twice".into(),
        ),
        (
            "controllers: {groupKindConcurrency: {deployments.apps: 2}}\n",
            "controllers.groupKindConcurrency.deployments.apps: is not a kind and group, such as Deployment.apps, or Pod for \
             the core group"
                .into(),
        ),
        ("client: {qps: -1}\n", "client.qps: must be more than 0; without it there is no limit".into()),
        ("client: {qps: 1, burst: 0}\n", "client.burst: must be more than 0".into()),
        ("client: {burst: 10}\n", "client.burst: has no effect without client.qps".into()),
    ] {
        assert_eq!(read(body).unwrap_err().to_string(), expected, "{body}");
    }
    let error = read("cache: {namespaces: [\"\"]}\n").unwrap_err().to_string();
    assert!(error.starts_with("cache.namespaces[0]: \"\" is not a valid namespace: "), "{error}");
    for fine in [
        "leaderElection: {leaseDuration: 1s}\n",
        "sharding: {leaseDuration: 1s}\n",
        "metrics: {bindAddress: 0}\nhealth: {bindAddress: 0}\n",
        "metrics: {bindAddress: \"127.0.0.1:0\"}\nhealth: {bindAddress: \"127.0.0.1:0\"}\n",
        "health: {bindAddress: \"[::1]:8081\"}\n",
        "console: {bindAddress: 9090}\n",
        "console: {bindAddress: \":9090\"}\n",
        "health: {bindAddress: \"localhost:8081\"}\n",
    ] {
        assert!(read(fine).is_ok(), "{fine}");
    }
}

#[test]
fn mistakes_in_a_file_are_named_with_the_file() {
    let path = std::env::temp_dir().join(format!("windlass-config-{}.yaml", std::process::id()));
    let of = |text: String| {
        std::fs::write(&path, text).unwrap();
        let error = ManagerConfiguration::default().with_file(&path).unwrap_err().to_string();
        error.replace(&path.display().to_string(), "FILE")
    };
    assert_eq!(of(format!("{HEAD}health: 1\n")), "FILE:3:9: health: invalid type: integer `1`, expected a map");
    let expected = "FILE: client.burst: has no effect without client.qps";
    assert_eq!(of(format!("{HEAD}client: {{burst: 10}}\n")), expected);
    std::fs::remove_file(&path).unwrap();
    let error = ManagerConfiguration::default().with_file(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("reading the configuration {}", path.display()));
}

#[test]
fn environment_variable_sets_the_log_filter() {
    let whole = ManagerConfiguration::default().with_text(WHOLE).unwrap();
    let logging = whole.clone().with_directives("error, windlass_client=OFF,other=trace,").unwrap().logging;
    assert_eq!((logging.level, logging.format), (LogLevel::Error, LogFormat::Json));
    assert_eq!(logging.targets.into_values().collect::<Vec<_>>(), [LogLevel::Trace, LogLevel::Off]);
    let error = whole.with_directives("loud").unwrap_err().to_string();
    assert_eq!(error, "$RUST_LOG: unknown level \"loud\"; expected one of off, error, warn, info, debug, trace");
}

#[cfg(feature = "flags")]
mod flags {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        manager: ManagerFlags,
    }

    fn flags(flags: &[&str]) -> ManagerFlags {
        Options::try_parse_from([&["painter"], flags].concat()).unwrap_or_else(|error| panic!("{error}")).manager
    }

    #[test]
    fn flags_set_the_same_values_as_fields() {
        let mut expected = ManagerConfiguration::default().with_text(WHOLE).unwrap();
        // Settings without a flag.
        let mut defaults = ManagerConfiguration::default();
        defaults.metrics.access = expected.metrics.access;
        defaults.leader_election.lease_duration = expected.leader_election.lease_duration;
        defaults.leader_election.renew_deadline = expected.leader_election.renew_deadline;
        defaults.leader_election.retry_period = expected.leader_election.retry_period;
        defaults.leader_election.release_on_cancel = expected.leader_election.release_on_cancel;
        defaults.webhook.client_ca = expected.webhook.client_ca.clone();
        (defaults.cache.resync, defaults.cache.memory_budget) = (expected.cache.resync, expected.cache.memory_budget);
        defaults.sharding = expected.sharding.clone();
        (defaults.sharding.enabled, defaults.sharding.namespace) = (false, None);
        defaults.sharding.group = "others".into();
        defaults.controllers = expected.controllers.clone();
        (defaults.client.qps, defaults.client.burst) = (expected.client.qps, expected.client.burst);

        let flags = flags(&[
            "--kubeconfig=/etc/kubeconfig",
            "--context=staging",
            "--metrics-bind-address=:8443",
            "--metrics-secure=false",
            "--metrics-cert-path=/certs/metrics",
            "--metrics-cert-name=metrics.crt",
            "--metrics-cert-key=metrics.key",
            "--health-probe-bind-address=127.0.0.1:8082",
            "--console=127.0.0.1:9090",
            "--leader-elect",
            "--leader-election-id=painter.example.com",
            "--leader-election-namespace=painters",
            "--webhook-host=::1",
            "--webhook-port=10250",
            "--webhook-cert-path=/certs/webhook",
            "--webhook-cert-name=webhook.crt",
            "--webhook-cert-key=webhook.key",
            "--enable-http2",
            "--watch-namespace=shop,stock",
            "--sharding",
            "--sharding-group=painters",
            "--sharding-namespace=painters",
            "--graceful-shutdown-timeout=1m",
            "--log-level=warn",
            "--log-format=json",
            "--log-target=windlass_client=debug",
            "--zap-stacktrace-level=error",
            "--zap-time-encoding=epoch",
        ]);
        assert_eq!(flags.over(defaults), expected);

        expected.leader_election.enabled = false;
        expected.logging.level = LogLevel::Debug;
        expected.logging.format = LogFormat::Text;
        let flags = self::flags(&["--leader-elect=false", "--zap-log-level=debug", "--zap-encoder", "console"]);
        assert_eq!(flags.over(ManagerConfiguration::default().with_text(WHOLE).unwrap()), expected);
    }

    #[test]
    fn zap_flags_set_level_format_location_and_time() {
        let logging = |arguments: &[&str]| flags(arguments).over(ManagerConfiguration::default()).logging;
        let of = |arguments: &[&str]| {
            let logging = logging(arguments);
            (logging.level, logging.format, logging.location_level)
        };
        assert_eq!(of(&["--zap-devel"]), (LogLevel::Debug, LogFormat::Text, Some(LogLevel::Warn)));
        assert_eq!(of(&["--zap-devel=false"]), (LogLevel::Info, LogFormat::Json, Some(LogLevel::Error)));
        let all = ["--zap-devel", "--zap-log-level=2", "--zap-encoder=json", "--zap-stacktrace-level=panic"];
        assert_eq!(of(&all), (LogLevel::Trace, LogFormat::Json, Some(LogLevel::Off)));
        assert_eq!(of(&["--zap-log-level=1"]).0, LogLevel::Debug);
        assert_eq!(of(&["--zap-log-level=panic"]).0, LogLevel::Off);
        assert_eq!(of(&["--zap-log-level=error", "--log-level=info"]).0, LogLevel::Info);
        assert_eq!(logging(&["--zap-time-encoding=rfc3339nano"]).time_encoding, TimeEncoding::Rfc3339Nano);
        for wrong in ["--zap-log-level=0", "--zap-log-level=loud", "--zap-encoder=xml", "--zap-time-encoding=noon"] {
            assert!(Options::try_parse_from(["painter", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flags_override_the_file_and_the_file_the_program() {
        let path = std::env::temp_dir().join(format!("windlass-flags-{}.yaml", std::process::id()));
        std::fs::write(&path, format!("{HEAD}health: {{bindAddress: ':1'}}\nmetrics: {{bindAddress: ':2'}}\n"))
            .unwrap();
        let mut defaults = ManagerConfiguration::default();
        defaults.health.bind_address = ":3".into();
        defaults.webhook.port = 4;
        let config = flags(&[&format!("--config={}", path.display()), "--metrics-bind-address", ":5"]);
        let config = config.configuration(defaults.clone()).unwrap();
        assert_eq!((&*config.health.bind_address, &*config.metrics.bind_address), (":1", ":5"));
        assert_eq!(config.webhook.port, 4);

        let wrong = flags(&[&format!("--config={}", path.display()), "--metrics-bind-address=:1"]);
        let error = wrong.configuration(defaults).unwrap_err().to_string();
        assert_eq!(error, "health.bindAddress: \":1\" is also the address of the metrics");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn invalid_flag_error_has_the_reason() {
        for (flag, expected) in [
            (
                "--graceful-shutdown-timeout=5",
                "error: invalid value '5' for '--graceful-shutdown-timeout <DURATION>': time: missing unit in duration \"5\"",
            ),
            (
                "--log-target=debug",
                "error: invalid value 'debug' for '--log-target <TARGET=LEVEL>': expected TARGET=LEVEL, such as \
                 windlass_client=debug",
            ),
            (
                "--log-level=loud",
                "error: invalid value 'loud' for '--log-level <LEVEL>': unknown level \"loud\"; expected one of off, error, warn, \
                 info, debug, trace",
            ),
            ("--leader-elect=perhaps", "error: invalid value 'perhaps' for '--leader-elect[=<BOOL>]'"),
        ] {
            let Err(error) = Options::try_parse_from(["painter", flag]) else { panic!("{flag} is understood") };
            let error = error.to_string();
            assert_eq!(error.lines().next(), Some(expected), "{flag}");
        }
    }
}

#[cfg(feature = "logging")]
mod logging {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// The written log.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(body: &str) -> String {
        let (written, logging) = (Written::default(), read(body).unwrap().logging);
        let writer = written.clone();
        let subscriber = tracing_subscriber::registry().with(logging.layer(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "shop::doors", key = "main", "opened");
            tracing::debug!(target: "shop::doors", "creaked");
            tracing::debug!(target: "shop", "heard it");
            tracing::warn!(target: "street", "rained");
        });
        String::from_utf8(Arc::try_unwrap(written.0).unwrap().into_inner().unwrap()).unwrap()
    }

    #[test]
    fn levels_and_targets_filter_log_lines() {
        let lines = |body: &str| -> Vec<String> {
            let words = ["opened", "creaked", "heard it", "rained"];
            let log = logged(body);
            words.into_iter().filter(|word| log.contains(word)).map(str::to_owned).collect()
        };
        assert_eq!(lines(""), ["opened", "rained"]);
        assert_eq!(lines("logging: {level: debug}\n"), ["opened", "creaked", "heard it", "rained"]);
        assert_eq!(
            lines("logging: {level: error, targets: {shop: debug, 'shop::doors': info}}\n"),
            ["opened", "heard it"]
        );
        assert_eq!(lines("logging: {level: off}\n"), [""; 0]);
    }

    #[test]
    fn time_is_written_in_each_encoding() {
        let time: jiff::Timestamp = "2026-01-02T15:04:05.123456789Z".parse().unwrap();
        for (encoding, expected) in [
            ("epoch", "1767366245.123456"),
            ("millis", "1767366245123.456789"),
            ("nano", "1767366245123456789"),
            ("iso8601", "2026-01-02T15:04:05.123Z"),
            ("rfc3339", "2026-01-02T15:04:05Z"),
            ("rfc3339micro", "2026-01-02T15:04:05.123456Z"),
            ("rfc3339nano", "2026-01-02T15:04:05.123456789Z"),
        ] {
            assert_eq!(encoding.parse::<TimeEncoding>().unwrap().format(time), expected);
        }
        let line = logged("logging: {timeEncoding: epoch}\n");
        let seconds: f64 = line.trim_start().split(' ').next().unwrap().parse().unwrap();
        assert!(seconds > 1.7e9, "{line}");
    }

    #[test]
    fn lines_from_a_level_on_carry_their_source() {
        let log = logged("logging: {locationLevel: warn}\n");
        let [opened, rained]: [&str; 2] = log.lines().collect::<Vec<_>>().try_into().unwrap();
        assert!(!opened.contains("tests.rs") && rained.contains("tests.rs"), "{log}");
    }

    #[test]
    fn a_line_is_text_or_an_object() {
        let text = logged("");
        assert!(text.lines().next().unwrap().ends_with(" INFO shop::doors: opened key=\"main\""), "{text}");
        let json = logged("logging: {format: json}\n");
        let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"shop::doors".into()));
        assert_eq!((&line["message"], &line["key"]), (&"opened".into(), &"main".into()));
    }
}
