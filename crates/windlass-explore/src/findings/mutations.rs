//! The comparison of a mutated object with a new one.

use serde_json::Value;

use super::{Baseline, Finding};
use crate::{
    normal::TIME,
    record::{ObjectName, Outcome, Record},
};

/// The resource of which deployments keep old objects.
const HISTORY: &str = "replicasets.apps";

impl Baseline {
    /// Returns the findings of the runs in which the object has the changed field from the start, and the differences of
    /// the state after the mutation from theirs.
    pub(super) fn findings_of_fresh(&self, record: &Record) -> Vec<Finding> {
        let mut findings = Vec::new();
        for fresh in &record.fresh {
            let mut failures = self.failures(fresh);
            // A step may expect the usual value.
            failures.retain(|failure| !matches!(failure, Finding::StepFailed { .. }));
            findings.append(&mut failures);
        }
        if let Some(mutated) = after_mutation(record)
            && record.fresh.iter().all(|fresh| fresh.outcome == Outcome::Completed)
            && !record.fresh.is_empty()
        {
            let differences = self.with_runs(&record.fresh).differences(&mutated);
            findings.extend(differences.into_iter().map(Finding::unlike_new));
        }
        findings
    }
}

impl Finding {
    fn unlike_new(self) -> Self {
        Self::UnlikeNew { difference: Box::new(self) }
    }
}

/// Returns the record until the cluster has settled after the mutation; `None` if it has not.
fn after_mutation(record: &Record) -> Option<Record> {
    let step = record.injections.first().filter(|_| record.plan.mutation().is_some())?.step;
    record.steps.get(step)?.settled?;
    Some(record.until(step))
}

/// Returns `true` for objects that built-in controllers keep as a history of states: scaled-down ReplicaSets of a
/// Deployment.
pub(super) fn is_history(object: &ObjectName, state: &Value) -> bool {
    object.resource == HISTORY && state["spec"]["replicas"] == 0 && state["metadata"]["ownerReferences"].is_array()
}

/// Returns `true` if a field is compared after a mutation. The status of a built-in kind is that of built-in controllers. It
/// contains the history of their work, such as the reason of the last rollout.
pub(super) fn is_compared(object: &ObjectName, path: &str) -> bool {
    let is_custom =
        object.resource.split_once('.').is_some_and(|(_, group)| group.contains('.') && !group.ends_with(".k8s.io"));
    is_custom || path != "status" && !path.starts_with("status/")
}

/// The labels that contain the hash of a template. A difference of the template is a finding by itself.
const HASHES: [&str; 2] = ["controller-revision-hash", "pod-template-hash"];

