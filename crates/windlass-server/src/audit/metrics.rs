//! The metrics of the audit log, with the names of kube-apiserver.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use super::policy::Level;

/// The shortest time between two messages about lost events of a plugin. A client could cause any number of them.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The part of the pipeline in which an event was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    Buffered,
    Log,
    Truncate,
    Webhook,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct AuditMetrics {
    events: AtomicU64,
    rejected: AtomicU64,
    levels: [AtomicU64; Level::ALL.len()],
    errors: [AtomicU64; Plugin::ALL.len()],
    logged: [Mutex<Option<Instant>>; Plugin::ALL.len()],
}

impl Plugin {
    const ALL: [Self; 4] = [Self::Buffered, Self::Log, Self::Truncate, Self::Webhook];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Log => "log",
            Self::Truncate => "truncate",
            Self::Webhook => "webhook",
        }
    }
}

impl AuditMetrics {
    /// Counts an event of a stage.
    pub(super) fn event(&self) {
        self.events.fetch_add(1, Relaxed);
    }

    /// Counts a request by its level.
    pub(super) fn level(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request that is rejected because its event could not be stored.
    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Relaxed);
    }

    /// Counts lost events, and logs the reason.
    pub(super) fn lost(&self, plugin: Plugin, count: u64, audit_id: &str, why: &dyn std::fmt::Display) {
        let total = self.errors[plugin as usize].fetch_add(count, Relaxed) + count;
        let mut logged = self.logged[plugin as usize].lock();
        let now = Instant::now();
        if logged.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL) {
            *logged = Some(now);
            let plugin = plugin.name();
            tracing::error!(plugin, count, total, audit_id, "audit events are lost: {why}");
        }
    }

    /// Returns the metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut counter = |name: &str, help: &str, samples: &[(String, u64)]| {
            let name = format!("apiserver_audit_{name}");
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            for (labels, count) in samples {
                let _ = writeln!(text, "{name}{labels} {count}");
            }
        };
        let labelled = |label: &str, name: &str, counter: &AtomicU64| {
            let count = counter.load(Relaxed);
            (count > 0).then(|| (format!("{{{label}=\"{name}\"}}"), count))
        };
        let errors = Plugin::ALL.iter().zip(&self.errors);
        let errors: Vec<_> = errors.filter_map(|(plugin, count)| labelled("plugin", plugin.name(), count)).collect();
        if !errors.is_empty() {
            let help = "Audit events that were lost, by the plugin in which the error occurred.";
            counter("error_total", help, &errors);
        }
        let plain = |count: &AtomicU64| [(String::new(), count.load(Relaxed))];
        counter("event_total", "Audit events that were sent to the backends.", &plain(&self.events));
        let levels = Level::ALL.iter().zip(&self.levels);
        let levels: Vec<_> = levels.filter_map(|(level, count)| labelled("level", level.name(), count)).collect();
        counter("level_total", "Requests by their level in the audit policy.", &levels);
        let help = "Requests that were rejected because of an error in an audit backend.";
        counter("requests_rejected_total", help, &plain(&self.rejected));
        text
    }
}
