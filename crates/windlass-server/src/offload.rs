//! Runs long computations outside of the asynchronous runtime.
//!
//! A computation of some milliseconds keeps a thread of the runtime from all other requests. On a separate thread, the
//! operating system shares the processors between it and them.
//!
//! Guaranteed: if there are several processors, computations leave one of them to short requests. The others wait for their
//! turns, by the class of their request ([`turns`](crate::turns)). So a long computation in many small parts lets other
//! computations run between them. A computation that has not begun is cancelled when its request is dropped.

use std::{
    num::NonZero,
    panic::resume_unwind,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, Wake, Waker},
    thread,
};

use futures::future::BoxFuture;
use tokio::{
    sync::Notify,
    task::{self, JoinHandle},
};
use windlass_api::Status;

use crate::turns::{Class, Turns};

/// The minimum size of data that is decoded, converted or filtered outside of the runtime, in bytes. Smaller data takes
/// less than about 1 ms.
pub(crate) const LARGE: usize = 128 << 10;

/// The maximum size of the data for one computation, in bytes. It takes about 10 ms.
pub(crate) const PART: usize = 1 << 20;

/// The computations that may run at once.
static TURNS: LazyLock<Arc<Turns>> = LazyLock::new(|| Turns::new(limit()));

fn limit() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_sub(1).max(1)
}

/// Computes a value on a thread for blocking work.
pub(crate) async fn offload<T: Send + 'static>(compute: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    let class = Class::current();
    // A task waits for the turn. Otherwise a caller that is not polled could keep it from all others.
    let computing = tokio::spawn(async move {
        let turn = Arc::clone(&TURNS).take(class).await;
        let computing = task::spawn_blocking(move || {
            let _turn = turn;
            class.sync_scope(compute)
        });
        computing.await
    });
    let computed = AbortOnDrop(computing).await;
    computed.and_then(|computed| computed).map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(cancelled) => Status::internal(cancelled),
    })
}

/// Runs a future on threads for blocking work. It occupies a thread only while it computes, and none while it waits.
pub(crate) async fn offload_future<T: Send + 'static>(mut future: BoxFuture<'static, T>) -> Result<T, Status> {
    let woken = Arc::new(Woken(Notify::new()));
    loop {
        let waker = Waker::from(Arc::clone(&woken));
        let poll = move || {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            (future, polled)
        };
        let (returned, polled) = offload(poll).await?;
        if let Poll::Ready(value) = polled {
            return Ok(value);
        }
        future = returned;
        woken.0.notified().await;
    }
}

/// Remembers that a future can continue.
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// A task that ends with its owner.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes all turns. Only one test may have them: two could have a part each, and wait for ever.
#[cfg(test)]
pub(crate) async fn all_turns() -> (tokio::sync::MutexGuard<'static, ()>, Vec<crate::turns::Turn>) {
    static TAKING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let taking = TAKING.lock().await;
    let mut all = Vec::new();
    for _ in 0..limit() {
        all.push(Arc::clone(&TURNS).take(Class::Exempt).await);
    }
    (taking, all)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;
    use tokio::sync::oneshot;

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

    #[tokio::test]
    async fn computation_of_a_dropped_caller_does_not_begin() {
        let (_taking, all) = all_turns().await;
        let (sent, received) = mpsc::channel();
        let mut computing = Box::pin(offload(move || sent.send(()).unwrap()));
        assert!(computing.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
        drop(computing);
        drop(all);
        assert_eq!(offload(|| 7).await, Ok(7));
        assert!(received.recv().is_err(), "the computation was dropped without a call");
    }

    #[tokio::test]
    async fn computation_of_an_exempt_request_is_next() {
        let (_taking, mut all) = all_turns().await;
        let (sender, order) = mpsc::channel();
        let mut computing = Vec::new();
        for class in [Class::Flow { level: 1, flow: 1 }, Class::Flow { level: 1, flow: 1 }, Class::Exempt] {
            let sender = sender.clone();
            let compute = async move { offload(move || sender.send(Class::current()).unwrap()).await };
            computing.push(Box::pin(class.scope(compute)));
            assert!(computing.last_mut().unwrap().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(all.pop());
        for computing in computing {
            assert_eq!(computing.await, Ok(()));
        }
        assert_eq!(order.recv(), Ok(Class::Exempt));
    }

    #[tokio::test]
    async fn offloaded_future_computes_elsewhere_and_occupies_no_thread_while_it_waits() {
        let here = thread::current().id();
        let (sender, receiver) = oneshot::channel();
        let future = async move {
            let before = thread::current().id();
            let received: i32 = receiver.await.unwrap();
            (before, received, thread::current().id())
        };
        let mut running = Box::pin(offload_future(future.boxed()));
        assert!(running.as_mut().now_or_never().is_none());
        // More computations than turns: they would wait for ever if the future kept its turn.
        for number in 0..=limit() {
            assert!(running.as_mut().now_or_never().is_none());
            assert_eq!(offload(move || number).await, Ok(number));
        }
        sender.send(7).unwrap();
        let (before, received, after) = running.await.unwrap();
        assert_eq!(received, 7);
        assert!(before != here && after != here);
    }
}
