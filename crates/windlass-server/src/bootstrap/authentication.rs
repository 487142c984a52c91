//! The ConfigMaps in which an API server publishes how it authenticates clients.

use serde_json::{Value, json};
use windlass_api::{Clock, Status};

use crate::{
    object::{Tree, object_mut},
    registry::{Registry, WriteParams},
    resource::{Body, Target},
};

const NAMESPACE: &str = "kube-system";
/// For extension API servers, which trust the same client CA.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
/// Records the date since which the use of Secret-based tokens is tracked.
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Creates the ConfigMap for token tracking, which every API server has.
pub(super) async fn ensure_tracking(registry: &Registry, clock: &Clock) -> Result<(), Status> {
    let since = clock.now().strftime("%Y-%m-%d").to_string();
    let map = json!({"metadata": {"name": TOKEN_TRACKING, "namespace": NAMESPACE}, "data": {"since": since}});
    super::ensure(registry, "", "configmaps", Some(NAMESPACE), map).await
}

/// Publishes a client CA, in addition to those published by other servers over the same storage.
pub(crate) async fn publish_client_ca(registry: &Registry, pem: &str) -> Result<(), Status> {
    let map = json!({"metadata": {"name": AUTHENTICATION, "namespace": NAMESPACE}, "data": {CLIENT_CA: pem}});
    super::ensure(registry, "", "configmaps", Some(NAMESPACE), map).await?;
    let resources = registry.resources();
    let Some(configmaps) = resources.get("", "v1", "configmaps") else { return Ok(()) };
    let target = Target::object(configmaps, Some(NAMESPACE), AUTHENTICATION);
    let Some(found) = registry.peek(&target).await? else { return Ok(()) };
    let Some(map) = with_authority(found.value(), pem) else { return Ok(()) };
    let params = WriteParams { field_manager: "kube-apiserver".to_owned(), ..WriteParams::default() };
    match registry.update(&target, Body::Value(map), params).await {
        // Another server has published its own CA concurrently. This server tries again at its next start.
        Err(status) if !status.is_conflict() => Err(status),
        _ => Ok(()),
    }
}

/// Returns the ConfigMap with the CA added; `None` if it already contains the CA.
fn with_authority(mut map: Value, pem: &str) -> Option<Value> {
    let published = map.text(&["data", CLIENT_CA]);
    if published.contains(pem.trim()) {
        return None;
    }
    let separator = if published.is_empty() || published.ends_with('\n') { "" } else { "\n" };
    let all = format!("{published}{separator}{pem}");
    object_mut(&mut map, "data").insert(CLIENT_CA.to_owned(), all.into());
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_ca_is_published_without_duplicates() {
        let map = with_authority(json!({"data": {CLIENT_CA: "A"}}), "B\n").unwrap();
        assert_eq!(map, json!({"data": {CLIENT_CA: "A\nB\n"}}));
        assert_eq!(with_authority(map.clone(), "A\n"), None);
        assert_eq!(with_authority(map, "B\n"), None);
        assert_eq!(with_authority(json!({}), "B\n"), Some(json!({"data": {CLIENT_CA: "B\n"}})));
    }
}
