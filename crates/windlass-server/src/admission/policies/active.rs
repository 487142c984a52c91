//! The policies with bindings. They are read and compiled again when a policy or a binding has changed.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::task;
use windlass_api::Status;

use super::compiled::{Binding, CompiledPolicy};
use crate::{
    registry::Registry,
    resource::Item,
    storage::{Revision, StoredValue},
};

/// The policies of one kind, and their bindings.
#[derive(Debug)]
pub(super) struct Policies {
    policies: &'static str,
    bindings: &'static str,
    known: Arc<Known>,
}

/// The last snapshot.
#[derive(Debug, Default)]
struct Known {
    current: Mutex<Arc<Snapshot>>,
    /// Held while a new snapshot is compiled, on a thread for blocking work.
    compiling: Mutex<()>,
}

/// The policies with their bindings at one point in time.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// The keys and revisions of the policies and of the bindings.
    versions: [Vec<(Arc<str>, Revision)>; 2],
    compiled: BTreeMap<Arc<str>, (Revision, Arc<CompiledPolicy>)>,
    /// The policies that have bindings, by name.
    active: Vec<ActivePolicy>,
}

/// A policy with its bindings.
#[derive(Debug)]
pub(super) struct ActivePolicy {
    pub(super) policy: Arc<CompiledPolicy>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

// === impl Policies ===

impl Policies {
    pub(super) fn mutating() -> Self {
        Self::of("/registry/mutatingadmissionpolicies/", "/registry/mutatingadmissionpolicybindings/")
    }

    pub(super) fn validating() -> Self {
        Self::of("/registry/validatingadmissionpolicies/", "/registry/validatingadmissionpolicybindings/")
    }

    fn of(policies: &'static str, bindings: &'static str) -> Self {
        Self { policies, bindings, known: Arc::default() }
    }

    /// Returns the current policies. Returns `None` if there are no bindings.
    pub(super) async fn current(&self, registry: &Registry) -> Result<Option<Arc<Snapshot>>, Status> {
        if registry.storage().is_known_to_be_empty(self.bindings) {
            return Ok(None);
        }
        let bindings = self.stored(registry, self.bindings).await?;
        if bindings.is_empty() {
            return Ok(None);
        }
        let policies = self.stored(registry, self.policies).await?;
        if let Some(snapshot) = self.known.find(&policies, &bindings) {
            return Ok(Some(snapshot));
        }
        let known = Arc::clone(&self.known);
        let compiling = task::spawn_blocking(move || known.compile(&policies, &bindings, CompiledPolicy::compile));
        compiling.await.map_err(Status::internal)?.map(Some)
    }

    async fn stored(&self, registry: &Registry, prefix: &str) -> Result<Vec<StoredValue>, Status> {
        Ok(registry.storage().range_recent(prefix).await.map_err(Status::internal)?.values)
    }
}

// === impl Known ===

impl Known {
    /// Compiles a snapshot of these policies and bindings, unless another thread has done so. An incomplete one is not
    /// kept, so that the next write compiles it again.
    fn compile(
        &self,
        policies: &[StoredValue],
        bindings: &[StoredValue],
        compile: impl Fn(&Value) -> CompiledPolicy,
    ) -> Result<Arc<Snapshot>, Status> {
        let _compiling = self.compiling.lock();
        if let Some(snapshot) = self.find(policies, bindings) {
            return Ok(snapshot);
        }
        let last = Arc::clone(&self.current.lock());
        let snapshot = Arc::new(Snapshot::new(&last, policies, bindings, compile)?);
        if !snapshot.active.iter().any(|active| active.policy.is_incomplete) {
            *self.current.lock() = Arc::clone(&snapshot);
        }
        Ok(snapshot)
    }

    /// Returns the last snapshot if it contains these policies and bindings.
    fn find(&self, policies: &[StoredValue], bindings: &[StoredValue]) -> Option<Arc<Snapshot>> {
        let current = self.current.lock();
        let is_same = |known: &[(Arc<str>, Revision)], stored: &[StoredValue]| {
            known.len() == stored.len()
                && known
                    .iter()
                    .zip(stored)
                    .all(|((key, revision), value)| *revision == value.modified && *key == value.key)
        };
        let [known_policies, known_bindings] = &current.versions;
        let is_known = is_same(known_policies, policies) && is_same(known_bindings, bindings);
        is_known.then(|| Arc::clone(&current))
    }
}

// === impl Snapshot ===

impl Snapshot {
    pub(super) fn active(&self) -> &[ActivePolicy] {
        &self.active
    }

    /// Compiles the policies that have changed since the last snapshot.
    fn new(
        last: &Self,
        policies: &[StoredValue],
        bindings: &[StoredValue],
        compile: impl Fn(&Value) -> CompiledPolicy,
    ) -> Result<Self, Status> {
        let versions = |stored: &[StoredValue]| {
            stored.iter().map(|value| (Arc::clone(&value.key), value.modified)).collect::<Vec<_>>()
        };
        let mut by_policy: BTreeMap<String, Vec<Arc<Binding>>> = BTreeMap::new();
        for stored in bindings {
            let binding = Binding::of(&Item::stored(stored)?.value());
            by_policy.entry(binding.policy.clone()).or_default().push(Arc::new(binding));
        }
        let (mut compiled, mut active) = (BTreeMap::new(), Vec::new());
        for stored in policies {
            let name = stored.key.rsplit('/').next().unwrap_or_default();
            let Some(bindings) = by_policy.remove(name) else { continue };
            let policy = match last.compiled.get(&stored.key) {
                Some((revision, policy)) if *revision == stored.modified => Arc::clone(policy),
                _ => Arc::new(compile(&Item::stored(stored)?.value())),
            };
            compiled.insert(Arc::clone(&stored.key), (stored.modified, Arc::clone(&policy)));
            active.push(ActivePolicy { policy, bindings });
        }
        Ok(Self { versions: [versions(policies), versions(bindings)], compiled, active })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::encoded::{Encoded, Style};

    fn stored(key: &str, object: &Value) -> StoredValue {
        let body = Encoded::new(object, Style::BuiltIn).storage_bytes();
        StoredValue { key: key.into(), body, created: Revision(1), modified: Revision(1), is_stale: false }
    }

    #[test]
    fn policy_that_could_not_be_compiled_is_compiled_again() {
        let policy = json!({"kind": "ValidatingAdmissionPolicy", "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": "p"}, "spec": {"validations": [{"expression": "true"}]}});
        let binding = json!({"kind": "ValidatingAdmissionPolicyBinding",
            "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "b"}, "spec": {"policyName": "p"}});
        let (policies, bindings) = ([stored("/p", &policy)], [stored("/b", &binding)]);
        let (known, compiled) = (Known::default(), Cell::new(0));
        let compile = |policy: &Value| {
            compiled.set(compiled.get() + 1);
            CompiledPolicy { is_incomplete: compiled.get() == 1, ..CompiledPolicy::compile(policy) }
        };
        for expected in [1, 2, 2] {
            let snapshot = known.compile(&policies, &bindings, compile).unwrap();
            assert_eq!((snapshot.active().len(), compiled.get()), (1, expected));
        }
    }
}
