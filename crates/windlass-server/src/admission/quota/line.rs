//! Lines of charges, one for each namespace.
//!
//! The first request in a line serves all that wait at this moment, so a burst of creations updates each quota a few
//! times only. Requests of different namespaces do not wait for each other.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::oneshot::{self, error::TryRecvError};
use windlass_api::Status;

use super::charge::Charge;

/// The lines of the namespaces with waiting requests.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<String, Weak<Line>>>);

#[derive(Debug, Default)]
struct Line {
    waiting: Mutex<Vec<Waiting>>,
    /// Held by the request that serves the line.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    charge: Arc<Charge>,
    result: oneshot::Sender<Result<(), Status>>,
}

impl Lines {
    /// Waits until the charge is served, by this request or by another one of the namespace. `serve` returns a result
    /// for each charge.
    pub(super) async fn charge<F: Future<Output = Vec<Result<(), Status>>>>(
        &self,
        namespace: &str,
        charge: Charge,
        serve: impl Fn(Vec<Arc<Charge>>) -> F,
    ) -> Result<(), Status> {
        let charge = Arc::new(charge);
        let line = self.line(namespace);
        loop {
            let (sender, mut receiver) = oneshot::channel();
            line.waiting.lock().push(Waiting { charge: Arc::clone(&charge), result: sender });
            let turn = line.turn.lock().await;
            match receiver.try_recv() {
                Ok(result) => return result,
                // The request that served this one was cancelled.
                Err(TryRecvError::Closed) => continue,
                Err(TryRecvError::Empty) => {}
            }
            // Charges of cancelled requests are dropped.
            let mut waiting = std::mem::take(&mut *line.waiting.lock());
            waiting.retain(|waiting| !waiting.result.is_closed());
            let results = serve(waiting.iter().map(|waiting| Arc::clone(&waiting.charge)).collect()).await;
            for (waiting, result) in waiting.into_iter().zip(results) {
                // The request may have been cancelled meanwhile.
                let _ = waiting.result.send(result);
            }
            drop(turn);
            if let Ok(result) = receiver.try_recv() {
                return result;
            }
        }
    }

    fn line(&self, namespace: &str) -> Arc<Line> {
        let mut lines = self.0.lock();
        if let Some(line) = lines.get(namespace).and_then(Weak::upgrade) {
            return line;
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Line::default());
        lines.insert(namespace.to_owned(), Arc::downgrade(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::{BoxFuture, join_all};
    use serde_json::json;
    use tokio::time::{sleep, timeout};
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

    /// Returns a function that serves charges in a second, and records their numbers.
    fn server<'s>(
        served: &'s Mutex<Vec<usize>>,
    ) -> impl Fn(Vec<Arc<Charge>>) -> BoxFuture<'s, Vec<Result<(), Status>>> {
        move |charges| {
            Box::pin(async move {
                served.lock().push(charges.len());
                sleep(Duration::from_secs(1)).await;
                vec![Ok(()); charges.len()]
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_charges_are_served_together() {
        let (lines, served) = (Lines::default(), Mutex::default());
        let serve = server(&served);
        let results = join_all((0..10).map(|_| lines.charge("n", charge(), &serve))).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(*served.lock(), [1, 9]);
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_do_not_wait_for_each_other() {
        let (lines, served) = (Lines::default(), Mutex::default());
        let serve = server(&served);
        let both = futures::future::join(lines.charge("a", charge(), &serve), lines.charge("b", charge(), &serve));
        let both = timeout(Duration::from_millis(1500), both).await.expect("one second suffices for both");
        assert_eq!(both, (Ok(()), Ok(())));
        lines.charge("c", charge(), &serve).await.unwrap();
        assert_eq!(lines.0.lock().len(), 1, "lines without requests are removed");
    }

    /// Sends three charges, and cancels the second one after this time. Returns the numbers of charges that were served.
    async fn served_with_cancellation(after: Duration) -> Vec<usize> {
        let (lines, served) = (Lines::default(), Mutex::default());
        let serve = server(&served);
        let first = lines.charge("n", charge(), &serve);
        let cancelled = timeout(after, lines.charge("n", charge(), &serve));
        let patient = lines.charge("n", charge(), &serve);
        let (first, cancelled, patient) = futures::join!(first, cancelled, patient);
        assert_eq!((first, patient), (Ok(()), Ok(())));
        assert!(cancelled.is_err());
        served.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn charge_of_a_cancelled_request_is_not_served() {
        assert_eq!(served_with_cancellation(Duration::from_millis(500)).await, [1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn charge_is_repeated_if_the_request_that_serves_it_is_cancelled() {
        assert_eq!(served_with_cancellation(Duration::from_millis(1500)).await, [1, 2, 1]);
    }
}
