//! Objects of a resource that is known at run time only: its name is the first argument, `pods` unless given.

use windlass::{
    Client, ObjectExt,
    client::{CachedDiscovery, DeferredRestMapper},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_else(|| "pods".to_owned());
    let client = Client::try_default().await?;
    let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone()));
    let found = mapper.resolve(&wanted).await?;
    println!("{}:", found.resource.gvr());
    for object in client.dynamic(&found.resource).list().await? {
        println!("  {}, with {} fields beside its metadata", object.object_ref(), object.data.len());
    }
    Ok(())
}
