//! Installation of CustomResourceDefinitions.

use serde_json::Value;
use tokio::time::Duration;
use windlass_api::{ApiResource, DynamicObject, GroupVersionKind, ObjectExt as _};
use windlass_client::{Client, wait};

use crate::error::{Error, Result};

/// The time limit for a CustomResourceDefinition to be established.
const PATIENCE: Duration = Duration::from_secs(30);

/// Installs a CustomResourceDefinition, and waits until its resource is served.
pub(crate) async fn establish(client: &Client, definition: &Value) -> Result<()> {
    let name = crate::history::text(definition, "/metadata/name").to_owned();
    let failed = |reason: &str| Error::Cluster(format!("installing CustomResourceDefinition {name}: {reason}"));
    let object: DynamicObject =
        serde_json::from_value(definition.clone()).map_err(|error| failed(&error.to_string()))?;
    let kind = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions = client.dynamic(&ApiResource::namespaced(kind, "customresourcedefinitions").cluster_scoped());
    definitions.create(&object).await.map_err(|error| failed(&error.to_string()))?;
    let established = wait::condition::<DynamicObject>("Established", "True");
    let refused = wait::condition::<DynamicObject>("NamesAccepted", "False");
    let found = definitions.wait_for(object.name()).timeout(PATIENCE);
    let found = found.until(|found| established(found) || refused(found)).await;
    let found = found.map_err(|error| failed(&error.to_string()))?;
    if established(found.as_ref()) { Ok(()) } else { Err(failed("its names are not accepted")) }
}
