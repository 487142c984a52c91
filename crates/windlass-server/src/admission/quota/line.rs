//! Lines of charges, one for each namespace.
//!
//! A task serves the line of a namespace while requests wait, and takes all of them at once. So a burst of creations
//! updates each quota a few times only. It is not a part of any request, because a request can be cancelled, or not be
//! polled, while others wait. Requests of different namespaces do not wait for each other.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windlass_api::Status;

use super::charge::Charge;

/// The number of waiting charges from which those of cancelled requests are removed before they are served.
const CROWDED: usize = 64;

/// The waiting charges by namespace. A namespace has an entry while its task runs.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<String, Vec<Waiting>>>);

#[derive(Debug)]
struct Waiting {
    charge: Arc<Charge>,
    result: oneshot::Sender<Result<(), Status>>,
}

impl Waiting {
    fn is_cancelled(&self) -> bool {
        self.result.is_closed()
    }
}

impl Lines {
    /// Waits until the charge is served. `serve` returns a result for each charge; that of the first waiting request is
    /// used for those that follow.
    ///
    /// If the request is cancelled before its charge is served, it is not served.
    pub(super) async fn charge<F>(
        self: &Arc<Self>,
        namespace: &str,
        charge: Charge,
        serve: impl Fn(Vec<Arc<Charge>>) -> F + Send + Sync + 'static,
    ) -> Result<(), Status>
    where
        F: Future<Output = Vec<Result<(), Status>>> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let waiting = Waiting { charge: Arc::new(charge), result: sender };
        let task = match self.0.lock().entry(namespace.to_owned()) {
            Entry::Occupied(line) => {
                let line = line.into_mut();
                if line.len() >= CROWDED && line.len().is_power_of_two() {
                    line.retain(|waiting| !waiting.is_cancelled());
                }
                line.push(waiting);
                None
            }
            Entry::Vacant(line) => {
                line.insert(vec![waiting]);
                Some(Task { lines: Arc::clone(self), namespace: namespace.to_owned(), is_done: false })
            }
        };
        if let Some(task) = task {
            tokio::spawn(task.run(serve));
        }
        // The task ends without a result if it panics, or with the runtime.
        receiver.await.unwrap_or_else(|_| Err(Status::internal("resource quota evaluation failed")))
    }
}

/// The task that serves the line of a namespace.
struct Task {
    lines: Arc<Lines>,
    namespace: String,
    is_done: bool,
}

impl Task {
    async fn run<F: Future<Output = Vec<Result<(), Status>>>>(mut self, serve: impl Fn(Vec<Arc<Charge>>) -> F) {
        while let Some(mut waiting) = self.next() {
            waiting.retain(|waiting| !waiting.is_cancelled());
            if waiting.is_empty() {
                continue;
            }
            let results = serve(waiting.iter().map(|waiting| Arc::clone(&waiting.charge)).collect()).await;
            for (waiting, result) in waiting.into_iter().zip(results) {
                // The request may have been cancelled meanwhile.
                let _ = waiting.result.send(result);
            }
        }
    }

