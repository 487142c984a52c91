//! The API services of the server.

use windlass_api::Status;

use crate::{api_services, registry::Registry};

/// Creates missing objects.
pub(super) async fn ensure_all(registry: &Registry) -> Result<(), Status> {
    for registration in api_services::built_in(registry) {
        super::ensure(registry, "apiregistration.k8s.io", "apiservices", None, registration).await?;
    }
    Ok(())
}
