//! The task of a group member: performs the steps of its state machine, and publishes the keys that controllers may act
//! on.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug},
    future::Future,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep_until, timeout_at};
use windlass_api::{
    Clock, ObjectRef,
    k8s_openapi::{
        api::coordination::v1::{Lease, LeaseSpec},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use windlass_client::{Client, Error};

use super::{
    GROUP_LABEL, MEMBERS_ANNOTATION, Shard,
    claims::{Assignment, Claim},
    member::{Member, Notice, Step, Version, Written},
    ring::Ring,
    shard::Shared,
};
use crate::leader_election::{Timings, lease};

/// The membership of a group. While it runs, it joins the group and shares the keys with the other members. If it is
/// dropped, its lease expires.
pub(crate) struct Membership {
    member: Member,
    leases: Leases,
    shard: Shard,
    shared: Arc<Shared>,
    timings: Timings,
    /// The time limit for reconciles whose keys move.
    patience: Duration,
    /// When the member began to wait for reconciles of keys that it will lose.
    draining: Option<Instant>,
    /// When the member noticed that its lease contains outdated members.
    outdated: Option<Instant>,
}

/// Access to the leases of a group on the server.
pub(super) struct Leases {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) group: Arc<str>,
    pub(super) clock: Clock,
    pub(super) lease_duration: Duration,
    /// The own lease as last written.
    pub(super) spec: Option<LeaseSpec>,
}

impl Membership {
    pub(super) fn new(
        member: Member,
        leases: Leases,
        (shard, shared): (Shard, Arc<Shared>),
        timings: Timings,
        patience: Duration,
    ) -> Self {
        shared.metrics.members(&shared.group, 0);
        Self { member, leases, shard, shared, timings, patience, draining: None, outdated: None }
    }

    pub(crate) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Runs until `stop` resolves, then leaves the group. No reconcile may be running any more when `stop` resolves.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = self.shared.prepared() => {}
        }
        tracing::info!(group = &*self.leases.group, member = &**self.member.name(), "joining the group");
        tokio::select! {
            biased;
            () = stop => {}
            never = self.take_part() => match never {},
        }
        // A cancelled write may still succeed, so the lease is read before it is deleted.
        self.shared.metrics.members(&self.shared.group, 0);
        self.leave().await;
    }

    async fn take_part(&mut self) -> std::convert::Infallible {
        loop {
            let now = Instant::now();
            let is_drained = self.drain(now);
            let step = self.member.next(now, is_drained);
            // From now on the lease may contain the new ring.
            self.publish();
            match step {
                Step::Wait(until) => {
                    let patience = self.draining.map_or(until, |since| until.min(since + self.patience).max(now));
                    tokio::select! {
                        () = self.shared.ended.notified(), if self.draining.is_some() => {}
                        () = sleep_until(patience) => {}
                    }
                    continue;
                }
                Step::List => {
                    let notices = match self.leases.list().await {
                        Ok(notices) => Some(notices),
                        Err(error) => {
                            tracing::warn!(
                                group = &*self.leases.group,
                                error = error.chain(),
                                "cannot list the leases"
                            );
                            None
                        }
                    };
                    self.member.listed(Instant::now(), notices);
                    if !self.member.is_up_to_date() {
                        self.outdated.get_or_insert(now);
                    }
                }
                Step::Create(ring) => {
                    let outcome = self.leases.create(&self.member, &ring).await;
                    self.member.written(now, Instant::now(), outcome);
                }
                Step::Update(version, ring) => {
                    let outcome = self.leases.update(&self.member, version, &ring).await;
                    self.member.written(now, Instant::now(), outcome);
                    if self.member.is_up_to_date()
                        && let Some(since) = self.outdated.take()
                    {
                        self.shared.metrics.handed_over(&self.shared.group, since.elapsed());
                    }
                }
                Step::Evict(version) => {
                    tracing::info!(group = &*self.leases.group, member = &*version.name, "removing an expired member");
                    let outcome = self.leases.delete(&version).await;
                    self.member.evicted(&version.name, Instant::now(), &outcome);
                }
            }
            self.publish();
        }
    }

    /// Reports whether no reconciles of keys that the member will lose are running. Revokes reconciles that exceed the
    /// patience.
    fn drain(&mut self, now: Instant) -> bool {
        let mut claims = self.shared.claims.lock();
        if claims.is_drained() {
            self.draining = None;
            return true;
        }
        let since = *self.draining.get_or_insert(now);
        if since + self.patience <= now && claims.revoke_leaving() > 0 {
            drop(claims);
            tracing::warn!(group = &*self.leases.group, "dropping reconciles that take too long while their keys move");
            self.shared.changes.send_replace(());
        }
        false
    }

    /// Notifies the controllers if something has changed.
    fn publish(&mut self) {
        let (assignment, until, now) = (self.member.assignment(), self.member.until(), Instant::now());
        let members = assignment.rings.last().map_or(0, |ring| ring.names().len());
        let (before, is_new) = {
            let mut claims = self.shared.claims.lock();
            let before = Arc::clone(claims.assignment());
            (before, claims.update(assignment.clone(), until, now))
        };
        if !is_new {
            return;
        }
        self.shared.changes.send_replace(());
        let (group, metrics) = (&*self.shared.group, &self.shared.metrics);
        metrics.members(group, members);
        if before.rings.last() != assignment.rings.last() {
            let ring = assignment.rings.last().map(Ring::to_string).unwrap_or_default();
            tracing::info!(group, members = ring, "the members of the group have changed");
        }
        if assignment.rings.is_empty() && !before.rings.is_empty() {
            tracing::warn!(group, "lost the lease, and with it all keys");
            metrics.lost(group);
        }
    }

    fn stop_acting(&self) {
        let nothing = Assignment::nothing(Arc::clone(self.member.name()));
        self.shared.claims.lock().update(nothing, None, Instant::now());
        self.shared.changes.send_replace(());
    }

    /// Deletes the lease, if it exists.
    async fn leave(&mut self) {
        let limit = Instant::now() + self.timings.renew_deadline;
        self.stop_acting();
        let leaving = async {
            loop {
                if let Ok(notices) = self.leases.list().await {
                    let mine = |notice: &&Notice| notice.incarnation == self.member.incarnation();
                    let Some(own) = notices.iter().find(mine) else { return };
                    let version =
                        Version { name: Arc::clone(&own.name), uid: own.uid.clone(), version: own.version.clone() };
                    if matches!(self.leases.delete(&version).await, Written::Done(_)) {
                        return;
                    }
                }
                tokio::time::sleep(self.timings.retry_period / 4).await;
            }
        };
        match timeout_at(limit, leaving).await {
            Ok(()) => tracing::info!(group = &*self.leases.group, "left the group"),
            Err(_elapsed) => tracing::warn!(group = &*self.leases.group, "could not delete the lease in time"),
        }
    }
}

