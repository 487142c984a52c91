//! Sends a request in single steps: path, send, decode.

use windlass::{Client, ObjectExt, api::GroupVersion, k8s::core::v1::Pod};

#[tokio::main]
async fn main() -> windlass::client::Result<()> {
    let client = Client::try_default().await?;
    let core = client.rest(GroupVersion::new("", "v1"));
    let answer = core.get().namespace("default").resource("pods").name("test").send().await?;
    let pod: Pod = answer.into()?;
    println!("{} was created at {}", pod.object_ref(), created(&pod));
    Ok(())
}

fn created(pod: &Pod) -> String {
    pod.metadata.creation_timestamp.as_ref().map_or_else(|| "?".to_owned(), |time| time.0.to_string())
}
