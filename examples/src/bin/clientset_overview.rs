//! Prints an overview of pods and nodes.

use windlass::{Client, Clientset, ObjectExt};

#[tokio::main]
async fn main() -> windlass::client::Result<()> {
    let clientset = Clientset::new(Client::try_default().await?);
    println!("pods:");
    for pod in clientset.core_v1().pods("").list().await? {
        let reference = pod.object_ref().to_string();
        let status = pod.status.unwrap_or_default();
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        println!(
            "  {reference}: {} on {node:?}, at {:?}",
            status.phase.unwrap_or_default(),
            status.pod_ip.unwrap_or_default()
        );
    }
    println!("nodes:");
    for node in clientset.core_v1().nodes().list().await? {
        let name = node.name().to_owned();
        let status = node.status.unwrap_or_default();
        let kubelet = status.node_info.map(|info| info.kubelet_version).unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        println!("  {name}: ready {}, kubelet {kubelet:?}", ready.map_or("?", |condition| condition.status.as_str()));
    }
    Ok(())
}
