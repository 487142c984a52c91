use jiff::Timestamp;
use windlass_api::{ObjectKey, Traits};

use super::*;

fn identity(kind: &str, namespace: &str, name: &str) -> Identity {
    Identity {
        api_version: "v1".into(),
        kind: kind.into(),
        namespace: Some(namespace.into()).filter(|namespace: &Arc<str>| !namespace.is_empty()),
        name: name.into(),
        uid: name.into(),
    }
}

fn owned_by(owners: &[&str]) -> Meta {
    let reference = |uid: &&str| {
        let (uid, block_owner_deletion) = uid.strip_suffix('!').map_or((*uid, false), |uid| (uid, true));
        OwnerRef {
            api_version: "v1".into(),
            kind: "Set".into(),
            name: uid.into(),
            uid: uid.into(),
            controller: false,
            block_owner_deletion,
        }
    };
    let owner_references = owners.iter().map(reference).collect();
    Meta::new(ObjectKey::new("")).with_traits(Traits { owner_references, ..Traits::default() })
}

fn deleting(meta: Meta, finalizers: &[&str]) -> Meta {
    let finalizers = finalizers.iter().map(|finalizer| Arc::from(*finalizer)).collect();
    let traits = Traits { finalizers, ..(**meta.traits()).clone() };
    meta.with_deletion_timestamp(Some(Timestamp::UNIX_EPOCH)).with_traits(traits)
}

/// The work items for a reference of `dependent` to `owner` in another namespace.
fn misplaced(dependent: &str, owner: &str) -> [Job; 2] {
    let told = Job::Misplaced { dependent: dependent.into(), owner: owner.into() };
    [told, Job::AttemptToDelete(dependent.into())]
}

fn attempts(uids: &[&str]) -> Vec<Job> {
    uids.iter().map(|uid| Job::AttemptToDelete((*uid).into())).collect()
}

/// A set `s` with the pods `a` and `b`, all in namespace `n`.
fn set_with_two_pods() -> Graph {
    let mut graph = Graph::default();
    assert_eq!(graph.observe(identity("Set", "n", "s"), &owned_by(&[])), []);
    for pod in ["a", "b"] {
        assert_eq!(graph.observe(identity("Pod", "n", pod), &owned_by(&["s!"])), []);
    }
    graph
}

#[test]
fn deleted_owner_queues_its_dependents() {
    let mut graph = set_with_two_pods();
    assert_eq!(graph.remove("s"), attempts(&["a", "b"]));
    assert!(graph.is_absent(&identity("Set", "n", "s")));
    assert_eq!(graph.remove("s"), []);
    assert_eq!(graph.len(), 2);
}

#[test]
fn dependent_without_known_owner_adds_virtual_node() {
    let mut graph = Graph::default();
    assert_eq!(graph.observe(identity("Pod", "n", "a"), &owned_by(&["s"])), attempts(&["s"]));
    assert_eq!(graph.view("s").unwrap().source, NodeSource::Virtual);
    // Once the owner itself is observed, its node is no longer virtual.
    assert_eq!(graph.observe(identity("Set", "n", "s"), &owned_by(&[])), []);
    let view = graph.view("s").unwrap();
    assert_eq!((view.source, view.dependents.count), (NodeSource::Observed, 1));
}

#[test]
fn absent_virtual_owner_is_removed_and_dependents_queued() {
    let mut graph = Graph::default();
    graph.observe(identity("Pod", "n", "a"), &owned_by(&["s"]));
    let absent = graph.view("s").unwrap().identity;
    assert_eq!(graph.found_absent(&absent), attempts(&["a"]));
    assert!(graph.view("s").is_none() && graph.is_absent(&absent));
}

#[test]
fn a_virtual_owner_without_dependents_vanishes() {
    let mut graph = Graph::default();
    graph.observe(identity("Pod", "n", "a"), &owned_by(&["s"]));
    assert_eq!(graph.observe(identity("Pod", "n", "a"), &owned_by(&[])), []);
    assert_eq!(graph.len(), 1);
}

#[test]
fn cross_namespace_owner_is_reported_as_misplaced() {
    let mut graph = Graph::default();
    graph.observe(identity("Set", "n", "s"), &owned_by(&[]));
    assert_eq!(graph.observe(identity("Pod", "m", "a"), &owned_by(&["s"])), misplaced("a", "s"));
    // A cluster-scoped owner does not count as being in another namespace.
    graph.observe(identity("Set", "", "c"), &owned_by(&[]));
    assert_eq!(graph.observe(identity("Pod", "m", "b"), &owned_by(&["c"])), []);
}

