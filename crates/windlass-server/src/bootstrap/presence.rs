//! The presence of this server among the API servers over one storage: its endpoint, and the Lease with its identity.
//!
//! Only servers over a shared storage announce themselves. A storage without other servers stays quiet: there, both
//! would be a write every ten seconds that no other server reads.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet, time};
use windlass_api::Status;

use super::{
    endpoints::{self, Endpoint},
    ensure_own_service,
    identity_lease::{self, Identity},
};
use crate::{
    kinds::core::service::ServiceCidr,
    registry::{Registry, WeakRegistry},
};

/// The interval of renewals.
const INTERVAL: Duration = Duration::from_secs(10);

/// The interval in which expired identities are removed.
const CLEANUP_INTERVAL: Duration = Duration::from_hours(1);

/// The time for the last writes of a server that stops.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// The announced server. It stays announced until its lease expires if this is dropped without [`Self::end`].
#[derive(Debug)]
pub(crate) struct Presence {
    stop: watch::Sender<bool>,
    task: JoinSet<()>,
}

/// The announcements of a server.
struct Announcement {
    registry: WeakRegistry,
    /// The range with the address of the service `kubernetes`, if it has to be created.
    cidr: ServiceCidr,
    endpoint: Endpoint,
    /// `false` if other machines cannot reach the server.
    is_reachable: bool,
    identity: Identity,
}

impl Presence {
    /// Announces the server, and renews its leases until `stopping` is `true`.
    pub(super) async fn start(
        registry: &Registry,
        cidr: ServiceCidr,
        endpoint: Endpoint,
        is_reachable: bool,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<Self, Status> {
        let identity = Identity::new(&host_name(), endpoint, &registry.entropy().uuid());
        if !is_reachable {
            let address = endpoint.address;
            tracing::warn!(%address, "other machines cannot reach this API server; set --advertise-address");
        }
        let announcement = Announcement { registry: registry.downgrade(), cidr, endpoint, is_reachable, identity };
        announcement.renew(registry).await?;
        let (stop, mut stopped) = watch::channel(false);
        let mut task = JoinSet::new();
        task.spawn(async move {
            tokio::select! {
                () = announcement.keep() => {}
                // An error means that the sender was dropped.
                _ = stopping.wait_for(|stopping| *stopping) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
            announcement.remove().await;
        });
        Ok(Self { stop, task })
    }

    /// Removes the announcements. Returns after some seconds if the storage does not respond.
    pub(crate) async fn end(mut self) {
        self.stop.send_replace(true);
        if time::timeout(LEAVE_LIMIT, self.task.join_next()).await.is_err() {
            tracing::warn!("the API server could not remove its leases in time: they expire");
        }
    }
}

impl Announcement {
    /// Renews the leases until the registry is dropped.
    async fn keep(&self) {
        let mut renewal = time::interval(INTERVAL);
        renewal.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        renewal.tick().await;
        let mut cleanup = time::interval(CLEANUP_INTERVAL);
        loop {
            let is_cleanup = tokio::select! {
                _ = renewal.tick() => false,
                _ = cleanup.tick() => true,
            };
            let Some(registry) = self.registry.upgrade() else { return };
            let result = if is_cleanup {
                identity_lease::remove_expired(&registry).await
            } else {
                let service = ensure_own_service(&registry, self.cidr, self.endpoint.port).await;
                service.and(self.renew(&registry).await)
            };
            if let Err(error) = result {
                tracing::warn!(%error, "the leases of the API servers cannot be kept");
            }
        }
    }

    async fn renew(&self, registry: &Registry) -> Result<(), Status> {
        if self.is_reachable {
            endpoints::renew(registry, self.endpoint).await?;
        }
        match self.identity.renew(registry).await {
            // Another write came first: the next renewal is soon enough.
            Err(status) if status.is_conflict() || status.is_already_exists() => Ok(()),
            result => result,
        }
    }

    async fn remove(&self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let endpoint =
            async { if self.is_reachable { endpoints::remove(&registry, self.endpoint).await } else { Ok(()) } };
        let (endpoint, identity) = tokio::join!(endpoint, self.identity.remove(&registry));
        if let Err(error) = endpoint.and(identity) {
            tracing::warn!(%error, "the API server could not remove its leases: they expire");
        }
    }
}

/// Returns the address at which other machines reach a server that listens on `bound`, and whether there is one.
///
/// As in kube-apiserver, a server on a loopback or unspecified address has the address of the interface with the default
/// route.
pub(super) fn reachable(bound: IpAddr) -> (IpAddr, bool) {
    if !bound.is_loopback() && !bound.is_unspecified() {
        return (bound, true);
    }
    match interface_address(bound.is_ipv4()) {
        Some(address) => (address, true),
        None => (bound, false),
    }
}

/// Returns the address of the interface with the default route.
fn interface_address(is_v4: bool) -> Option<IpAddr> {
    // Connecting a UDP socket selects the interface and sends nothing. The addresses are reserved for documentation.
    let (any, documentation): (IpAddr, IpAddr) = if is_v4 {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into())
    } else {
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((documentation, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_an_interface_is_advertised_as_it_is() {
        let address: IpAddr = "10.1.2.3".parse().unwrap();
        assert_eq!(reachable(address), (address, true));
    }

    #[test]
    fn loopback_address_is_never_advertised() {
        for bound in ["127.0.0.1", "0.0.0.0", "::1", "::"] {
            let (address, is_reachable) = reachable(bound.parse().unwrap());
            assert!(!is_reachable || !address.is_loopback() && !address.is_unspecified(), "{bound}: {address}");
        }
    }
}
