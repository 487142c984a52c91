//! Predicates on the state of objects, for waiting.
//!
//! Each predicate evaluates the given object only. A status for an older generation is ignored.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, StatefulSet, StatefulSetSpec},
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};

use crate::{Object, ObjectExt as _};

/// Reports whether a pod's phase is `Running`: it is bound to a node, and at least one of its containers has started.
#[must_use]
pub fn pod_is_running(pod: &Pod) -> bool {
    pod_phase(pod) == Some("Running")
}

/// Reports whether a pod is ready to serve requests and is not being deleted.
#[must_use]
pub fn pod_is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    !pod.is_deleting() && holds("Ready", conditions.into_iter().flatten().map(|one| (&one.type_, &one.status)))
}

/// Reports whether a pod has ended, successfully or not.
#[must_use]
pub fn pod_has_ended(pod: &Pod) -> bool {
    matches!(pod_phase(pod), Some("Succeeded" | "Failed"))
}

/// Reports whether a deployment is rolled out: all its pods have the newest template, there are as many as desired, and
/// all are available.
#[must_use]
pub fn deployment_is_rolled_out(deployment: &Deployment) -> bool {
    // The spec is an `Option` in the types before 1.37 only.
    let spec: Option<&DeploymentSpec> = (&deployment.spec).into();
    let (Some(spec), Some(status)) = (spec, &deployment.status) else { return false };
    let wanted = spec.replicas.unwrap_or(1);
    is_observed(deployment, status.observed_generation)
        && status.updated_replicas.unwrap_or(0) == wanted
        && status.replicas.unwrap_or(0) == wanted
        && status.available_replicas.unwrap_or(0) == wanted
}

/// Reports whether a stateful set is rolled out: all its pods have the newest revision, there are as many as desired,
/// and all are ready.
#[must_use]
pub fn stateful_set_is_rolled_out(set: &StatefulSet) -> bool {
    let spec: Option<&StatefulSetSpec> = (&set.spec).into();
    let (Some(spec), Some(status)) = (spec, &set.status) else { return false };
    let wanted = spec.replicas.unwrap_or(1);
    is_observed(set, status.observed_generation)
        && status.ready_replicas.unwrap_or(0) == wanted
        && status.updated_replicas.unwrap_or(0) == wanted
        && status.current_revision == status.update_revision
}

/// Reports whether a job has completed.
#[must_use]
pub fn job_is_complete(job: &Job) -> bool {
    job_says(job, "Complete")
}

/// Reports whether a job has failed.
#[must_use]
pub fn job_has_failed(job: &Job) -> bool {
    job_says(job, "Failed")
}

/// Reports whether a claim is bound to a volume.
#[must_use]
pub fn claim_is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// Reports whether a custom resource is served and its names are accepted.
#[must_use]
pub fn definition_is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    holds("Established", conditions.into_iter().flatten().map(|one| (&one.type_, &one.status)))
}

/// Reports whether the object with this UID is gone. `found` is the current object of the same name, if any.
#[must_use]
pub fn is_gone<K: Object>(uid: &str, found: Option<&K>) -> bool {
    found.is_none_or(|object| object.uid() != Some(uid))
}

fn pod_phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn job_says(job: &Job, condition: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    holds(condition, conditions.into_iter().flatten().map(|one| (&one.type_, &one.status)))
}

fn holds<'c>(wanted: &str, mut conditions: impl Iterator<Item = (&'c String, &'c String)>) -> bool {
    conditions.any(|(type_, status)| type_ == wanted && status == "True")
}

fn is_observed<K: Object>(object: &K, observed: Option<i64>) -> bool {
    observed.unwrap_or(0) >= object.metadata().generation.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<K: Object>(json: Value) -> K {
        serde_json::from_value(json).unwrap()
    }

    fn conditions(type_: &str, status: &str) -> Value {
        json!({"metadata": {}, "spec": {}, "status": {"conditions": [{"type": type_, "status": status}]}})
    }

    #[test]
    fn pods_are_running_ready_or_at_their_end() {
        let pod = |phase: &str| read::<Pod>(json!({"metadata": {}, "status": {"phase": phase}}));
        assert!(pod_is_running(&pod("Running")) && !pod_is_running(&pod("Pending")));
        assert!(pod_has_ended(&pod("Failed")) && pod_has_ended(&pod("Succeeded")) && !pod_has_ended(&pod("Running")));
        let mut ready: Pod =
            read(json!({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        assert!(pod_is_ready(&ready) && !pod_is_ready(&pod("Running")));
        ready.metadata.deletion_timestamp = Some(read_time());
        assert!(!pod_is_ready(&ready));
    }

    fn read_time() -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap()
    }

    #[test]
    fn a_rollout_is_over_when_the_newest_generation_is_everywhere() {
        let deployment = |generation: i64, replicas: i64| -> Deployment {
            read(json!({"metadata": {"generation": 2},
                "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {"observedGeneration": generation,
                "replicas": replicas, "updatedReplicas": 2, "availableReplicas": 2}}))
        };
        assert!(deployment_is_rolled_out(&deployment(2, 2)));
        assert!(!deployment_is_rolled_out(&deployment(1, 2)), "of an older generation");
        assert!(!deployment_is_rolled_out(&deployment(2, 3)), "an old pod is left");
        let set = |current: &str| -> StatefulSet {
            read(json!({"metadata": {}, "spec": {"replicas": 1, "selector": {}, "template": {}, "serviceName": "s"},
                "status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
                    "currentRevision": current, "updateRevision": "b"}}))
        };
        assert!(stateful_set_is_rolled_out(&set("b")) && !stateful_set_is_rolled_out(&set("a")));
    }

    #[test]
    fn jobs_claims_and_crds_report_their_conditions() {
        let job = |condition: &str, status: &str| -> Job {
            let mut job = conditions(condition, status);
            job["spec"] = json!({"template": {}});
            read(job)
        };
        assert!(job_is_complete(&job("Complete", "True")) && !job_is_complete(&job("Complete", "False")));
        assert!(job_has_failed(&job("Failed", "True")) && !job_has_failed(&job("Complete", "True")));
        assert!(claim_is_bound(&read(json!({"metadata": {}, "status": {"phase": "Bound"}}))));
        let definition = |status: &str| -> CustomResourceDefinition {
            let mut definition = conditions("Established", status);
            definition["spec"] =
                json!({"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster", "versions": []});
            read(definition)
        };
        assert!(definition_is_established(&definition("True")) && !definition_is_established(&definition("False")));
    }

    #[test]
    fn recreated_object_is_a_different_object() {
        let mut pod = Pod::default();
        pod.metadata.uid = Some("2".to_owned());
        assert!(is_gone::<Pod>("1", None) && is_gone("1", Some(&pod)) && !is_gone("2", Some(&pod)));
    }
}
