//! The identity of objects in owner references.

use std::{fmt, sync::Arc};

use windlass_api::{Meta, OwnerRef};

/// An object as references name it: kind, namespace, name and UID.
///
/// References to the same UID may differ in the other fields; at most one of them is right.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    /// The namespace; `None` for cluster-scoped objects. For an object that was never observed, the namespace of the
    /// referring object, because its scope may be unknown.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

impl Identity {
    /// Returns the identity of an observed object.
    pub(crate) fn of(api_version: &Arc<str>, kind: &Arc<str>, meta: &Meta) -> Self {
        Self {
            api_version: Arc::clone(api_version),
            kind: Arc::clone(kind),
            namespace: meta.namespace().cloned(),
            name: Arc::clone(meta.name()),
            uid: meta.uid().into(),
        }
    }

    /// Returns the identity named by a reference in an object of `namespace`.
    pub(crate) fn of_owner(reference: &OwnerRef, namespace: Option<Arc<str>>) -> Self {
        Self {
            api_version: Arc::clone(&reference.api_version),
            kind: Arc::clone(&reference.kind),
            namespace,
            name: Arc::clone(&reference.name),
            uid: Arc::clone(&reference.uid),
        }
    }

    /// Returns the same identity as a cluster-scoped object.
    pub(crate) fn without_namespace(mut self) -> Self {
        self.namespace = None;
        self
    }

    /// Returns `true` if a reference with this UID, in an object of `namespace`, also matches all other fields.
    pub(crate) fn is_meant_by(&self, reference: &OwnerRef, namespace: Option<&Arc<str>>) -> bool {
        self.reaches(namespace)
            && self.api_version == reference.api_version
            && self.kind == reference.kind
            && self.name == reference.name
    }

    /// Returns `true` if this object may own an object of `namespace`: it is in the same namespace or cluster-scoped.
    pub(crate) fn reaches(&self, namespace: Option<&Arc<str>>) -> bool {
        self.namespace.is_none() || self.namespace.as_ref() == namespace
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.api_version, self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{} (uid {})", self.name, self.uid)
    }
}
