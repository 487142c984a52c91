//! The audit log of a server in this process: the flags of kube-apiserver, and the transport to a webhook.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use clap::Args;
use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::BoxError;
use windlass_client::Body;
use windlass_server::{
    AuditBatchOptions, AuditConfiguration, AuditLogOptions, AuditPolicy, AuditTruncateOptions, AuditWebhook,
    AuditWebhookOptions,
};

use crate::{remote::Remote, time_limits::not_negative};

/// The prefix of all flags of the audit log.
pub(crate) const PREFIX: &str = "audit-";

/// The flags of the audit log.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Audit log")]
pub(crate) struct AuditFlags {
    /// File with the audit policy, with kind Policy as for kube-apiserver. Without a policy, nothing is recorded
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<String>,
    /// Log file; - for standard output
    #[arg(long, value_name = "FILE")]
    audit_log_path: Option<String>,
    /// Format of the log: json or legacy, which is a line of text
    #[arg(long, value_name = "FORMAT")]
    audit_log_format: Option<String>,
    /// Days after which rotated files are removed; 0 for never. Defaults to 366
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true)]
    audit_log_maxage: Option<i64>,
    /// Number of rotated files to keep; 0 for all. Defaults to 100
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    audit_log_maxbackup: Option<i64>,
    /// Size in megabytes at which the log is rotated; 0 for never. Defaults to 100
    #[arg(long, value_name = "MB", allow_negative_numbers = true)]
    audit_log_maxsize: Option<i64>,
    /// Compress rotated files with gzip
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    audit_log_compress: Option<bool>,
    #[command(flatten)]
    log: LogFlags,
    /// Kubeconfig of the webhook that gets the events
    #[arg(long, value_name = "FILE")]
    audit_webhook_config_file: Option<String>,
    /// Time before the first retry of a failed request to the webhook. Defaults to 10s
    #[arg(long, value_name = "DURATION", value_parser = not_negative, alias = "audit-webhook-batch-initial-backoff")]
    audit_webhook_initial_backoff: Option<Duration>,
    #[command(flatten)]
    webhook: WebhookFlags,
}

/// Declares the flags that both backends have.
macro_rules! backend_flags {
    ($name:ident, $backend:literal, $mode:literal) => {
        #[derive(Args, Clone, Debug, Default)]
        struct $name {
            #[arg(
                id = concat!("audit-", $backend, "-mode"),
                long = concat!("audit-", $backend, "-mode"),
                value_name = "MODE",
                help = concat!(
                    "batch, which buffers events, blocking, in which requests wait for their events, or blocking-strict, \
                     which rejects requests whose events cannot be written. Defaults to ", $mode
                )
            )]
            mode: Option<String>,
            /// Number of events in the buffer, in the mode batch
            #[arg(
                id = concat!("audit-", $backend, "-batch-buffer-size"),
                long = concat!("audit-", $backend, "-batch-buffer-size"),
                value_name = "N",
                allow_negative_numbers = true
            )]
            buffer_size: Option<i64>,
            /// Maximum number of events in a batch
            #[arg(
                id = concat!("audit-", $backend, "-batch-max-size"),
                long = concat!("audit-", $backend, "-batch-max-size"),
                value_name = "N",
                allow_negative_numbers = true
            )]
            max_size: Option<i64>,
            /// Time after which an incomplete batch is sent
            #[arg(
                id = concat!("audit-", $backend, "-batch-max-wait"),
                long = concat!("audit-", $backend, "-batch-max-wait"),
                value_name = "DURATION",
                value_parser = not_negative
            )]
            max_wait: Option<Duration>,
            /// Limit the rate of batches
            #[arg(
                id = concat!("audit-", $backend, "-batch-throttle-enable"),
                long = concat!("audit-", $backend, "-batch-throttle-enable"),
                value_name = "BOOL",
                num_args = 0..=1,
                require_equals = true,
                default_missing_value = "true"
            )]
            throttle_enable: Option<bool>,
            /// Maximum average number of batches per second
            #[arg(
                id = concat!("audit-", $backend, "-batch-throttle-qps"),
                long = concat!("audit-", $backend, "-batch-throttle-qps"),
                value_name = "N",
                allow_negative_numbers = true
            )]
            throttle_qps: Option<f32>,
            /// Maximum number of batches that are sent at once after idle time
            #[arg(
                id = concat!("audit-", $backend, "-batch-throttle-burst"),
                long = concat!("audit-", $backend, "-batch-throttle-burst"),
                value_name = "N",
                allow_negative_numbers = true
            )]
            throttle_burst: Option<i64>,
            /// Omit the objects of large events
            #[arg(
                id = concat!("audit-", $backend, "-truncate-enabled"),
                long = concat!("audit-", $backend, "-truncate-enabled"),
                value_name = "BOOL",
                num_args = 0..=1,
                require_equals = true,
                default_missing_value = "true"
            )]
            truncate_enabled: Option<bool>,
            /// Maximum size of a batch in bytes; as in kube-apiserver, only events are checked
            #[arg(
                id = concat!("audit-", $backend, "-truncate-max-batch-size"),
                long = concat!("audit-", $backend, "-truncate-max-batch-size"),
                value_name = "BYTES",
                allow_negative_numbers = true
            )]
            truncate_max_batch_size: Option<i64>,
            /// Maximum size of an event in bytes
            #[arg(
                id = concat!("audit-", $backend, "-truncate-max-event-size"),
                long = concat!("audit-", $backend, "-truncate-max-event-size"),
                value_name = "BYTES",
                allow_negative_numbers = true
            )]
            truncate_max_event_size: Option<i64>,
            /// Version of the events
            #[arg(
                id = concat!("audit-", $backend, "-version"),
                long = concat!("audit-", $backend, "-version"),
                value_name = "VERSION"
            )]
            version: Option<String>,
        }

        impl $name {
            /// Applies the flags to the defaults of the backend. Returns an error for an unknown mode.
            fn apply(
                &self,
                batch: &mut AuditBatchOptions,
                truncate: &mut AuditTruncateOptions,
                version: &mut String,
            ) -> Result<(), String> {
                if let Some(mode) = &self.mode {
                    let invalid = |allowed| format!("invalid audit {} mode {mode}, {allowed}", $backend);
                    batch.mode = mode.parse().map_err(invalid)?;
                }
                set(&mut batch.buffer_size, self.buffer_size);
                set(&mut batch.max_size, self.max_size);
                set(&mut batch.max_wait, self.max_wait);
                set(&mut batch.throttle_enable, self.throttle_enable);
                set(&mut batch.throttle_qps, self.throttle_qps);
                set(&mut batch.throttle_burst, self.throttle_burst);
                set(&mut truncate.enabled, self.truncate_enabled);
                set(&mut truncate.max_batch_size, self.truncate_max_batch_size);
                set(&mut truncate.max_event_size, self.truncate_max_event_size);
                set(version, self.version.clone());
                Ok(())
            }
        }
    };
}

