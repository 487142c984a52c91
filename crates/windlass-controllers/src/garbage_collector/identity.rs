//! Which object is meant.

use std::{fmt, sync::Arc};

use windlass_api::{Meta, OwnerRef};

/// An object as references name it: kind, place and uid.
///
/// Two references to one uid may disagree on the rest; at most one of them is right.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) api_version: Arc<str>,
    pub(crate) kind: Arc<str>,
    /// `None` for cluster-scoped objects. Of an object that was never seen, the namespace of whoever refers to it: its
    /// scope may not be known.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

impl Identity {
    /// Of an object that was seen.
    pub(crate) fn of(api_version: &Arc<str>, kind: &Arc<str>, meta: &Meta) -> Self {
        Self {
            api_version: Arc::clone(api_version),
            kind: Arc::clone(kind),
            namespace: meta.namespace().cloned(),
            name: Arc::clone(meta.name()),
            uid: meta.uid().into(),
        }
    }

    /// Of what a reference in an object of `namespace` names.
    pub(crate) fn of_owner(reference: &OwnerRef, namespace: Option<Arc<str>>) -> Self {
        Self {
            api_version: Arc::clone(&reference.api_version),
            kind: Arc::clone(&reference.kind),
            namespace,
            name: Arc::clone(&reference.name),
            uid: Arc::clone(&reference.uid),
        }
    }

    /// The same, cluster-scoped.
    pub(crate) fn without_namespace(mut self) -> Self {
        self.namespace = None;
        self
    }

    /// Whether a reference with this uid, in an object of `namespace`, names this object in every other respect too.
    pub(crate) fn is_meant_by(&self, reference: &OwnerRef, namespace: Option<&Arc<str>>) -> bool {
        self.reaches(namespace)
            && self.api_version == reference.api_version
            && self.kind == reference.kind
            && self.name == reference.name
    }

    /// Whether an object of `namespace` may be owned by this one: in the same namespace, or by a cluster-scoped owner.
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
