//! A reader that runs concurrently with the writer, to measure its waiting time.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;
use windlass_api::{BoxError, Object, ObjectRef};
use windlass_cache::Lister;

/// A thread that reads one object after the other until it is stopped.
pub(super) struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Waits, BoxError>>,
}

/// The durations of the reads, without the time that the thread waited for a core, which does not depend on locks. The
/// time that a writer waits for a core while it holds the lock is included.
#[derive(Debug, Default)]
pub(super) struct Waits(Vec<Duration>);

/// Shorter reads have not waited, so the operating system is not queried.
const PLAIN: Duration = Duration::from_micros(5);

/// The number of reads between two queries of the thread's wait time.
const FRESH: usize = 64;

impl Reader {
    pub(super) fn start<K: Object>(store: Lister<K>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let keys: Vec<ObjectRef<K>> = store.list().iter().map(windlass_cache::Cached::object_ref).collect();
            let mut waits = Waits::default();
            let mut unready = waited_for_processor()?;
            for (at, key) in keys.iter().cycle().enumerate() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                if at % FRESH == 0 {
                    unready = waited_for_processor()?;
                }
                let started = Instant::now();
                std::hint::black_box(store.get(key));
                let mut took = started.elapsed();
                if took > PLAIN {
                    let now = waited_for_processor()?;
                    took = took.saturating_sub(now.saturating_sub(unready));
                    unready = now;
                }
                waits.0.push(took);
            }
            Ok(waits)
        });
        Self { stop, thread }
    }

    pub(super) fn stop(self) -> Result<Waits, BoxError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the reader panicked")?
    }
}

impl Waits {
    /// Returns the maximum and the 99.99th percentile, in microseconds.
    pub(super) fn figures(mut self) -> Vec<(String, Value)> {
        self.0.sort_unstable();
        let at = |index: usize| self.0.get(index).map_or(0.0, |took| took.as_secs_f64() * 1e6);
        let count = self.0.len();
        let figures = [
            ("reader_lookups", count.into()),
            ("reader_longest_us", at(count.saturating_sub(1)).into()),
            ("reader_p9999_us", at(count - count.div_ceil(10_000)).into()),
        ];
        figures.map(|(name, figure): (&str, Value)| (name.to_owned(), figure)).into()
    }
}

/// Returns the total time that this thread was runnable but did not run.
fn waited_for_processor() -> Result<Duration, BoxError> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().nth(1).ok_or("schedstat has no second figure")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maximum_and_99_99_percentile_are_reported() {
        let mut waits = vec![Duration::from_micros(1); 19_997];
        waits.extend([3, 2, 4].map(Duration::from_micros));
        let figures: std::collections::BTreeMap<_, _> = Waits(waits).figures().into_iter().collect();
        assert_eq!(figures["reader_lookups"], 20_000);
        assert_eq!(
            (figures["reader_longest_us"].as_f64(), figures["reader_p9999_us"].as_f64()),
            (Some(4.0), Some(3.0))
        );
    }
}