backend_flags!(LogFlags, "log", "blocking");
backend_flags!(WebhookFlags, "webhook", "batch");

fn set<T>(option: &mut T, flag: Option<T>) {
    if let Some(value) = flag {
        *option = value;
    }
}

/// Returns the path of a flag. An empty one disables what the flag names, as in kube-apiserver.
fn given(flag: Option<&String>) -> Option<PathBuf> {
    flag.filter(|path| !path.is_empty()).map(PathBuf::from)
}

impl AuditFlags {
    /// Reads the policy and creates the backends. Returns `None` if the flags name no policy or no backend.
    pub(crate) fn build(&self) -> Result<Option<AuditConfiguration>, Box<dyn Error>> {
        let log = self.log_options()?;
        let webhook = self.webhook_options()?;
        let Some(path) = given(self.audit_policy_file.as_ref()) else {
            if log.is_some() || webhook.is_some() {
                tracing::warn!("there is no audit log, because --audit-policy-file is not set");
            }
            return Ok(None);
        };
        let mut audit = AuditConfiguration::new(read_policy(&path)?);
        if log.is_none() && webhook.is_none() {
            return Ok(None);
        }
        if let Some(options) = log {
            audit = audit.with_log(&options)?;
        }
        if let Some((kubeconfig, options)) = webhook {
            let remote = Remote::new(&kubeconfig).map_err(|error| format!("initializing audit webhook: {error}"))?;
            audit = audit.with_webhook(Arc::new(remote), &options)?;
        }
        Ok(Some(audit))
    }

    fn log_options(&self) -> Result<Option<AuditLogOptions>, Box<dyn Error>> {
        let Some(path) = given(self.audit_log_path.as_ref()) else { return Ok(None) };
        let mut options = AuditLogOptions { path, ..AuditLogOptions::default() };
        self.log.apply(&mut options.batch, &mut options.truncate, &mut options.version)?;
        if let Some(format) = &self.audit_log_format {
            let invalid = |allowed| format!("invalid audit log format {format}, {allowed}");
            options.format = format.parse().map_err(invalid)?;
        }
        set(&mut options.max_age, self.audit_log_maxage);
        set(&mut options.max_backups, self.audit_log_maxbackup);
        set(&mut options.max_size, self.audit_log_maxsize);
        set(&mut options.compress, self.audit_log_compress);
        options.validate()?;
        Ok(Some(options))
    }

