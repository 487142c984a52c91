//! Waiting until an informer's store has reached a required state.

use std::{cmp::Ordering, fmt};

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::oneshot;
use windlass_api::{ResourceVersion, ResourceVersionError};

use crate::{cached::Untyped, store::Store, synced::Stopped};

/// The reason why waiting for an informer failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The informer stopped before it reached the required state.
    #[error("waiting for a write")]
    Stopped(#[from] Stopped),
    /// The version cannot be compared with others.
    #[error("waiting for a version")]
    Version(#[from] ResourceVersionError),
}

/// The waiting callers of an informer, and their conditions.
pub(crate) struct Progress {
    /// `None` after the informer has stopped.
    waiting: Mutex<Option<Vec<Waiting>>>,
}

struct Waiting {
    /// The condition. It may read the store, and must not lock `waiting`.
    is_over: Box<dyn Fn() -> bool + Send>,
    over: oneshot::Sender<()>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::new(Some(Vec::new())) }
    }

    /// Checks the conditions after a change of the store.
    pub(crate) fn changed(&self) {
        let mut waiting = self.waiting.lock();
        let Some(waiting) = waiting.as_mut().filter(|waiting| !waiting.is_empty()) else { return };
        for at in (0..waiting.len()).rev() {
            if (waiting[at].is_over)() {
                // An error means that the caller no longer waits.
                let _ = waiting.swap_remove(at).over.send(());
            }
        }
        waiting.retain(|waiting| !waiting.over.is_closed());
    }

    /// Ends all waiting: the store no longer changes.
    pub(crate) fn stop(&self) {
        self.waiting.lock().take();
    }

    /// Waits until the store is at `version` or later.
    pub(crate) async fn reach(&self, version: &ResourceVersion, store: &Store<Untyped>) -> Result<(), WaitError> {
        version.compare(version)?;
        let (version, store) = (version.clone(), store.clone());
        Ok(self.until(move || store.version().compare(&version).is_ok_and(Ordering::is_ge)).await?)
    }

    /// Waits until a condition of the store holds.
    pub(crate) async fn until(&self, is_over: impl Fn() -> bool + Send + 'static) -> Result<(), Stopped> {
        let waits = {
            // The lock orders this with `changed`: either the condition already sees the change here, or `changed` sees
            // the new entry.
            let mut waiting = self.waiting.lock();
            if is_over() {
                return Ok(());
            }
            let (over, waits) = oneshot::channel();
            if let Some(waiting) = &mut *waiting {
                waiting.push(Waiting { is_over: Box::new(is_over), over });
            }
            waits
        };
        waits.await.map_err(|_| Stopped)
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting.lock().as_ref().map(Vec::len);
        f.debug_struct("Progress").field("waiting", &waiting).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, pin_mut};

    use super::*;
    use crate::store::StoreWriter;

    #[test]
    fn each_waits_for_its_version_and_no_longer() {
        let (progress, mut writer) = (Progress::new(), StoreWriter::<Untyped>::new(|_, _, _| ()));
        let store = writer.store().clone();
        let at = |version: u64| ResourceVersion::from(version);
        let (nine, ten, eleven) = (at(9), at(10), at(11));
        {
            let (early, late) = (progress.reach(&nine, &store), progress.reach(&eleven, &store));
            pin_mut!(early, late);
            assert_eq!(((&mut early).now_or_never(), (&mut late).now_or_never()), (None, None));
            writer.advance(at(10));
            progress.changed();
            assert_eq!((early.now_or_never(), (&mut late).now_or_never()), (Some(Ok(())), None));
            progress.stop();
            assert_eq!(late.now_or_never(), Some(Err(WaitError::Stopped(Stopped))));
        }
        assert_eq!(progress.reach(&ten, &store).now_or_never(), Some(Ok(())), "the version is already reached");
        assert!(progress.reach(&eleven, &store).now_or_never().unwrap().is_err());
    }

    #[test]
    fn a_version_that_is_no_number_cannot_be_waited_for() {
        let writer = StoreWriter::<Untyped>::new(|_, _, _| ());
        let error = Progress::new().reach(&"0".into(), writer.store()).now_or_never().unwrap().unwrap_err();
        assert!(matches!(error, WaitError::Version(_)), "{error}");
    }

    #[test]
    fn cancelled_waiter_is_removed() {
        let progress = Progress::new();
        {
            let wait = progress.until(|| false);
            pin_mut!(wait);
            assert_eq!(wait.now_or_never(), None);
        }
        progress.changed();
        assert!(progress.waiting.lock().as_ref().unwrap().is_empty());
    }
}
