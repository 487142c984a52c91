//! The Lease that identifies this server among the API servers over one storage, as in kube-apiserver.
//!
//! kube-apiserver derives the name of its lease from the name of its host. Here it also contains the address, so that
//! servers on one host have different leases.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_api::{Status, format_micro_time, parse_time};

use super::{endpoints::Endpoint, own_params};
use crate::{
    object::{Tree, object_mut},
    registry::{AdmissionState, DeleteParams, ListParams, Registry},
    resource::{Body, Target},
};

const GROUP: &str = "coordination.k8s.io";
const NAMESPACE: &str = "kube-system";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const IDENTITY: &str = "kube-apiserver";

/// The time after its last renewal at which a lease has expired, in seconds.
const DURATION_SECONDS: i64 = 3600;

/// The identity of a server.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// The name of the lease.
    name: String,
    host: String,
    /// Differs in each run of the server.
    holder: String,
}

impl Identity {
    /// Returns the identity of this run. `uuid` is unique.
    pub(super) fn new(host: &str, endpoint: Endpoint, uuid: &str) -> Self {
        let Endpoint { address, port } = endpoint;
        let hash = Sha256::digest(format!("{host}\n{address}\n{port}\n{IDENTITY}"));
        let name = format!("apiserver-{}", base32(&hash[..16]));
        Self { host: host.to_owned(), holder: format!("{name}_{uuid}"), name }
    }

    /// Creates or renews the lease.
    pub(super) async fn renew(&self, registry: &Registry) -> Result<(), Status> {
        let resources = registry.resources();
        let Some(leases) = resources.get(GROUP, "v1", "leases") else { return Ok(()) };
        let target = Target::object(leases, Some(NAMESPACE), &self.name);
        let mut lease = match registry.peek(&target).await? {
            Some(lease) => lease.value(),
            None => json!({"metadata": {"name": self.name, "namespace": NAMESPACE}}),
        };
        let is_new = lease.at(&["metadata", "resourceVersion"]).is_none();
        let labels = object_mut(&mut lease["metadata"], "labels");
        labels.insert(LABEL.to_owned(), IDENTITY.into());
        labels.insert("kubernetes.io/hostname".to_owned(), self.host.clone().into());
        let spec = object_mut(&mut lease, "spec");
        spec.insert("holderIdentity".to_owned(), self.holder.clone().into());
        spec.insert("leaseDurationSeconds".to_owned(), DURATION_SECONDS.into());
        spec.insert("renewTime".to_owned(), format_micro_time(registry.clock().now()).into());
        if is_new {
            let collection = Target::collection(leases, Some(NAMESPACE));
            registry.create(&collection, Body::Value(lease), own_params()).await.map(drop)
        } else {
            registry.update(&target, Body::Value(lease), own_params()).await.map(drop)
        }
    }

    /// Deletes the lease.
    pub(super) async fn remove(&self, registry: &Registry) -> Result<(), Status> {
        delete(registry, &self.name).await
    }
}

/// Deletes the expired leases of API servers.
pub(super) async fn remove_expired(registry: &Registry) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(leases) = resources.get(GROUP, "v1", "leases") else { return Ok(()) };
    let params = ListParams { labels: Some(format!("{LABEL}={IDENTITY}")), ..ListParams::default() };
    let found = registry.list(&Target::collection(leases, Some(NAMESPACE)), params).await?;
    for lease in found.items {
        let lease = lease.value();
        if is_expired(&lease, registry.clock().now()) {
            delete(registry, lease.text(&["metadata", "name"])).await?;
        }
    }
    Ok(())
}

async fn delete(registry: &Registry, name: &str) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(leases) = resources.get(GROUP, "v1", "leases") else { return Ok(()) };
    let params = DeleteParams { admission: AdmissionState::Granted, ..DeleteParams::default() };
    match registry.delete(&Target::object(leases, Some(NAMESPACE), name), params).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}

fn is_expired(lease: &Value, now: jiff::Timestamp) -> bool {
    let renewed = parse_time(lease.text(&["spec", "renewTime"])).ok();
    let duration = lease.int(&["spec", "leaseDurationSeconds"]);
    let (Some(renewed), Some(duration)) = (renewed, duration) else { return true };
    now.duration_since(renewed).as_secs() >= duration
}

/// Encodes bytes in base32, in lower case and without padding.
fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut text, mut bits, mut count) = (String::new(), 0_u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(DIGITS[(bits >> count & 31) as usize]));
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        text.push(char::from(DIGITS[(bits << (5 - count) & 31) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_has_lower_case_and_no_padding() {
        // The examples of RFC 4648.
        for (text, expected) in [("", ""), ("f", "my"), ("fo", "mzxq"), ("foob", "mzxw6yq"), ("foobar", "mzxw6ytboi")] {
            assert_eq!(base32(text.as_bytes()), expected);
        }
    }

    #[test]
    fn servers_on_one_host_have_different_leases() {
        let name = |address: &str, port| {
            let endpoint = Endpoint { address: address.parse().unwrap(), port };
            Identity::new("host", endpoint, "u").name
        };
        assert_eq!(name("10.1.1.1", 6443), name("10.1.1.1", 6443));
        assert_ne!(name("10.1.1.1", 6443), name("10.1.1.2", 6443));
        assert_ne!(name("10.1.1.1", 6443), name("10.1.1.1", 7443));
        assert_eq!(name("10.1.1.1", 6443).len(), "apiserver-".len() + 26);
    }

    #[test]
    fn lease_expires_after_its_duration() {
        let now: jiff::Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let lease = |renewed: &str| json!({"spec": {"renewTime": renewed, "leaseDurationSeconds": 3600}});
        assert!(!is_expired(&lease("2026-01-01T00:00:00.500000Z"), now));
        assert!(is_expired(&lease("2026-01-01T00:00:00.000000Z"), now));
        assert!(is_expired(&json!({"spec": {}}), now));
    }
}
