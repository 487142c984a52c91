//! Waiting until an informer is as fresh as a version.

use std::cmp::Ordering;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::oneshot;
use windlass_api::{ResourceVersion, ResourceVersionError};

use crate::synced::Stopped;

/// Why an informer cannot be waited for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// It stopped, and has not got there.
    #[error("waiting for version {version}")]
    Stopped {
        /// The version that was waited for.
        version: ResourceVersion,
        /// That it stopped.
        source: Stopped,
    },
    /// No other version can be compared with this one.
    #[error("waiting for a version")]
    Version(#[source] ResourceVersionError),
}

/// Who waits for which version.
#[derive(Debug)]
pub(crate) struct Progress {
    /// `None` once the informer has stopped.
    waiting: Mutex<Option<Vec<Waiting>>>,
}

#[derive(Debug)]
struct Waiting {
    version: ResourceVersion,
    reached: oneshot::Sender<()>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(Some(Vec::new())) }
    }

    /// The informer's version may have changed to what `current` gives; it is only asked for if somebody waits.
    pub(crate) fn advanced(&self, current: impl FnOnce() -> ResourceVersion) {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = waiting.as_mut().filter(|waiting| !waiting.is_empty()) else { return };
        let current = current();
        for at in (0..waiting.len()).rev() {
            if is_at(&current, &waiting[at].version) {
                // Who has gone away does not mind.
                let _ = waiting.swap_remove(at).reached.send(());
            }
        }
        waiting.retain(|waiting| !waiting.reached.is_closed());
    }

    /// Nobody will get anywhere any more.
    pub(crate) fn stop(&self) {
        self.waiting.lock().take();
    }

    /// Waits until the informer, whose version is what `current` gives now, is at `version` or later.
    pub(crate) async fn reach(
        &self,
        version: ResourceVersion,
        current: impl Fn() -> ResourceVersion + Send,
    ) -> Result<(), WaitError> {
        version.compare(&version).map_err(WaitError::Version)?;
        let waits = {
            // The lock orders this with `advanced`: either the version is seen here, or the waiting there.
            let mut waiting = self.waiting.lock();
            if is_at(&current(), &version) {
                return Ok(());
            }
            let (reached, waits) = oneshot::channel();
            if let Some(waiting) = &mut *waiting {
                waiting.push(Waiting { version: version.clone(), reached });
            }
            waits
        };
        waits.await.map_err(|_| WaitError::Stopped { version, source: Stopped })
    }
}

/// A store that knows no version yet is at none.
fn is_at(current: &ResourceVersion, version: &ResourceVersion) -> bool {
    current.compare(version).is_ok_and(Ordering::is_ge)
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, pin_mut};

    use super::*;

    #[test]
    fn each_waits_for_its_version_and_no_longer() {
        let progress = Progress::new();
        let (early, late) = (progress.reach(9.into(), || 8.into()), progress.reach(11.into(), || 8.into()));
        pin_mut!(early, late);
        assert_eq!(((&mut early).now_or_never(), (&mut late).now_or_never()), (None, None));
        progress.advanced(|| 10.into());
        assert_eq!((early.now_or_never(), (&mut late).now_or_never()), (Some(Ok(())), None));
        progress.stop();
        assert!(matches!(late.now_or_never(), Some(Err(WaitError::Stopped { .. }))));
        assert_eq!(progress.reach(10.into(), || 10.into()).now_or_never(), Some(Ok(())), "it is there already");
        assert!(progress.reach(11.into(), || 10.into()).now_or_never().unwrap().is_err());
    }

    #[test]
    fn a_version_that_is_no_number_cannot_be_waited_for() {
        let error = Progress::new().reach("0".into(), || 5.into()).now_or_never().unwrap().unwrap_err();
        assert!(matches!(error, WaitError::Version(_)), "{error}");
    }

    #[test]
    fn who_does_not_wait_any_longer_is_forgotten() {
        let progress = Progress::new();
        {
            let wait = progress.reach(9.into(), || 8.into());
            pin_mut!(wait);
            assert_eq!(wait.now_or_never(), None);
        }
        progress.advanced(|| 8.into());
        assert!(progress.waiting.lock().as_ref().unwrap().is_empty());
    }
}
