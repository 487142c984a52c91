//! Contexts for unit tests: reconcilers called without a manager.

use std::sync::Arc;

use serde_json::json;
use windlass_api::{
    Clock, ObjectRef,
    k8s_openapi::{
        api::core::v1::{ConfigMap, Secret},
        jiff::Timestamp,
    },
};
use windlass_cache::{Cached, Index, InitialList, Notification};
use windlass_runtime::{Action, Context, Error, Result, Watch, events::Note};

use crate::{fake::config, objects::Objects};

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = Some("ns".to_owned());
    secret
}

/// Copies the config into another one when its secret exists.
async fn reconcile(object: Arc<ConfigMap>, cx: Context) -> Result<Action> {
    if cx.client().get_opt(ObjectRef::<Secret>::new("token").within("ns")).await?.is_none() {
        cx.recorder().record(&*object, Note::warning("NoToken", "waiting"));
        return Err(Error::terminal("no token"));
    }
    let mut copy = config("copy");
    copy.data = Some([("at".to_owned(), cx.clock().now().to_string())].into());
    cx.client().create(&copy).await?;
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn reconciler_runs_without_a_manager() {
    let server = Objects::default();
    let mut test = Context::for_test(server.client()).named("copier").holding::<Secret>([]).start().await.unwrap();
    let error = reconcile(Arc::new(config("a")), test.context()).await.unwrap_err();
    assert!(matches!(error, Error::Hinted(_)), "{error}");
    let event = test.events().take().remove(0);
    assert_eq!(event.source.unwrap().component.as_deref(), Some("copier"));

    let clock = Clock::from_fn(|| Timestamp::from_second(0).unwrap());
    let with_token = Context::for_test(server.client()).holding([secret("token"), secret("other")]).clock(clock);
    let mut test = with_token.start().await.unwrap();
    assert_eq!(reconcile(Arc::new(config("a")), test.context()).await.unwrap(), Action::await_change());
    assert!(test.events().lines().is_empty());
    let copy = server.at("/api/v1/namespaces/ns/configmaps/copy").unwrap();
    assert_eq!(copy["data"], json!({"at": "1970-01-01T00:00:00Z"}));
    assert_ne!(test.context().reconcile_id(), test.context().reconcile_id());
}

#[tokio::test(start_paused = true)]
async fn declared_caches_have_their_indices() {
    let mut users = [config("a"), config("b")];
    users[0].data = Some([("secret".to_owned(), "blue".to_owned())].into());
    let by_secret = Watch::<ConfigMap>::all().index(Index::on_path("secret", ["data", "secret"]));
    let test = Context::for_test(Objects::default().client()).holding_with(by_secret, users).holding([secret("blue")]);
    let test = test.start().await.unwrap();

    #[allow(clippy::unused_async, reason = "mappers are asynchronous")]
    async fn users_of(change: Notification<Secret>, cx: Context) -> Result<Vec<ObjectRef<ConfigMap>>> {
        let users = cx.store::<ConfigMap>().by_index("secret", &change.key().name)?;
        Ok(users.iter().map(Cached::object_ref).collect())
    }

    let cx = test.context();
    let blue = cx.store::<Secret>().list().remove(0);
    let change = Notification::Added { object: blue, initial: InitialList::No };
    assert_eq!(users_of(change, cx).await.unwrap(), [ObjectRef::new("a").within("ns")]);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "controller test has no cache of")]
async fn undeclared_store_panics_as_in_a_manager() {
    let test = Context::for_test(Objects::default().client()).start().await.unwrap();
    let _ = test.context().store::<ConfigMap>();
}

#[tokio::test(start_paused = true)]
async fn cache_without_a_server_does_not_sync() {
    let test = Context::for_test(Objects::default().client()).reads::<ConfigMap>().start().await;
    assert!(matches!(test, Err(Error::SyncTimeout { .. })), "{test:?}");
}
