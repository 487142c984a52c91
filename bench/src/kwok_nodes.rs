//! Node objects for kwok, which then reports their status.

use std::path::PathBuf;

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};
use windlass_api::BoxError;
use windlass_client::{Client, Config};

use crate::request::send;

/// The flags of `windlass-bench kwok-nodes`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the control plane
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The number of nodes
    #[arg(long, default_value_t = 50)]
    nodes: usize,
}

/// The number of concurrent requests.
const WRITERS: usize = 16;

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let client = Client::new(Config::from_file(&options.kubeconfig)?)?.without_rate_limit();
    create(&client, options.nodes).await
}

async fn create(client: &Client, nodes: usize) -> Result<(), BoxError> {
    let creates =
        stream::iter(0..nodes).map(async |at| send(client, Method::POST, "/api/v1/nodes", &node(at)).await.map(drop));
    creates.buffer_unordered(WRITERS).try_for_each(async |()| Ok(())).await
}

/// Returns a node with the annotation that kwok selects by default, and the labels and the capacity of the nodes of
/// `windlass up`.
fn node(at: usize) -> Value {
    let name = format!("node-{at}");
    let capacity = json!({"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
            },
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use windlass_controllers::{BuiltIn, Controllers};
    use windlass_runtime::Manager;
    use windlass_server::Server;

    use super::*;

    #[tokio::test]
    async fn nodes_have_the_capacity_of_simulated_nodes() {
        let server = Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        create(&client, 3).await.unwrap();
        let ours: Vec<Node> = client.list::<Node>().await.unwrap().into_iter().collect();
        assert_eq!(ours.len(), 3);

        let simulated = Server::builder().build();
        simulated.start().await.unwrap();
        let client = Client::from_service(simulated.service(), "default");
        let mut manager = Manager::new(client.clone());
        Controllers::of([BuiltIn::Nodes]).nodes(1).add_to(&mut manager);
        let created = async {
            loop {
                if let Some(node) = client.list::<Node>().await.unwrap().into_iter().next() {
                    break node;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let theirs = tokio::select! {
            node = created => node,
            ended = manager.run(std::future::pending()) => panic!("{ended:?}"),
        };
        let of = |node: &Node| node.status.clone().unwrap();
        assert_eq!(of(&ours[0]).capacity, of(&theirs).capacity);
        assert_eq!(of(&ours[0]).allocatable, of(&theirs).allocatable);
    }
}
