//! Access to the lease on the server.

use std::{collections::BTreeMap, time::Duration};

use windlass_api::{
    ObjectRef,
    k8s_openapi::{
        api::coordination::v1::{Lease, LeaseSpec},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use windlass_client::{Client, Error};

/// Reads and writes one lease.
#[derive(Debug)]
pub(super) struct LeaseLock {
    client: Client,
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
    /// The lease as last returned by the server. Its version is the precondition of the next write.
    lease: Option<Lease>,
}

impl LeaseLock {
    pub(super) fn new(
        client: &Client,
        timeout: Duration,
        namespace: String,
        name: String,
        labels: BTreeMap<String, String>,
    ) -> Self {
        // Renewals bypass the rate limiter, so that they do not wait behind other requests.
        let client = client.clone().with_timeout(timeout).without_rate_limit();
        Self { client, namespace, name, labels, lease: None }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Formats the lease as `namespace/name`.
    pub(super) fn describe(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the last observed lease, for events about it.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    pub(super) async fn get(&mut self) -> Result<Option<LeaseSpec>, Error> {
        let target = ObjectRef::<Lease>::new(self.name.as_str()).within(self.namespace.as_str());
        self.lease = self.client.get_opt::<Lease>(target).await?;
        Ok(self.lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default()))
    }

    /// Writes the lease if it is unchanged since the last observation, and returns the stored content.
    pub(super) async fn put(&mut self, spec: LeaseSpec) -> Result<LeaseSpec, Error> {
        let mut lease = self.lease.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            ..Lease::default()
        });
        lease.spec = Some(spec);
        if !self.labels.is_empty() {
            lease.metadata.labels.get_or_insert_default().extend(self.labels.clone());
        }
        let stored =
            if self.lease.is_some() { self.client.update(&lease).await? } else { self.client.create(&lease).await? };
        Ok(self.lease.insert(stored).spec.clone().unwrap_or_default())
    }
}
