//! Errors of reconcilers: any type, with hints for the retry.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use windlass_api::{BoxError, ObjectRef, k8s_openapi::api::core::v1::ConfigMap};
use windlass_runtime::{
    Action, Context, Controller, Error, Outcome, ReconcileEvent, Reconciler, Result, Retry, Runnable,
};

use crate::fake::{Fake, Run, config};

/// An error like `anyhow::Error`: no `std::error::Error`, but converts to a box that keeps only the sources.
struct AnyError(BoxError);

#[derive(Debug)]
struct Erased(BoxError);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for AnyError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl From<AnyError> for BoxError {
    fn from(error: AnyError) -> Self {
        Erased(error.0).into()
    }
}

impl fmt::Display for Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Erased {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Runs a controller with one object for a minute. Returns its outcomes, each with the time since the start.
async fn outcomes(controller: impl Runnable) -> Vec<(Duration, Outcome)> {
    let fake = Fake::new();
    fake.put(&config("a"));
    let outcomes: Arc<Mutex<Vec<_>>> = Arc::default();
    let (observed, start) = (outcomes.clone(), Instant::now());
    let mut manager = fake.manager().build();
    manager.add(controller);
    manager.on_reconcile(move |event: &ReconcileEvent<'_>| {
        if let ReconcileEvent::Finished(finished) = event {
            observed.lock().push((start.elapsed(), finished.outcome.clone()));
        }
    });
    let run = Run::start(manager);
    sleep(Duration::from_mins(1)).await;
    run.stop().await.unwrap();
    let outcomes = outcomes.lock();
    outcomes.clone()
}

fn failed(message: &str, retry: Retry) -> Outcome {
    Outcome::Failed { message: message.to_owned(), retry }
}

#[tokio::test(start_paused = true)]
async fn error_that_is_only_a_box_shows_its_causes() {
    async fn boxed(_: Arc<ConfigMap>, _: Context) -> Result<Action, BoxError> {
        let text = std::fs::read_to_string("/nonexistent/file").map_err(|source| Error::Listen { source })?;
        Err(text.into())
    }
    let outcomes = outcomes(Controller::<ConfigMap>::new().reconcile(boxed)).await;
    let expected = failed("cannot listen: No such file or directory (os error 2)", Retry::Backoff);
    assert!(outcomes.len() > 2 && outcomes.iter().all(|(_, outcome)| *outcome == expected), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn terminal_error_in_any_type_is_not_retried() {
    async fn any(config: Arc<ConfigMap>, _: Context) -> Result<Action, AnyError> {
        let _data = config.data.as_ref().ok_or_else(|| Error::terminal("no data"))?;
        Ok(Action::await_change())
    }
    let by_object = outcomes(Controller::<ConfigMap>::new().reconcile(any)).await;
    let by_key = async |_: ObjectRef<ConfigMap>, _: Context| Err::<Action, _>(Error::terminal("no data"));
    let by_key = outcomes(Controller::<ConfigMap>::new().reconcile_keys(by_key)).await;
    for outcomes in [by_object, by_key] {
        let [(_, outcome)] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!(*outcome, failed("terminal error: no data", Retry::Never));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_delays_without_backoff_and_overrides_the_policy() {
    const DELAY: Duration = Duration::from_secs(20);

    struct Busy;

    impl Reconciler<ConfigMap> for Busy {
        type Error = Error;

        async fn reconcile(&self, _: Arc<ConfigMap>, _: Context) -> Result<Action> {
            Err(Error::retry_after(DELAY, "busy"))
        }

        fn retry(&self, _: &Error) -> Retry {
            Retry::Never
        }
    }

    let outcomes = outcomes(Controller::<ConfigMap>::new().reconcile(Busy)).await;
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    for pair in outcomes.windows(2) {
        let pause = pair[1].0.saturating_sub(pair[0].0);
        assert!((DELAY..DELAY + Duration::from_millis(5)).contains(&pause), "{pause:?}");
    }
    assert_eq!(outcomes[0].1, failed("retry after 20s: busy", Retry::After(DELAY)));
}

#[tokio::test(start_paused = true)]
async fn text_is_an_error() {
    let text = async |_: Arc<ConfigMap>, _: Context| Err::<Action, _>("not today");
    let outcomes = outcomes(Controller::<ConfigMap>::new().reconcile(text)).await;
    assert_eq!(outcomes[0].1, failed("not today", Retry::Backoff));
}