    fn webhook_options(&self) -> Result<Option<(PathBuf, AuditWebhookOptions)>, Box<dyn Error>> {
        let Some(path) = given(self.audit_webhook_config_file.as_ref()) else { return Ok(None) };
        let mut options = AuditWebhookOptions::default();
        self.webhook.apply(&mut options.batch, &mut options.truncate, &mut options.version)?;
        set(&mut options.initial_backoff, self.audit_webhook_initial_backoff);
        options.validate()?;
        Ok(Some((path, options)))
    }
}

fn read_policy(path: &Path) -> Result<AuditPolicy, Box<dyn Error>> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| format!("loading audit policy file: failed to read file path {shown:?}: {error}"))?;
    let failed = |error: &dyn Error| format!("loading audit policy file: {error}: from file {shown}");
    let file: Value = if text.trim().is_empty() {
        Value::Null
    } else {
        serde_saphyr::from_str(&text)
            .map_err(|error| format!("loading audit policy file: failed decoding: {error}: from file {shown}"))?
    };
    let policy = AuditPolicy::parse(file).map_err(|error| failed(&error))?;
    if !policy.unknown_fields().is_empty() {
        let fields = policy.unknown_fields().join(", ");
        tracing::warn!("{shown}: the audit policy has unknown fields, which are ignored: {fields}");
    }
    Ok(policy)
}

impl AuditWebhook for Remote {
    fn post(&self, events: Bytes) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            let (status, _) = self.post(Body::from(events), "?timeout=30s").await?;
            if status.is_success() { Ok(()) } else { Err(format!("the audit webhook answered {status}").into()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        flags: AuditFlags,
    }

    fn build(flags: &[&str]) -> Result<bool, String> {
        let flags = std::iter::once("up").chain(flags.iter().copied());
        let Command { flags } = <Command as clap::Parser>::try_parse_from(flags).map_err(|error| error.to_string())?;
        flags.build().map(|audit| audit.is_some()).map_err(|error| error.to_string())
    }

    #[test]
    fn audit_needs_a_policy_and_a_backend() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let policy = file("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n");
        let webhook = file(
            "webhook.yaml",
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1/events'}}]\n\
             users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n",
        );
        let log = directory.path().join("logs/audit.log").display().to_string();
        let policy = format!("--audit-policy-file={policy}");
        let log = format!("--audit-log-path={log}");
        let webhook = format!("--audit-webhook-config-file={webhook}");
        assert_eq!(build(&[]), Ok(false));
        assert_eq!(build(&[&policy]), Ok(false));
        assert_eq!(build(&[&log]), Ok(false));
        assert_eq!(build(&[&policy, "--audit-log-path="]), Ok(false));
        assert_eq!(build(&[&policy, &log, "--audit-log-compress", "--audit-log-mode=batch"]), Ok(true));
        assert_eq!(
            build(&[
                &policy,
                &webhook,
                "--audit-webhook-batch-max-wait=1m",
                "--audit-webhook-batch-throttle-enable=false"
            ]),
            Ok(true)
        );
        assert_eq!(
            build(&[&policy, &webhook, "--audit-webhook-batch-initial-backoff=5s"]),
            Ok(true),
            "the deprecated name"
        );
        for (flag, message) in [
            (
                "--audit-log-mode=fast",
                "invalid audit log mode fast, allowed modes are \"batch,blocking,blocking-strict\"",
            ),
            ("--audit-log-format=xml", "invalid audit log format xml, allowed formats are \"legacy,json\""),
            ("--audit-log-maxage=-1", "--audit-log-maxage -1 can't be a negative number"),
            ("--audit-log-version=v2", "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]"),
            (
                "--audit-log-truncate-max-event-size=0",
                "invalid audit truncate log max event size 0, must be a positive number",
            ),
        ] {
            assert_eq!(build(&[&policy, &log, flag]), Err(message.to_owned()));
            assert_eq!(build(&[&policy, flag]), Ok(false), "options without a log are not checked");
        }
        let sized = build(&[&policy, &webhook, "--audit-webhook-batch-max-size=-3"]).unwrap_err();
        assert_eq!(sized, "invalid audit batch webhook max batch size -3, must be a positive number");
    }

    #[test]
    fn invalid_policy_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.yaml");
        let load = |text: &str| {
            fs::write(&path, text).unwrap();
            build(&[&format!("--audit-policy-file={}", path.display())]).unwrap_err()
        };
        let shown = path.display();
        let empty = "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy";
        assert_eq!(load(""), format!("loading audit policy file: {empty}: from file {shown}"));
        let wrong = load("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{}]\n");
        assert_eq!(wrong, format!("loading audit policy file: rules[0].level: Required value: from file {shown}"));
        assert!(load("rules: [").starts_with("loading audit policy file: failed decoding: "));
        let missing = build(&["--audit-policy-file=/nowhere/policy"]).unwrap_err();
        assert!(
            missing.starts_with("loading audit policy file: failed to read file path \"/nowhere/policy\": "),
            "{missing}"
        );
    }
}
