//! Reads one pod with its type.

use windlass::{Client, Clientset};

#[tokio::main]
async fn main() -> windlass::client::Result<()> {
    let clientset = Clientset::new(Client::try_default().await?);
    let pod = clientset.core_v1().pods("default").get("test").await?;
    let spec = pod.spec.unwrap_or_default();
    let status = pod.status.unwrap_or_default();
    println!("name:   {}", pod.metadata.name.unwrap_or_default());
    println!("phase:  {}", status.phase.unwrap_or_default());
    println!("node:   {}", spec.node_name.unwrap_or_default());
    for container in spec.containers {
        println!("image:  {} ({})", container.image.unwrap_or_default(), container.name);
    }
    Ok(())
}