#[test]
fn owner_reference_across_namespaces_is_rechecked() {
    let mut graph = Graph::default();
    graph.observe(identity("Pod", "m", "a"), &owned_by(&["s"]));
    assert_eq!(graph.observe(identity("Pod", "n", "b"), &owned_by(&["s"])), attempts(&["b"]));
    assert_eq!(graph.observe(identity("Set", "n", "s"), &owned_by(&[])), misplaced("a", "s"));
    // A result about the wrong identity does not affect references to the right one.
    let wrong = identity("Set", "m", "s");
    assert_eq!(graph.found_absent(&wrong), attempts(&["a"]));
    assert!(graph.is_absent(&wrong) && !graph.is_absent(&identity("Set", "n", "s")));
    assert_eq!(graph.view("s").unwrap().dependents.count, 2);
}

#[test]
fn a_virtual_owner_is_looked_for_under_each_name_it_is_given() {
    let mut graph = Graph::default();
    graph.observe(identity("Pod", "m", "a"), &owned_by(&["s"]));
    graph.observe(identity("Pod", "n", "b"), &owned_by(&["s"]));
    let first = graph.view("s").unwrap().identity;
    assert_eq!(graph.found_absent(&first), attempts(&["a", "s"]));
    let second = graph.view("s").unwrap().identity;
    assert_eq!(second.namespace.as_deref(), Some("n"));
    assert_eq!(graph.found_absent(&second), attempts(&["a", "b"]));
    assert!(graph.view("s").is_none());
}

#[test]
fn a_cluster_scoped_virtual_owner_is_absent_for_all_at_once() {
    let mut graph = Graph::default();
    graph.observe(identity("Pod", "m", "a"), &owned_by(&["s"]));
    graph.observe(identity("Pod", "n", "b"), &owned_by(&["s"]));
    assert_eq!(graph.found_absent(&identity("Set", "", "s")), attempts(&["a", "b"]));
}

#[test]
fn foreground_deletion_starts_with_the_dependents() {
    let mut graph = set_with_two_pods();
    let going = deleting(owned_by(&[]), &[FOREGROUND]);
    assert_eq!(graph.observe(identity("Set", "n", "s"), &going), attempts(&["a", "b", "s"]));
    assert_eq!(graph.observe(identity("Set", "n", "s"), &going), [], "it has started only once");
    assert_eq!(graph.view("s").unwrap().dependents.blocking.len(), 2);
    assert_eq!(graph.remove("a"), attempts(&["s"]));
    assert_eq!(graph.observe(identity("Pod", "n", "b"), &owned_by(&["s"])), attempts(&["s"]), "b no longer blocks");
    assert_eq!(graph.view("s").unwrap().dependents, Dependents { count: 1, ..Dependents::default() });
}

#[test]
fn a_dependent_that_deletes_its_own_may_be_part_of_a_circle() {
    let mut graph = set_with_two_pods();
    graph.observe(identity("Set", "n", "s"), &deleting(owned_by(&["a!"]), &[FOREGROUND]));
    graph.observe(identity("Pod", "n", "a"), &deleting(owned_by(&["s!"]), &[FOREGROUND]));
    let dependents = graph.view("s").unwrap().dependents;
    assert!(dependents.may_be_circular);
    assert_eq!(
        dependents.blocking,
        [("a".into(), DeletionStage::DeletingDependents), ("b".into(), DeletionStage::Alive)]
    );
}

#[test]
fn orphaning_is_one_job_for_all_dependents() {
    let mut graph = set_with_two_pods();
    let going = deleting(owned_by(&[]), &[ORPHAN]);
    assert_eq!(graph.observe(identity("Set", "n", "s"), &going), [Job::Orphan("s".into())]);
    assert_eq!(graph.observe(identity("Set", "n", "s"), &going), []);
    let names: Vec<_> = graph.dependents("s").into_iter().map(|dependent| dependent.name).collect();
    assert_eq!(names, ["a".into(), "b".into()]);
}

#[test]
fn plain_deletion_adds_no_work_until_it_ends() {
    let mut graph = set_with_two_pods();
    assert_eq!(graph.observe(identity("Set", "n", "s"), &deleting(owned_by(&[]), &["example.com/mine"])), []);
    assert_eq!(graph.view("s").unwrap().stage, DeletionStage::Deleting);
}

#[test]
fn a_kind_that_is_no_longer_served_leaves_with_all_its_objects() {
    let mut graph = set_with_two_pods();
    graph.observe(identity("Set", "n", "t"), &owned_by(&[]));
    assert_eq!(graph.remove_kind("v1", "Set"), attempts(&["a", "b"]));
    assert_eq!(graph.len(), 2);
}

#[test]
fn an_object_that_owns_itself_is_only_an_object() {
    let mut graph = Graph::default();
    assert_eq!(graph.observe(identity("Set", "n", "s"), &owned_by(&["s"])), []);
    assert_eq!(graph.remove("s"), attempts(&["s"]));
    assert_eq!(graph.len(), 0);
}