impl Drop for Membership {
    /// A stopped member does not renew its lease, so controllers must not act on it.
    fn drop(&mut self) {
        self.stop_acting();
    }
}

impl Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("member", &self.member).finish_non_exhaustive()
    }
}

// === impl Leases ===

impl Leases {
    /// Lists the current leases. A list without a resource version is never served from stale data.
    async fn list(&self) -> Result<Vec<Notice>, Error> {
        let selector = format!("{GROUP_LABEL}={}", self.group);
        let leases = self.client.list::<Lease>().within(self.namespace.as_str()).labels(selector).await?;
        Ok(leases.into_iter().map(|lease| self.notice(lease)).collect())
    }

    fn notice(&self, lease: Lease) -> Notice {
        let (metadata, spec) = (lease.metadata, lease.spec.unwrap_or_default());
        let members = metadata.annotations.as_ref().and_then(|all| all.get(MEMBERS_ANNOTATION));
        let lasts = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Notice {
            name: metadata.name.unwrap_or_default().into(),
            uid: metadata.uid.unwrap_or_default(),
            version: metadata.resource_version.unwrap_or_default(),
            incarnation: spec.holder_identity.unwrap_or_default(),
            // A lease without a duration has the default duration.
            lasts: lasts.map_or(self.lease_duration, Duration::from_secs),
            claim: members.map_or(Claim::Unreadable, |members| Claim::Ring(Ring::parse(members))),
        }
    }

    async fn create(&mut self, member: &Member, ring: &Ring) -> Written {
        self.spec = None;
        let lease = self.lease(member, ring, None);
        let created = self.client.create(&lease).await;
        self.written(created)
    }

    async fn update(&mut self, member: &Member, version: Version, ring: &Ring) -> Written {
        let lease = self.lease(member, ring, Some(version));
        let updated = self.client.update(&lease).await;
        self.written(updated)
    }

    async fn delete(&self, Version { name, uid, version }: &Version) -> Written {
        let target = ObjectRef::<Lease>::new(Arc::clone(name)).within(self.namespace.as_str());
        match self.client.delete::<Lease>(target).uid(uid.as_str()).resource_version(version.as_str()).await {
            Ok(_) => Written::Done(None),
            Err(error) => self.failed(&error),
        }
    }

    fn lease(&self, member: &Member, ring: &Ring, version: Option<Version>) -> Lease {
        // UID and version ensure that a late renewal does not recreate a deleted lease.
        let (uid, version) = version.map(|version| (version.uid, version.version)).unzip();
        let spec = lease::claimed(self.spec.as_ref(), member.incarnation(), self.lease_duration, self.clock.now());
        Lease {
            metadata: ObjectMeta {
                name: Some(member.name().to_string()),
                namespace: Some(self.namespace.clone()),
                uid,
                resource_version: version,
                labels: Some(BTreeMap::from([(GROUP_LABEL.to_owned(), self.group.to_string())])),
                annotations: Some(BTreeMap::from([(MEMBERS_ANNOTATION.to_owned(), ring.to_string())])),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        }
    }

    fn written(&mut self, result: Result<Lease, Error>) -> Written {
        match result {
            Ok(lease) => {
                self.spec = lease.spec;
                let ObjectMeta { name, uid, resource_version, .. } = lease.metadata;
                Written::Done(Some(Version {
                    name: name.unwrap_or_default().into(),
                    uid: uid.unwrap_or_default(),
                    version: resource_version.unwrap_or_default(),
                }))
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) -> Written {
        tracing::warn!(group = &*self.group, error = error.chain(), "cannot write a lease");
        let is_refused = error.is_conflict() || error.is_not_found() || error.is_already_exists();
        if is_refused { Written::Refused } else { Written::Unknown }
    }
}
