//! Deletes pods at a constant rate, so that their controllers replace them.

use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::{
    task::JoinSet,
    time::{Instant, interval},
};
use windlass_api::BoxError;
use windlass_client::Client;

/// The representation of the pods in lists: only names are needed.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The number of pods per list request.
const PAGE: usize = 500;

#[derive(Default, Deserialize)]
struct Page {
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMetadata {
    name: String,
    deletion_timestamp: Option<String>,
}

/// Deletes `rate` pods of a namespace per second for a time, and returns their number. A deletion does not wait for
/// earlier ones.
pub(super) async fn delete(client: &Client, namespace: &str, rate: u32, lasting: Duration) -> Result<usize, BoxError> {
    let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
    let (started, mut requests, mut deleted) = (Instant::now(), JoinSet::new(), 0);
    let (mut names, mut next) = (Vec::new(), String::new());
    loop {
        ticks.tick().await;
        if started.elapsed() >= lasting {
            break;
        }
        while let Some(request) = requests.try_join_next() {
            request??;
        }
        if names.is_empty() {
            (names, next) = page(client, namespace, &next).await?;
        }
        if let Some(name) = names.pop() {
            requests.spawn(delete_one(client.clone(), format!("/api/v1/namespaces/{namespace}/pods/{name}")));
            deleted += 1;
        }
    }
    while let Some(request) = requests.join_next().await {
        request??;
    }
    Ok(deleted)
}

async fn delete_one(client: Client, path: String) -> Result<(), BoxError> {
    let response = client.request(Request::delete(&path).body(bytes::Bytes::new())?).await?;
    // A pod that a controller has deleted in the meantime needs no deletion.
    if response.status().is_success() || response.status() == http::StatusCode::NOT_FOUND {
        return Ok(());
    }
    Err(format!("{} {path}: {}", Method::DELETE, response.status()).into())
}

/// Returns the number of running pods of a namespace that are not being deleted.
pub(super) async fn running(client: &Client, namespace: &str) -> Result<usize, BoxError> {
    let (mut running, mut token) = (0, String::new());
    loop {
        let path = format!("/api/v1/namespaces/{namespace}/pods?limit=5000&fieldSelector=status.phase%3DRunning");
        let (names, next) = read_page(client, &path, &token).await?;
        running += names.len();
        token = next;
        if token.is_empty() {
            return Ok(running);
        }
    }
}

/// Returns the names of pods that are not being deleted, and the token for the next page.
async fn page(client: &Client, namespace: &str, token: &str) -> Result<(Vec<String>, String), BoxError> {
    read_page(client, &format!("/api/v1/namespaces/{namespace}/pods?limit={PAGE}"), token).await
}

/// Reads a page of a list. If the token has expired, there are no names, and the next token continues with the current
/// state.
async fn read_page(client: &Client, path: &str, token: &str) -> Result<(Vec<String>, String), BoxError> {
    let request = Request::get(format!("{path}&continue={token}")).header("Accept", METADATA);
    let response = client.request(request.body(bytes::Bytes::new())?).await?;
    let status = response.status();
    if !status.is_success() && status != http::StatusCode::GONE {
        return Err(format!("GET {path}: {status}").into());
    }
    // An empty list of metadata has null instead of items.
    let page: Page = windlass_api::from_json(&response.into_body().collect().await?.to_bytes())?;
    let alive = page.items.into_iter().filter(|item| item.metadata.deletion_timestamp.is_none());
    Ok((alive.map(|item| item.metadata.name).collect(), page.metadata.next))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use windlass_api::ObjectExt as _;
    use windlass_server::Server;

    use super::*;

    #[tokio::test]
    async fn living_pods_are_deleted_one_by_one() {
        let server = Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        for name in ["a", "b", "c"] {
            let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            client.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
        }
        assert_eq!(running(&client, "default").await.unwrap(), 0, "none has been started");
        let (names, next) = page(&client, "default", "").await.unwrap();
        assert_eq!((names.len(), &*next), (3, ""));
        // The time ends between the first deletion and the second.
        assert_eq!(delete(&client, "default", 1, Duration::from_millis(900)).await.unwrap(), 1);
        let left: Vec<_> = client.list::<Pod>().await.unwrap().iter().map(|pod| pod.name().to_owned()).collect();
        assert_eq!(left, ["a", "b"]);
    }
}
