//! Prints the objects of a resource that is only known at run time. Its name is the first argument and defaults to
//! `pods`.

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
