//! The options of the audit backends: the flags of kube-apiserver, with its defaults and messages.

use std::{io, path::PathBuf, str::FromStr, time::Duration};

/// The only version of events.
const VERSION: &str = "audit.k8s.io/v1";

/// The options of the log backend: the flags `--audit-log-*`.
#[derive(Clone, Debug)]
pub struct AuditLogOptions {
    /// The file; `-` for standard output.
    pub path: PathBuf,
    /// The format of events.
    pub format: AuditFormat,
    /// The number of days after which a rotated file is removed; 0 for no limit.
    pub max_age: i64,
    /// The number of rotated files that are kept; 0 for no limit.
    pub max_backups: i64,
    /// The size in megabytes at which the file is rotated; 0 for no rotation.
    pub max_size: i64,
    /// Compress rotated files with gzip.
    pub compress: bool,
    /// The version of events: `audit.k8s.io/v1`.
    pub version: String,
    /// The mode and the batches.
    pub batch: AuditBatchOptions,
    /// The truncation of large events.
    pub truncate: AuditTruncateOptions,
}

/// The options of the webhook backend: the flags `--audit-webhook-*`.
#[derive(Clone, Debug)]
pub struct AuditWebhookOptions {
    /// The time before the first retry of a failed request.
    pub initial_backoff: Duration,
    /// The version of events: `audit.k8s.io/v1`.
    pub version: String,
    /// The mode and the batches.
    pub batch: AuditBatchOptions,
    /// The truncation of large events.
    pub truncate: AuditTruncateOptions,
}

/// The mode of a backend, and its batches in the mode [`AuditMode::Batch`].
#[derive(Clone, Debug)]
pub struct AuditBatchOptions {
    /// The mode.
    pub mode: AuditMode,
    /// The number of events in the buffer. Further events are lost.
    pub buffer_size: i64,
    /// The maximum number of events in a batch.
    pub max_size: i64,
    /// The time after which an incomplete batch is sent.
    pub max_wait: Duration,
    /// Limit the rate of batches.
    pub throttle_enable: bool,
    /// The maximum average number of batches per second.
    pub throttle_qps: f32,
    /// The maximum number of batches that are sent at once after idle time.
    pub throttle_burst: i64,
}

/// The truncation of large events.
#[derive(Clone, Debug)]
pub struct AuditTruncateOptions {
    /// Truncate large events.
    pub enabled: bool,
    /// The maximum size of a batch in bytes. As in kube-apiserver, it is checked before events are batched, so it has no
    /// effect.
    pub max_batch_size: i64,
    /// The maximum size of an event in bytes. The objects of a larger event are omitted. If it is still too large, the
    /// event is lost.
    pub max_event_size: i64,
}

/// The relation between requests and the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditMode {
    /// Events are buffered. They are lost if the buffer is full.
    Batch,
    /// A request waits until its events are written.
    Blocking,
    /// Like [`Self::Blocking`]. A request whose first event cannot be written is rejected.
    BlockingStrict,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditFormat {
    /// A line of text for each event, with a few of its fields.
    Legacy,
    /// A line of JSON for each event.
    Json,
}

/// The error of an audit backend that cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The options are invalid, for these reasons.
    #[error("{}", .0.join(", "))]
    Options(Vec<String>),
    /// The log file cannot be created.
    #[error("cannot open the audit log {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

impl Default for AuditLogOptions {
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            format: AuditFormat::Json,
            max_age: 366,
            max_backups: 100,
            max_size: 100,
            compress: false,
            version: VERSION.to_owned(),
            batch: AuditBatchOptions::of_log(),
            truncate: AuditTruncateOptions::default(),
        }
    }
}

impl Default for AuditWebhookOptions {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(10),
            version: VERSION.to_owned(),
            batch: AuditBatchOptions::of_webhook(),
            truncate: AuditTruncateOptions::default(),
        }
    }
}

