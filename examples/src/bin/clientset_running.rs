//! Prints the number of running pods in all namespaces.

use windlass::{Client, Clientset};

#[tokio::main]
async fn main() -> windlass::client::Result<()> {
    let clientset = Clientset::new(Client::try_default().await?);
    let pods = clientset.core_v1().pods("").list().await?;
    let running =
        pods.iter().filter(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"));
    println!("{} of {} pods are running", running.count(), pods.len());
    Ok(())
}
