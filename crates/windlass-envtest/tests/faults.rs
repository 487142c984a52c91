//! Requests that fail, wait or are lost, and their records.

#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::time::Duration;

use tokio::time::Instant;
use windlass_api::{
    GroupResource, ObjectBuilder as _, ObjectExt as _, Status,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_envtest::{Environment, RequestMatcher, Verb};

fn config(name: &str) -> ConfigMap {
    ConfigMap::named(name).in_namespace("default")
}

#[tokio::test(start_paused = true)]
async fn selected_requests_fail_the_given_number_of_times() {
    let env = Environment::start().await;
    let client = env.client();
    let conflict = Status::modified(&GroupResource::new("", "configmaps"), "a");
    let fault = env.on(RequestMatcher::writes().of::<ConfigMap>()).after(1).times(2).fail(conflict);
    client.create(&config("a")).await.unwrap();
    client.create(&Secret::named("other").in_namespace("default")).await.unwrap();
    assert!(client.create(&config("b")).await.unwrap_err().is_conflict());
    assert!(client.delete::<ConfigMap>("a").await.unwrap_err().is_conflict());
    client.delete::<ConfigMap>("a").await.unwrap();
    assert_eq!(fault.hits(), 2);

    let fault = env.on(RequestMatcher::any()).answer(|sent| {
        (sent.name.as_deref() == Some("b"))
            .then(|| Status::forbidden(&GroupResource::new("", "configmaps"), "b", "not yours"))
    });
    assert!(client.get::<ConfigMap>("b").await.unwrap_err().is_forbidden());
    assert!(client.get::<ConfigMap>("c").await.unwrap_err().is_not_found());
    drop(fault);
    assert!(client.get::<ConfigMap>("b").await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn lost_requests_do_nothing_and_lost_responses_succeed() {
    let env = Environment::start().await;
    let client = env.client();
    let creating = || RequestMatcher::any().verb(Verb::Create).of::<ConfigMap>();
    let lost = env.on(creating()).once().lose();
    assert!(client.create(&config("a")).await.unwrap_err().status().is_none());
    assert!(client.get_opt::<ConfigMap>("a").await.unwrap().is_none());
    drop(lost);
    let recorder = env.record(creating());
    let lost = env.on(creating()).once().lose_answers();
    assert!(client.create(&config("a")).await.unwrap_err().status().is_none());
    assert_eq!(client.get::<ConfigMap>("a").await.unwrap().name(), "a");
    assert!(client.create(&config("a")).await.unwrap_err().is_already_exists());
    assert_eq!(lost.hits(), 1);
    let ended: Vec<_> = recorder.take().iter().map(|recorded| recorded.status.map(|status| status.as_u16())).collect();
    assert_eq!(ended, [None, Some(409)]);
    assert_eq!(recorder.count(&RequestMatcher::any()), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_are_delayed_and_held() {
    let env = Environment::start().await;
    let client = env.client();
    let delay = env.on(RequestMatcher::reads()).delay(Duration::from_secs(20));
    let began = Instant::now();
    client.list::<ConfigMap>().await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(20));
    drop(delay);

    let held = env.on(RequestMatcher::writes()).hold();
    let writing = tokio::spawn({
        let client = client.clone();
        async move { client.create(&config("a")).await }
    });
    held.happened(1).await;
    assert!(client.get_opt::<ConfigMap>("a").await.unwrap().is_none());
    drop(held);
    writing.await.unwrap().unwrap();
    assert_eq!(client.get::<ConfigMap>("a").await.unwrap().name(), "a");
}

#[tokio::test(start_paused = true)]
async fn watches_of_waiting_tests_outlive_broken_connections() {
    let env = Environment::start().await;
    let fault = env.on(RequestMatcher::any().verb(Verb::Watch)).times(2).lose();
    let waiting = tokio::spawn(env.expect().object::<ConfigMap>("late", |_| true));
    fault.happened(2).await;
    env.server().unwrap().drop_watches().await.unwrap();
    env.client().create(&config("late")).await.unwrap();
    assert_eq!(waiting.await.unwrap().name(), "late");
}
