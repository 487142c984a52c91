//! The pod that represents the program in the cluster.

use serde_json::json;
use tokio::time::Duration;
use windlass_api::{
    ObjectRef, Patch,
    k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount},
};
use windlass_client::{Client, wait};

use crate::error::{Error, Result};

/// The time limit for the controllers to create the ServiceAccount.
const PATIENCE: Duration = Duration::from_secs(30);

/// The name of the pod that represents the program.
#[derive(Clone, Debug)]
pub(crate) struct PodName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Creates the pod and, if necessary, its namespace. The pod is running, but on no node.
pub(super) async fn create(client: &Client, pod: &PodName) -> Result<()> {
    let PodName { namespace, name } = pod;
    let failed = |error: windlass_client::Error| {
        Error::Cluster(format!(
            "creating the pod {namespace}/{name} of the program: {}",
            windlass_api::ErrorChain(&error)
        ))
    };
    let created = client.create::<Namespace>(&object(json!({"metadata": {"name": namespace}}))).await;
    if let Err(error) = created
        && !error.is_already_exists()
    {
        return Err(failed(error));
    }
    let account = client.wait_for::<ServiceAccount>("default").within(namespace).timeout(PATIENCE);
    account.until(wait::exists()).await.map_err(failed)?;
    let manifest = json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/name": name}},
        "spec": {
            "containers": [{"name": "manager", "image": "program"}],
            // No scheduler assigns it to a simulated node, which would run it as a simulated pod.
            "schedulerName": "windlass-explore",
        },
    });
    client.create::<Pod>(&object(manifest)).await.map_err(failed)?;
    let status = json!({"status": {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let reference = ObjectRef::<Pod>::new(name.as_str()).within(namespace.as_str());
    client.patch(reference, Patch::Merge(status)).subresource("status").await.map_err(failed)?;
    Ok(())
}

/// Converts a manifest.
fn object<K: serde::de::DeserializeOwned>(manifest: serde_json::Value) -> K {
    serde_json::from_value(manifest).expect("the manifest has the fields of its kind")
}
