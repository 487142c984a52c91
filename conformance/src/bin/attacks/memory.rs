//! The memory of a process, from `/proc`.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time};

const INTERVAL: Duration = Duration::from_millis(20);

/// Samples the memory of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    process: u32,
    before: u64,
    peak: Arc<AtomicU64>,
    sampling: JoinHandle<()>,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) before: u64,
    pub(crate) peak: u64,
    /// `None` if the process has ended.
    pub(crate) after: Option<u64>,
}

impl Memory {
    pub(crate) fn start(process: u32) -> Self {
        let before = resident(process).unwrap_or_default();
        let peak = Arc::new(AtomicU64::new(before));
        let sampled = Arc::clone(&peak);
        let sampling = tokio::spawn(async move {
            loop {
                sampled.fetch_max(resident(process).unwrap_or_default(), Relaxed);
                time::sleep(INTERVAL).await;
            }
        });
        Self { process, before, peak, sampling }
    }

    /// Waits until the memory has returned to its initial value plus a margin, up to the timeout.
    pub(crate) async fn settle(self, margin: u64, allowed: Duration) -> Used {
        let started = Instant::now();
        loop {
            let after = resident(self.process);
            if after.is_none_or(|after| after <= self.before + margin) || started.elapsed() > allowed {
                self.sampling.abort();
                return Used { before: self.before, peak: self.peak.load(Relaxed), after };
            }
            time::sleep(INTERVAL).await;
        }
    }
}

/// Returns the resident memory of a process, or `None` if it has ended or is a zombie.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes << 10)
}
