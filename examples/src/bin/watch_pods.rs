//! Prints the existing pods of the default namespace, then each change. The optional argument is the number of events
//! after which it ends.

use futures::TryStreamExt;
use windlass::{Client, ObjectExt, client::WatchEvent, k8s::core::v1::Pod};

#[tokio::main]
async fn main() -> windlass::client::Result<()> {
    let limit = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(usize::MAX);
    let client = Client::try_default().await?;
    let pods = client.list::<Pod>().within("default").await?;
    for pod in &pods {
        println!("PRESENT {}", pod.name());
    }
    let watch =
        client.watch::<Pod>().within("default").resource_version(pods.metadata.resource_version.as_str()).await?;
    let mut events = std::pin::pin!(watch);
    let mut seen = 0;
    while seen < limit
        && let Some(event) = events.try_next().await?
    {
        let (what, pod) = match event {
            WatchEvent::Added(pod) => ("ADDED", pod),
            WatchEvent::Modified(pod) => ("MODIFIED", pod),
            WatchEvent::Deleted(pod) => ("DELETED", pod),
            _ => continue,
        };
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        println!("{what} {} {phase}", pod.name());
        seen += 1;
    }
    Ok(())
}
