//! The annotations of a deployment and its replica sets.

use std::collections::BTreeMap;

/// The rollout's number, on the deployment and on each of its replica sets.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier revisions of a replica set that a rollback reused, separated by commas.
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The deployment's desired replicas when the replica set was last scaled.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The deployment's maximum replicas at that time, surge included.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Returns `true` if an annotation of the deployment is not copied to its replica sets.
fn stays(key: &str) -> bool {
    matches!(key, LAST_APPLIED | REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO)
}

/// Copies the deployment's annotations to a replica set. Returns `true` if anything changed.
pub(super) fn copy(from: &BTreeMap<String, String>, to: &mut BTreeMap<String, String>) -> bool {
    let mut changed = false;
    for (key, value) in from.iter().filter(|(key, _)| !stays(key)) {
        changed |= set(to, key, value);
    }
    changed
}

/// Sets one annotation. Returns `true` if its value changed.
pub(super) fn set(annotations: &mut BTreeMap<String, String>, key: &str, value: &str) -> bool {
    if annotations.get(key).is_some_and(|present| present == value) {
        return false;
    }
    annotations.insert(key.to_owned(), value.to_owned());
    true
}

/// Sets a replica set's revision and moves the earlier one to its history. A revision never decreases. Returns `true`
/// if anything changed.
pub(super) fn set_revision(annotations: &mut BTreeMap<String, String>, revision: i64) -> bool {
    let present = self::revision(annotations);
    if present >= revision {
        return false;
    }
    if present > 0 {
        let history = annotations.entry(REVISION_HISTORY.to_owned()).or_default();
        if !history.is_empty() {
            history.push(',');
        }
        history.push_str(&present.to_string());
    }
    set(annotations, REVISION, &revision.to_string())
}

/// Returns the revision in the annotations, or 0 without one.
pub(super) fn revision(annotations: &BTreeMap<String, String>) -> i64 {
    annotations.get(REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_keeps_the_earlier_revisions() {
        let mut annotations = BTreeMap::new();
        for revision in [1, 3, 3, 2, 5] {
            set_revision(&mut annotations, revision);
        }
        assert_eq!(revision(&annotations), 5);
        assert_eq!(annotations[REVISION_HISTORY], "1,3");
    }

    #[test]
    fn deployment_annotations_are_not_copied() {
        let from = BTreeMap::from([(LAST_APPLIED.to_owned(), "{}".to_owned()), ("note".to_owned(), "x".to_owned())]);
        let mut to = BTreeMap::new();
        assert!(copy(&from, &mut to) && !copy(&from, &mut to));
        assert_eq!(to.into_keys().collect::<Vec<_>>(), ["note"]);
    }
}
