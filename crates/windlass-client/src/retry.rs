//! Retries of whole operations, and polling.
//!
//! The client itself retries requests when this is safe (`pipeline/repeat`). This module is for operations that a
//! program must repeat as a whole, such as reading an object, changing it and writing it back.

use std::{future::Future, time::Duration};

use tokio::time::sleep;
use windlass_api::{Backoff, Entropy};

use crate::{Error, Result};

/// Retries an operation while `worth_another` returns `true` for its error and `backoff` has attempts left. Returns
/// the last result.
pub async fn on_error<T, E, F>(
    backoff: Backoff,
    entropy: &Entropy,
    worth_another: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut delays = backoff.delays(entropy);
    for _ in 1..backoff.max_tries() {
        match attempt().await {
            Err(error) if worth_another(&error) => sleep(delays.next_delay()).await,
            outcome => return outcome,
        }
    }
    attempt().await
}

/// Retries an operation after conflicts with other writers, at most 5 times in all, 10 ms apart.
///
/// Each attempt must read the object again.
///
/// ```
/// # use windlass_api::{Entropy, ObjectExt as _, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_client::{Client, Result, retry};
/// # async fn label(client: Client) -> Result<ConfigMap> {
/// retry::on_conflict(&Entropy::os(), || async {
///     let mut settings = client.get::<ConfigMap>("settings").await?;
///     settings.labels_mut().insert("seen".into(), "true".into());
///     client.update(&settings).await
/// })
/// .await
/// # }
/// ```
pub async fn on_conflict<T, F>(entropy: &Entropy, attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    on_error(Backoff::CONFLICT, entropy, Error::is_conflict, attempt).await
}

/// Polls until the result is not `None`: immediately and then after each of `delays`. Returns `None` once `delays` is
/// exhausted.
///
/// ```
/// # use std::{iter, time::Duration};
/// # use windlass_api::k8s_openapi::api::core::v1::ServiceAccount;
/// # use windlass_client::{Client, Result, retry};
/// # async fn ready(client: Client) -> Result<bool> {
/// let every_second = iter::repeat_n(Duration::from_secs(1), 30);
/// let found = retry::until_some(every_second, || async { client.get_opt::<ServiceAccount>("default").await });
/// # Ok(
/// found.await?.is_some()
/// # )
/// # }
/// ```
pub async fn until_some<T, E, F>(
    delays: impl IntoIterator<Item = Duration>,
    mut ask: impl FnMut() -> F,
) -> Result<Option<T>, E>
where
    F: Future<Output = Result<Option<T>, E>>,
{
    let mut delays = delays.into_iter();
    loop {
        if let Some(answer) = ask().await? {
            return Ok(Some(answer));
        }
        let Some(delay) = delays.next() else { return Ok(None) };
        sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, iter};

    use tokio::time::Instant;
    use windlass_api::k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::testing::Fake;

    #[tokio::test(start_paused = true)]
    async fn retryable_errors_are_retried_up_to_the_limit() {
        let entropy = Entropy::seeded(1);
        let backoff = Backoff::new(Duration::from_secs(1)).factor(2.0).tries(4);
        for (succeeds_at, outcome, tries, seconds) in
            [(1, Ok("done"), 1, 0), (3, Ok("done"), 3, 3), (4, Ok("done"), 4, 7), (9, Err(4), 4, 7)]
        {
            let (began, tried) = (Instant::now(), Cell::new(0));
            let attempt = || {
                tried.set(tried.get() + 1);
                let number = tried.get();
                async move { if number >= succeeds_at { Ok("done") } else { Err(number) } }
            };
            assert_eq!(on_error(backoff, &entropy, |_| true, attempt).await, outcome);
            assert_eq!((tried.get(), began.elapsed().as_secs()), (tries, seconds));
        }
        let tried = Cell::new(0);
        let attempt = || {
            tried.set(tried.get() + 1);
            async { Err::<(), _>("no") }
        };
        assert_eq!(on_error(backoff, &entropy, |error| *error != "no", attempt).await, Err("no"));
        assert_eq!(tried.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn only_conflicts_are_retried_five_times() {
        for (code, tries) in [(409, 5), (403, 1), (500, 1)] {
            let fake = Fake::failure(code, r#"{"kind":"Status","apiVersion":"v1","status":"Failure"}"#);
            let client = fake.client();
            let failed = on_conflict(&Entropy::seeded(1), || async { client.update(&pod()).await }).await;
            assert_eq!(failed.unwrap_err().status().unwrap().code, code);
            assert_eq!(fake.seen().len(), tries);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn poll_runs_at_once_and_after_each_delay() {
        let began = Instant::now();
        let asked = Cell::new(0);
        let ask = |enough: u32| {
            let asked = &asked;
            move || {
                asked.set(asked.get() + 1);
                let answer = (asked.get() >= enough).then(|| asked.get());
                async move { Ok::<_, Error>(answer) }
            }
        };
        let delays = || iter::repeat_n(Duration::from_secs(1), 5);
        assert_eq!(until_some(delays(), ask(1)).await.unwrap(), Some(1));
        assert_eq!(began.elapsed().as_secs(), 0);
        assert_eq!(until_some(delays(), ask(4)).await.unwrap(), Some(4));
        assert_eq!(began.elapsed().as_secs(), 2);
        assert_eq!(until_some(delays(), ask(99)).await.unwrap(), None);
        assert_eq!((asked.get(), began.elapsed().as_secs()), (10, 7));
    }

    fn pod() -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some("p".to_owned());
        pod
    }
}
