//! Calls that several requests share.

use std::{fmt, sync::Arc};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A call in progress, for any number of requests.
pub(crate) type Call<T> = Shared<BoxFuture<'static, T>>;

/// At most one call at a time. It runs in a task, so it continues when the requests that wait for it end.
pub(crate) struct SingleFlight<T>(Arc<Mutex<Option<Call<T>>>>);

/// Ends a call when it is dropped: after its result, after a panic, or with a task that is never polled.
struct Progress<T>(Arc<Mutex<Option<Call<T>>>>);

/// Creates a call. Its result is sent by the task, or `lost` if the sender is dropped.
pub(crate) fn call<T: Clone + Send + Sync + 'static>(
    lost: impl FnOnce() -> T + Send + 'static,
) -> (oneshot::Sender<T>, Call<T>) {
    let (sender, receiver) = oneshot::channel();
    (sender, async move { receiver.await.unwrap_or_else(|_| lost()) }.boxed().shared())
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Waits for the call in progress, or begins one. The result is `lost` if the call ends without one: with a panic, or
    /// with the runtime.
    pub(crate) async fn join(
        &self,
        begin: impl FnOnce() -> BoxFuture<'static, T>,
        lost: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (joined, begun) = {
            let mut current = self.0.lock();
            if let Some(current) = &*current {
                (current.clone(), None)
            } else {
                let (sender, new) = call(lost);
                *current = Some(new.clone());
                (new, Some((Progress(Arc::clone(&self.0)), sender)))
            }
        };
        // The lock is free, because a runtime that ends drops the task at once.
        if let Some((progress, sender)) = begun {
            let work = begin();
            tokio::spawn(async move {
                let result = work.await;
                drop(progress);
                drop(sender.send(result));
            });
        }
        joined.await
    }
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Drop for Progress<T> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

impl<T> fmt::Debug for SingleFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn concurrent_calls_share_a_result_and_later_ones_do_not() {
        let (flight, count) = (SingleFlight::default(), Arc::new(AtomicUsize::new(0)));
        let join = || {
            let count = Arc::clone(&count);
            let work = async move {
                tokio::task::yield_now().await;
                Ok(count.fetch_add(1, Ordering::SeqCst))
            };
            flight.join(|| work.boxed(), || Err("lost"))
        };
        assert_eq!(futures::future::join_all((0..9).map(|_| join())).await, vec![Ok(0); 9]);
        assert_eq!(join().await, Ok(1));
    }

    fn fail() -> Result<(), &'static str> {
        panic!("in the call")
    }

    #[tokio::test]
    async fn panic_ends_the_call_for_all_that_wait() {
        let flight = SingleFlight::<Result<(), &str>>::default();
        let join = || flight.join(|| async { fail() }.boxed(), || Err("lost"));
        assert_eq!(futures::future::join(join(), join()).await, (Err("lost"), Err("lost")));
        assert_eq!(flight.join(|| async { Ok(()) }.boxed(), || Err("lost")).await, Ok(()));
    }

    #[test]
    fn task_that_is_never_polled_ends_the_call() {
        let flight = SingleFlight::<Result<(), &str>>::default();
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let first = runtime();
        let mut waiting = Box::pin(flight.join(|| async { Ok(()) }.boxed(), || Err("lost")));
        {
            // The runtime is entered, but does not run.
            let _guard = first.enter();
            assert!((&mut waiting).now_or_never().is_none());
        }
        drop(first);
        assert_eq!((&mut waiting).now_or_never(), Some(Err("lost")));
        assert_eq!(runtime().block_on(flight.join(|| async { Ok(()) }.boxed(), || Err("lost"))), Ok(()));
    }
}
