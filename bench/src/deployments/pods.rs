//! Lists of pods without their contents.

use std::collections::BTreeMap;

use http::Request;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use windlass_api::BoxError;
use windlass_client::Client;

use super::DEPLOYMENT;

/// The representation of the pods in lists: only metadata are needed.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The number of pods per list request if all are read.
const PAGE: usize = 5_000;

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
    metadata: Metadata,
}

/// The decoded fields of a pod.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Returns the number of running pods of each Deployment. Pods that are being deleted do not count.
pub(super) async fn running(client: &Client, namespace: &str) -> Result<BTreeMap<String, usize>, BoxError> {
    let (mut running, mut token) = (BTreeMap::new(), String::new());
    loop {
        let (pods, next) = page(client, namespace, "&fieldSelector=status.phase%3DRunning", PAGE, &token).await?;
        for mut pod in pods {
            *running.entry(pod.labels.remove(DEPLOYMENT).unwrap_or_default()).or_default() += 1;
        }
        token = next;
        if token.is_empty() {
            return Ok(running);
        }
    }
}

/// Returns a page of the pods of Deployments that are not being deleted, and the token for the next page. If the token
/// has expired, the page is empty, and the next token continues with the current state.
pub(super) async fn page(
    client: &Client,
    namespace: &str,
    selector: &str,
    limit: usize,
    token: &str,
) -> Result<(Vec<Metadata>, String), BoxError> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?limit={limit}{selector}&continue={token}");
    let request = Request::get(&path).header("Accept", METADATA);
    let response = client.request(request.body(bytes::Bytes::new())?).await?;
    let status = response.status();
    if !status.is_success() && status != http::StatusCode::GONE {
        return Err(format!("GET {path}: {status}").into());
    }
    // An empty list of metadata has null instead of items.
    let page: Page = windlass_api::from_json(&response.into_body().collect().await?.to_bytes())?;
    let pods = page.items.into_iter().map(|item| item.metadata);
    let alive = pods.filter(|pod| pod.deletion_timestamp.is_none() && pod.labels.contains_key(DEPLOYMENT));
    Ok((alive.collect(), page.metadata.next))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use windlass_server::Server;

    use super::*;

    #[tokio::test]
    async fn running_pods_are_counted_by_deployment() {
        let server = Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        for (name, deployment, phase) in
            [("a", "one", "Running"), ("b", "one", "Pending"), ("c", "one", "Running"), ("d", "other", "Running")]
        {
            let pod = json!({
                "metadata": {"name": name, "labels": {DEPLOYMENT: deployment}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            let mut pod = client.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
            pod.status = serde_json::from_value(json!({"phase": phase})).unwrap();
            client.update_status(&pod).await.unwrap();
        }
        let counts = running(&client, "default").await.unwrap();
        assert_eq!(counts, BTreeMap::from([("one".to_owned(), 2), ("other".to_owned(), 1)]));

        let (names, next) = page(&client, "default", "", 3, "").await.unwrap();
        assert_eq!(names.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["a", "b", "c"]);
        let (names, next) = page(&client, "default", "", 3, &next).await.unwrap();
        assert_eq!((names.len(), &*next), (1, ""));
    }
}
