//! The counterpart of sharding in builds without the feature `sharding`: this process owns all keys.

use std::future::Ready;

use windlass_api::{ApiResource, ObjectKey, ObjectRef, Resource};

use crate::{Cluster, Result};

/// The keys that this process owns: all, because the feature `sharding` is not enabled.
#[derive(Clone, Debug)]
pub struct Shard(());

/// The place of a key among the members, of which there is only one.
pub(crate) struct Point;

/// The permit of a running reconcile.
pub(crate) struct Permit;

/// Settings that do not exist.
pub(crate) enum Sharding {}

/// A membership that does not exist.
pub(crate) enum Membership {}

impl Shard {
    pub(crate) const fn alone() -> Self {
        Self(())
    }

    pub(crate) const fn is_shared(&self) -> bool {
        let Self(()) = self;
        false
    }

    /// Reports whether this process owns an object: always.
    #[must_use]
    pub fn owns<K: Resource>(&self, _: &ObjectRef<K>) -> bool {
        !self.is_shared()
    }

    /// Like [`Self::owns`], for a resource that is known only at run time.
    #[must_use]
    pub fn owns_of<K>(&self, _: &ApiResource, _: &ObjectRef<K>) -> bool {
        !self.is_shared()
    }

    /// Begins a reconcile.
    pub(crate) fn begin(&self, _: Point) -> Ready<Option<Permit>> {
        let Self(()) = self;
        std::future::ready(Some(Permit))
    }
}

impl Point {
    pub(crate) const fn of(_: &ApiResource, _: &ObjectKey) -> Self {
        Self
    }
}

impl Permit {
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Self = self;
        Some(work.await)
    }
}

impl Sharding {
    pub(crate) fn in_manager(self, _: &Cluster) -> Result<Membership> {
        match self {}
    }
}

impl Membership {
    pub(crate) fn shard(&self) -> &Shard {
        match *self {}
    }

    pub(crate) fn run(self, _: impl Future<Output = ()>) -> Ready<()> {
        match self {}
    }
}
