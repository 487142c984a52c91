//! Runs long computations outside of the asynchronous runtime.
//!
//! A computation of some hundred milliseconds keeps a thread of the runtime from all other requests. On a separate
//! thread, the operating system shares the processors between it and them.
//!
//! Guaranteed: no more computations run at once than there are processors; the others wait in turn. Each runs to its
//! end, even if its request is dropped.

use std::{num::NonZero, panic::resume_unwind, sync::LazyLock, thread};

use tokio::{sync::Semaphore, task};
use windlass_api::Status;

/// The computations that may run at once.
static PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(1, NonZero::get)));

/// Computes a value on a thread for blocking work.
pub(crate) async fn offload<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    // A task waits for the permit. Otherwise a caller that is not polled could keep one from all others.
    let computing = tokio::spawn(async move {
        let permit = PERMITS.acquire().await;
        let computing = task::spawn_blocking(move || {
            let _permit = permit;
            compute()
        });
        computing.await
    });
    computing.await.and_then(|computed| computed).map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(cancelled) => Status::internal(cancelled),
    })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn offloaded_value_is_returned() {
        assert_eq!(offload(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn offloaded_panic_reaches_the_caller() {
        let computing = std::panic::AssertUnwindSafe(offload(|| panic!("from the computation")));
        assert!(computing.catch_unwind().await.is_err());
    }
}
