//! The finalizer helper in a Windlass controller.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kube::Api;
use windlass_api::{ObjectBuilder as _, ObjectExt as _, k8s_openapi::api::core::v1::ConfigMap};
use windlass_envtest::Environment;
use windlass_kube::finalizer::{Error, Event, finalizer};
use windlass_runtime::{Action, Context, Controller};

const NAME: &str = "example.com/paint";

#[tokio::test(start_paused = true)]
async fn clean_up_runs_before_the_object_is_deleted() {
    let env = Environment::start().await;
    let maps = Api::<ConfigMap>::default_namespaced(windlass_kube::client(&env.client()));
    let (applied, cleaned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (applied.clone(), cleaned.clone());
    let reconcile = move |map: Arc<ConfigMap>, _: Context| {
        let (maps, (applied, cleaned)) = (maps.clone(), counters.clone());
        async move {
            let outcome = finalizer(&maps, NAME, map, async |event| match event {
                Event::Apply(map) => {
                    assert!(map.finalizers().contains(&NAME.to_owned()));
                    applied.fetch_add(1, Ordering::SeqCst);
                    Ok(Action::await_change())
                }
                // The first clean-up fails, and is repeated.
                Event::Cleanup(_) if cleaned.fetch_add(1, Ordering::SeqCst) == 0 => Err(std::fmt::Error),
                Event::Cleanup(_) => Ok(Action::await_change()),
            });
            outcome.await.inspect_err(|error| assert!(matches!(error, Error::CleanupFailed(_)), "{error}"))
        }
    };
    let mut manager = env.manager();
    manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
    env.run(manager);

    env.client().create(&ConfigMap::named("colours")).await.unwrap();
    env.eventually::<ConfigMap>("colours", |map| map.finalizers() == [NAME]).await;
    env.client().delete::<ConfigMap>("colours").await.unwrap();
    env.eventually_gone::<ConfigMap>("colours").await;
    assert_eq!(cleaned.load(Ordering::SeqCst), 2);
    env.stop().await.unwrap();
}