impl Default for AuditTruncateOptions {
    fn default() -> Self {
        Self { enabled: false, max_batch_size: 10 * 1024 * 1024, max_event_size: 100 * 1024 }
    }
}

impl AuditBatchOptions {
    /// Returns the defaults of the log backend.
    #[must_use]
    pub const fn of_log() -> Self {
        Self {
            mode: AuditMode::Blocking,
            buffer_size: 10_000,
            max_size: 1,
            max_wait: Duration::ZERO,
            throttle_enable: false,
            throttle_qps: 0.0,
            throttle_burst: 0,
        }
    }

    /// Returns the defaults of the webhook backend.
    #[must_use]
    pub const fn of_webhook() -> Self {
        Self {
            mode: AuditMode::Batch,
            buffer_size: 10_000,
            max_size: 400,
            max_wait: Duration::from_secs(30),
            throttle_enable: true,
            throttle_qps: 10.0,
            throttle_burst: 15,
        }
    }

    fn problem(&self, plugin: &str) -> Option<String> {
        if self.mode != AuditMode::Batch {
            return None;
        }
        let bad = |what: &str, value: String| {
            Some(format!("invalid audit batch {plugin} {what} {value}, must be a positive number"))
        };
        if self.buffer_size <= 0 {
            return bad("buffer size", self.buffer_size.to_string());
        }
        if self.max_size <= 0 {
            return bad("max batch size", self.max_size.to_string());
        }
        if self.throttle_enable && self.throttle_qps <= 0.0 {
            return bad("throttle QPS", self.throttle_qps.to_string());
        }
        if self.throttle_enable && self.throttle_burst <= 0 {
            return bad("throttle burst", self.throttle_burst.to_string());
        }
        None
    }
}

impl AuditTruncateOptions {
    fn problem(&self, plugin: &str) -> Option<String> {
        let Self { max_batch_size, max_event_size, .. } = self;
        if *max_event_size <= 0 {
            return Some(format!(
                "invalid audit truncate {plugin} max event size {max_event_size}, must be a positive number"
            ));
        }
        (max_batch_size < max_event_size).then(|| {
            format!(
                "invalid audit truncate {plugin} max batch size {max_batch_size}, must be greater than max event size \
                 ({max_event_size})"
            )
        })
    }
}

impl AuditLogOptions {
    /// Checks the options.
    pub fn validate(&self) -> Result<(), AuditError> {
        let mut problems: Vec<String> = Vec::new();
        problems.extend(self.batch.problem("log"));
        problems.extend(self.truncate.problem("log"));
        problems.extend(version_problem(&self.version));
        for (flag, value) in [
            ("--audit-log-maxage", self.max_age),
            ("--audit-log-maxbackup", self.max_backups),
            ("--audit-log-maxsize", self.max_size),
        ] {
            if value < 0 {
                problems.push(format!("{flag} {value} can't be a negative number"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(AuditError::Options(problems)) }
    }
}

impl AuditWebhookOptions {
    /// Checks the options.
    pub fn validate(&self) -> Result<(), AuditError> {
        let problems =
            [self.batch.problem("webhook"), self.truncate.problem("webhook"), version_problem(&self.version)];
        let problems: Vec<String> = problems.into_iter().flatten().collect();
        if problems.is_empty() { Ok(()) } else { Err(AuditError::Options(problems)) }
    }
}

fn version_problem(version: &str) -> Option<String> {
    if version == VERSION {
        return None;
    }
    if version.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    Some(format!("invalid group version, allowed versions are [{VERSION:?}]"))
}

impl FromStr for AuditMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "batch" => Ok(Self::Batch),
            "blocking" => Ok(Self::Blocking),
            "blocking-strict" => Ok(Self::BlockingStrict),
            _ => Err("allowed modes are \"batch,blocking,blocking-strict\"".to_owned()),
        }
    }
}

impl FromStr for AuditFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "legacy" => Ok(Self::Legacy),
            "json" => Ok(Self::Json),
            _ => Err("allowed formats are \"legacy,json\"".to_owned()),
        }
    }
}
