//! Deletes pods at a constant rate, so that their controllers replace them.

use std::time::Duration;

use http::{Method, Request};
use tokio::{
    task::JoinSet,
    time::{Instant, interval},
};
use windlass_api::BoxError;
use windlass_client::Client;

use super::pods::page;

/// The number of pods per list request.
const PAGE: usize = 500;

/// Deletes `rate` pods of a namespace per second for a time, and returns their number. A deletion does not wait for
/// earlier ones.
pub(super) async fn delete(client: &Client, namespace: &str, rate: u32, lasting: Duration) -> Result<usize, BoxError> {
    let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
    let (started, mut requests, mut deleted) = (Instant::now(), JoinSet::new(), 0);
    let (mut alive, mut next) = (Vec::new(), String::new());
    loop {
        ticks.tick().await;
        if started.elapsed() >= lasting {
            break;
        }
        while let Some(request) = requests.try_join_next() {
            request??;
        }
        if alive.is_empty() {
            (alive, next) = page(client, namespace, "", PAGE, &next).await?;
        }
        if let Some(pod) = alive.pop() {
            requests.spawn(delete_one(client.clone(), format!("/api/v1/namespaces/{namespace}/pods/{}", pod.name)));
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use windlass_api::ObjectExt as _;
    use windlass_server::Server;

    use super::{super::DEPLOYMENT, *};

    #[tokio::test]
    async fn living_pods_are_deleted_one_by_one() {
        let server = Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        for name in ["a", "b", "c"] {
            let pod = json!({
                "metadata": {"name": name, "labels": {DEPLOYMENT: "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            client.create(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap();
        }
        // The time ends between the first deletion and the second.
        assert_eq!(delete(&client, "default", 1, Duration::from_millis(900)).await.unwrap(), 1);
        let left: Vec<_> = client.list::<Pod>().await.unwrap().iter().map(|pod| pod.name().to_owned()).collect();
        assert_eq!(left, ["a", "b"]);
    }
}
