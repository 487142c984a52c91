//! Installs the manifests of websites in a cluster. In a production cluster, `kubectl apply -f config --recursive` does
//! this once.

use windlass::{
    Client, Error,
    api::GroupKind,
    client::{CachedDiscovery, DeferredRestMapper, read_manifests},
};

const MANIFESTS: &str = concat!(
    include_str!("../config/crd/bases/shop.example.com_websites.yaml"),
    include_str!("../config/webhook/manifests.yaml")
);

/// Applies the manifests. The webhook URLs refer to this machine.
pub async fn install(client: &Client, port: u16) -> windlass::Result<()> {
    let manifests = MANIFESTS.replace("https://127.0.0.1:9443/", &format!("https://127.0.0.1:{port}/"));
    let mapper = DeferredRestMapper::new(CachedDiscovery::in_memory(client.clone()));
    for object in read_manifests(&manifests).map_err(Error::other)? {
        let Some(types) = &object.types else { continue };
        let kind = types.gvk();
        let found =
            mapper.mapping(&GroupKind::new(kind.group, kind.kind), &[&kind.version]).await.map_err(Error::other)?;
        client.dynamic(&found.resource).apply(&object).field_manager("website-install").await?;
    }
    Ok(())
}
