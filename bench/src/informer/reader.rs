//! A reader beside the writer: how long it is made to wait.

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

/// A thread that looks up one object after the other until it is stopped.
pub(super) struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Waits, BoxError>>,
}

/// How long each look-up took, without the time that the thread was ready to run and had no processor: that says nothing of
/// locks. A writer that loses its processor within one is counted.
#[derive(Debug, Default)]
pub(super) struct Waits(Vec<Duration>);

/// Shorter look-ups have not waited; the operating system is not asked about them.
const PLAIN: Duration = Duration::from_micros(5);

/// After so many look-ups the thread's waits for a processor are read anew.
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
    /// The longest, and that which one in ten thousand exceeds, in microseconds.
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

/// How long this thread was ready to run and did not, in all.
fn waited_for_processor() -> Result<Duration, BoxError> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().nth(1).ok_or("schedstat has no second figure")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_told_and_what_one_in_ten_thousand_exceeds() {
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
