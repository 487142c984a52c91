//! Prints the versions and resources of the server.

use windlass::Client;

#[tokio::main]
async fn main() -> windlass::client::Result<()> {
    let client = Client::try_default().await?;
    println!("server {}", client.server_version().await?.git_version);
    let discovery = client.discovery().await?;
    println!("versions:");
    for version in discovery.group_versions() {
        println!("  {version}");
    }
    println!("resources:");
    for found in discovery.preferred_resources() {
        println!("  {} ({}): {}", found.resource.group_resource(), found.resource.kind, found.verbs.join(","));
    }
    Ok(())
}
