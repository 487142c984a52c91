//! Servers that restart with all, less or no data.

use std::sync::Arc;

use conformance::{
    eventually,
    restartable::{RestartData, on_each_restartable},
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use windlass_api::Patch;
use windlass_cache::InformerOptions;
use windlass_client::Client;

use super::{HandlerState, Run, map, touch, until_equal};
use crate::wire::Wire;

/// Exists from the start, or soon after it.
const NAMESPACE: &str = "default";

async fn create(client: &Client, name: &str) {
    let map = map(NAMESPACE, name);
    eventually("the map is created", || async { client.create(&map).await.ok() }).await;
}

/// Raises the server's version without events for the informer.
async fn write_aside(client: &Client) {
    let mut aside = map(NAMESPACE, "aside");
    aside.metadata.labels = None;
    client.create(&aside).await.unwrap();
    for round in 0..10 {
        let patch = Patch::Merge(json!({"data": {"round": round.to_string()}}));
        client.patch::<ConfigMap>("aside", patch).within(NAMESPACE).await.unwrap();
    }
}

/// The errors that an informer reports.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

impl Errors {
    fn of(options: InformerOptions) -> (Self, InformerOptions) {
        let errors = Self::default();
        let log = Arc::clone(&errors.0);
        (errors, options.on_error(move |error| log.lock().push(format!("{error:?}"))))
    }

    async fn until_any(&self, what: &str, like: &str) {
        eventually(what, || async { self.0.lock().iter().any(|error| error.contains(like)).then_some(()) }).await;
    }
}

#[tokio::test]
async fn informer_resumes_after_restart_with_same_storage() {
    on_each_restartable(|mut server| async {
        let client = server.client.clone();
        create(&client, "a").await;
        let run = Run::start(&client, NAMESPACE, InformerOptions::default());
        let handler_state = HandlerState::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        server.stop().await;
        assert_eq!(run.informer.store().len(), 1, "it can be read all the same");
        server.start(RestartData::Kept).await;
        touch(&client, NAMESPACE, "a").await;
        create(&client, "b").await;
        until_equal(&client, NAMESPACE, &run.informer, &handler_state).await;
        run.stop().await;
        server
    })
    .await;
}

#[tokio::test]
async fn expired_watch_after_restart_is_relisted() {
    on_each_restartable(|mut server| async {
        let client = server.client.clone();
        for name in ["a", "b"] {
            create(&client, name).await;
        }
        let (errors, options) = Errors::of(InformerOptions::default());
        let wire = Wire::to(&server.config).await;
        let run = Run::start(&wire.client(&server.config), NAMESPACE, options);
        let handler_state = HandlerState::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        wire.go_down().await;
        touch(&client, NAMESPACE, "a").await;
        client.delete::<ConfigMap>("b").within(NAMESPACE).await.unwrap();
        create(&client, "c").await;
        write_aside(&client).await;
        server.stop().await;
        server.start(RestartData::Compacted).await;
        assert!(!errors.0.lock().iter().any(|error| error.contains("Expired")));
        wire.come_up().await;
        errors.until_any("the watch's version has expired", "Expired").await;
        until_equal(&client, NAMESPACE, &run.informer, &handler_state).await;
        run.stop().await;
        server
    })
    .await;
}

#[tokio::test]
async fn a_server_that_lost_its_storage_is_read_from_scratch() {
    on_each_restartable(|mut server| async {
        let client = server.client.clone();
        for index in 0..50 {
            create(&client, &format!("m{index}")).await;
        }
        let (errors, options) = Errors::of(InformerOptions::default());
        let run = Run::start(&client, NAMESPACE, options);
        let handler_state = HandlerState::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        server.stop().await;
        errors.until_any("the informer has noticed that the server is away", "").await;
        server.start(RestartData::Empty).await;
        create(&client, "only").await;
        until_equal(&client, NAMESPACE, &run.informer, &handler_state).await;
        assert_eq!(run.informer.store().len(), 1);
        run.stop().await;
        server
    })
    .await;
}

#[tokio::test]
async fn informer_detects_server_replaced_during_reconnect() {
    on_each_restartable(|mut server| async {
        let client = server.client.clone();
        for index in 0..50 {
            create(&client, &format!("m{index}")).await;
        }
        let wire = Wire::to(&server.config).await;
        let run = Run::start(&wire.client(&server.config), NAMESPACE, InformerOptions::default());
        let handler_state = HandlerState::of(&run.informer);
        run.informer.has_synced().await.unwrap();
        // Longer than the lifetime of a watch that fails at once.
        create(&client, "last").await;
        until_equal(&client, NAMESPACE, &run.informer, &handler_state).await;
        wire.hold().await;
        server.stop().await;
        server.start(RestartData::Empty).await;
        wire.come_up().await;
        eventually("what was there is gone", || async { run.informer.store().is_empty().then_some(()) }).await;
        create(&client, "only").await;
        until_equal(&client, NAMESPACE, &run.informer, &handler_state).await;
        run.stop().await;
        server
    })
    .await;
}