/// Returns an object without the traces of a change: annotations of the object and of its template that consist of a
/// time, such as that of the last restart, and hashes of the template.
pub(super) fn without_traces(object: &Value) -> Value {
    let mut object = object.clone();
    for metadata in ["/metadata", "/spec/template/metadata"] {
        let Some(metadata) = object.pointer_mut(metadata).and_then(Value::as_object_mut) else { continue };
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.retain(|_, value| value != TIME);
        }
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            labels.retain(|name, _| !HASHES.contains(&name.as_str()));
        }
        // What remains may be an empty map.
        metadata.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        exploration::simulated::{Builder, object},
        normal::Derived,
        record::Panic,
    };

    const PLAN: &str = "set(spec/size,2)@dbs.example.dev/default/a";

    /// A run with one step, and a config map whose data is that of the custom resource.
    fn clean() -> Builder {
        let mut run = Builder::new();
        run.program("create configmaps/default/a", Some(json!({"data": {"size": "1"}})));
        run
    }

    /// A run with the mutation in step 1, and its end in step 2, after which the data is `back`.
    fn mutated(there: &str, back: &str) -> Builder {
        let mut run = Builder::new();
        run.record.plan = PLAN.parse().unwrap();
        run.step(0).program("create configmaps/default/a", Some(json!({"data": {"size": "1"}})));
        run.step(1).strike("set");
        run.program("update configmaps/default/a", Some(json!({"data": {"size": there}})));
        run.step(2).strike("set back");
        run.program("update configmaps/default/a", Some(json!({"data": {"size": back}})));
        run
    }

    fn fresh(size: &str) -> Record {
        let mut run = Builder::new();
        run.record.plan = PLAN.parse().unwrap();
        run.program("create configmaps/default/a", Some(json!({"data": {"size": size}})));
        run.record
    }

    fn baseline() -> Baseline {
        Baseline::new(&[clean().record, clean().record], Derived::default())
    }

    fn texts(record: &Record) -> Vec<String> {
        baseline().findings(record).iter().map(ToString::to_string).collect()
    }

    fn with_fresh(run: Builder, fresh: Vec<Record>) -> Record {
        Record { fresh, ..run.record }
    }

    #[test]
    fn change_must_be_reverted_and_as_if_new() {
        assert_eq!(texts(&with_fresh(mutated("2", "1"), vec![fresh("2")])), [""; 0]);
        assert_eq!(
            texts(&with_fresh(mutated("2", "2"), vec![fresh("2")])),
            [r#"configmaps/default/a ends differently: data/size is "2", expected "1""#]
        );
        assert_eq!(
            texts(&with_fresh(mutated("1", "1"), vec![fresh("2")])),
            [r#"compared with a new object, configmaps/default/a ends differently: data/size is "1", expected "2""#]
        );
    }

    #[test]
    fn fields_that_differ_between_new_objects_are_not_compared() {
        assert_eq!(texts(&with_fresh(mutated("7", "1"), vec![fresh("8"), fresh("9")])), [""; 0]);
    }

    #[test]
    fn times_of_changes_and_hashes_are_not_compared() {
        let state = |annotations: Value, hash: &str| {
            let metadata = json!({"annotations": annotations, "labels": {"controller-revision-hash": hash}});
            json!({"metadata": metadata, "spec": {"template": {"metadata": metadata}}})
        };
        let restarted = state(json!({"restarted-at": TIME}), "b");
        assert_eq!(without_traces(&restarted), without_traces(&state(json!({}), "a")));
        let noted = state(json!({"restarted-at": TIME, "note": "x"}), "b");
        assert_ne!(without_traces(&noted), without_traces(&restarted));
    }

    #[test]
    fn rejected_values_are_no_finding() {
        let mut record = mutated("2", "2").record;
        record.outcome = Outcome::Rejected { step: 2, error: "immutable".to_owned() };
        record.fresh = vec![fresh("2")];
        assert_eq!(texts(&record), [""; 0], "the value is not set back");
        record.fresh = vec![fresh("3")];
        assert_eq!(texts(&record).len(), 1, "the state after the change is still compared");
    }

    #[test]
    fn new_objects_must_not_crash_the_program() {
        let mut crashed = fresh("2");
        crashed.processes[0].panics.push(Panic { at: std::time::Duration::ZERO, message: "index".to_owned() });
        let record = with_fresh(mutated("2", "1"), vec![crashed]);
        assert_eq!(texts(&record), ["the program panicked: index"]);
        let mut failed = fresh("3");
        failed.outcome = Outcome::StepFailed { step: 1, error: "no".to_owned() };
        assert_eq!(texts(&with_fresh(mutated("2", "1"), vec![failed])), [""; 0], "the step expects the usual value");
    }

    #[test]
    fn history_of_built_in_controllers_is_not_compared() {
        let mut run = mutated("2", "1");
        let old = json!({"metadata": {"ownerReferences": [{"name": "a"}]}, "spec": {"replicas": 0}});
        run.other("create replicasets.apps/default/old", Some(old.clone()));
        assert_eq!(texts(&with_fresh(run, vec![fresh("2")])), [""; 0]);
        let mut run = mutated("2", "1");
        let current = json!({"metadata": old["metadata"], "spec": {"replicas": 1}});
        run.other("create replicasets.apps/default/old", Some(current));
        assert_eq!(texts(&with_fresh(run, vec![fresh("2")])).len(), 1);
        assert!(!is_compared(&object("deployments.apps/a/b"), "status/conditions/0/reason"));
        assert!(is_compared(&object("deployments.apps/a/b"), "spec/replicas"));
        assert!(is_compared(&object("dbs.example.dev/a/b"), "status/phase"));
    }
}
