//! The client with compacted history: pages, watches, waiting.

use std::{pin::pin, time::Duration};

use conformance::{Capability, History, Target, on_each_target_with, unique};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use tower::ServiceExt;
use windlass_api::{ObjectBuilder, ObjectExt};
use windlass_client::{Body, Client, wait};

const NEEDED: &[Capability] = &[Capability::CompactsOnRequest];

/// Creates three objects with a unique label in a namespace.
async fn three(client: &Client) -> String {
    let label = unique("expiry");
    for number in 0..3 {
        client.create(&labeled(&label, &format!("{label}-{number}"))).await.unwrap();
    }
    label
}

fn labeled(label: &str, name: &str) -> ConfigMap {
    ConfigMap::named(name).in_namespace("default").label("expiry", label)
}

/// Writes an object, then compacts the history before it.
async fn time_passes(client: &Client, history: &History) {
    client.create(&ConfigMap::named(unique("event")).in_namespace("default")).await.unwrap();
    history.compact().await;
}

/// Returns a client that requests each second page too late.
fn slow(target: &Target) -> Client {
    let (transport, client, history) = (target.config.connect().unwrap(), target.client.clone(), target.history());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (transport, client, history) = (transport.clone(), client.clone(), history.clone());
        async move {
            if request.uri().query().is_some_and(|query| query.contains("continue=")) {
                time_passes(&client, &history).await;
            }
            transport.oneshot(request).await
        }
    });
    Client::from_service(service, "default")
}

#[tokio::test]
async fn pages_that_expire_become_the_whole_list_and_items_an_error() {
    on_each_target_with(NEEDED, |target| async {
        let label = three(&target.client).await;
        let list = || slow(&target).list::<ConfigMap>().labels(format!("expiry={label}")).limit(2);
        let all = list().paged().await.unwrap();
        assert_eq!((all.len(), all.metadata.continue_token), (3, None));

        let mut items = pin!(list().items());
        for number in 0..2 {
            assert_eq!(items.try_next().await.unwrap().unwrap().name(), format!("{label}-{number}"));
        }
        // Delivered items cannot be withdrawn, so the caller must decide.
        assert!(items.try_next().await.unwrap_err().is_expired());
        target
    })
    .await;
}

#[tokio::test]
async fn watch_from_compacted_version_ends_and_wait_relists() {
    on_each_target_with(NEEDED, |target| async {
        let client = &target.client;
        let label = three(client).await;
        let name = format!("{label}-0");
        let old = client.get::<ConfigMap>(name.as_str()).within("default").await.unwrap();
        time_passes(client, &target.history()).await;
        let watch = || client.watch::<ConfigMap>().resource_version(old.resource_version().unwrap());
        let mut once = watch().await.unwrap();
        assert!(once.next().await.unwrap().unwrap_err().is_expired());
        let mut again = watch().retrying();
        assert!(again.next().await.unwrap().unwrap_err().is_expired());
        assert!(again.next().await.is_none());

        let wait = client.wait_for::<ConfigMap>(name.as_str()).within("default").timeout(Duration::from_secs(30));
        let gone = async {
            time_passes(client, &target.history()).await;
            client.delete::<ConfigMap>(name.as_str()).within("default").await.unwrap();
        };
        let (waited, ()) = futures::future::join(wait.until(wait::is_gone()), gone).await;
        assert_eq!(waited.unwrap(), None);
        target
    })
    .await;
}