    /// Takes all waiting charges. Removes the line if there are none.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut lines = self.lines.0.lock();
        let waiting = lines.get_mut(&self.namespace).map(mem::take).filter(|waiting| !waiting.is_empty());
        if waiting.is_none() {
            lines.remove(&self.namespace);
            self.is_done = true;
        }
        waiting
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // A line without a task would never be served.
        if !self.is_done {
            self.lines.0.lock().remove(&self.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{
        FutureExt as _,
        future::{BoxFuture, join_all},
    };
    use serde_json::json;
    use tokio::{
        task::yield_now,
        time::{sleep, timeout},
    };
    use windlass_api::{GroupResource, quota::Evaluator};

    use super::*;

    fn charge() -> Charge {
        let evaluator = Evaluator::of("", "secrets").unwrap();
        Charge {
            usage: evaluator.measure(&json!({}), jiff::Timestamp::UNIX_EPOCH),
            previous: None,
            evaluator,
            resource: GroupResource::new("", "secrets"),
            name: "s".to_owned(),
            is_limited: true,
            is_dry_run: false,
        }
    }

    type Served = Arc<Mutex<Vec<usize>>>;

    /// Returns a function that serves charges in a second, and records their numbers.
    fn server(
        served: &Served,
    ) -> impl Fn(Vec<Arc<Charge>>) -> BoxFuture<'static, Vec<Result<(), Status>>> + Clone + Send + Sync + 'static {
        let served = Arc::clone(served);
        move |charges| {
            served.lock().push(charges.len());
            Box::pin(sleep(Duration::from_secs(1)).map(move |()| vec![Ok(()); charges.len()]))
        }
    }

    fn lines() -> (Arc<Lines>, Served) {
        (Arc::default(), Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_charges_are_served_together() {
        let (lines, served) = lines();
        let serve = server(&served);
        let first = lines.charge("n", charge(), serve.clone());
        let others = async {
            while served.lock().is_empty() {
                yield_now().await;
            }
            join_all((0..9).map(|_| lines.charge("n", charge(), serve.clone()))).await
        };
        let (first, others) = futures::join!(first, others);
        assert!(others.iter().chain([&first]).all(Result::is_ok));
        assert_eq!(*served.lock(), [1, 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_do_not_wait_for_each_other() {
        let (lines, served) = lines();
        let serve = server(&served);
        let both = futures::future::join(
            lines.charge("a", charge(), serve.clone()),
            lines.charge("b", charge(), serve.clone()),
        );
        let both = timeout(Duration::from_millis(1500), both).await.expect("one second suffices for both");
        assert_eq!(both, (Ok(()), Ok(())));
        while !lines.0.lock().is_empty() {
            yield_now().await;
        }
        lines.charge("a", charge(), serve).await.expect("a line without requests begins again");
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_is_not_polled_delays_no_other() {
        let (lines, served) = lines();
        let serve = server(&served);
        let mut unpolled = Box::pin(lines.charge("n", charge(), serve.clone()));
        assert!((&mut unpolled).now_or_never().is_none());
        let other = timeout(Duration::from_secs(3), lines.charge("n", charge(), serve)).await;
        assert_eq!(other, Ok(Ok(())));
        assert_eq!(unpolled.now_or_never(), Some(Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn panic_ends_the_waiting_requests_only() {
        let (lines, served) = lines();
        let failed = lines.charge("n", charge(), |_: Vec<Arc<Charge>>| async { panic!("in the test") }).await;
        assert_eq!(failed.unwrap_err().code, 500);
        assert_eq!(lines.charge("n", charge(), server(&served)).await, Ok(()));
    }

    /// Sends a charge, then two others while it is served, and cancels one of these after a time. Returns the numbers of
    /// charges that were served.
    async fn served_with_cancellation(after: Duration) -> Vec<usize> {
        let (lines, served) = lines();
        let serve = server(&served);
        let first = lines.charge("n", charge(), serve.clone());
        let others = async {
            while served.lock().is_empty() {
                yield_now().await;
            }
            let cancelled = timeout(after, lines.charge("n", charge(), serve.clone()));
            futures::join!(cancelled, lines.charge("n", charge(), serve.clone()))
        };
        let (first, (cancelled, patient)) = futures::join!(first, others);
        assert_eq!((first, patient), (Ok(()), Ok(())));
        assert!(cancelled.is_err());
        served.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn charge_of_a_cancelled_request_is_not_served() {
        assert_eq!(served_with_cancellation(Duration::from_millis(500)).await, [1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_is_cancelled_while_it_is_served_repeats_no_charge() {
        assert_eq!(served_with_cancellation(Duration::from_millis(1500)).await, [1, 2]);
    }
}
