//! The kinds of the controller: ReplicaSet and ReplicationController.

use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::{
            PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
        },
    },
    apimachinery::pkg::apis::meta::v1,
};
use windlass_api::LabelSelector;

use super::Replicated;
use crate::{error::ReconcileError, ownership::selecting};

impl Replicated for ReplicaSet {
    const CONTROLLER: &'static str = "replicaset";
    const COMPONENT: &'static str = "replicaset-controller";

    fn selector(&self) -> Result<Option<LabelSelector>, ReconcileError> {
        let Some(spec) = &self.spec else { return Ok(None) };
        selecting(&spec.selector)
    }

    fn replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        self.status.clone()
    }

    fn set_status(&mut self, status: ReplicaSetStatus) {
        self.status = Some(status);
    }
}

impl Replicated for ReplicationController {
    const CONTROLLER: &'static str = "replicationcontroller";
    const COMPONENT: &'static str = "replication-controller";

    fn selector(&self) -> Result<Option<LabelSelector>, ReconcileError> {
        let match_labels = self.spec.as_ref().and_then(|spec| spec.selector.clone());
        selecting(&v1::LabelSelector { match_labels, ..v1::LabelSelector::default() })
    }

    fn replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        let status = self.status.clone()?;
        let conditions = status.conditions.map(|conditions| {
            let conditions = conditions.into_iter().map(|condition| ReplicaSetCondition {
                last_transition_time: condition.last_transition_time,
                message: condition.message,
                reason: condition.reason,
                status: condition.status,
                type_: condition.type_,
            });
            conditions.collect()
        });
        Some(ReplicaSetStatus {
            available_replicas: status.available_replicas,
            conditions,
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
            terminating_replicas: None,
        })
    }

    fn set_status(&mut self, status: ReplicaSetStatus) {
        let conditions = status.conditions.map(|conditions| {
            let conditions = conditions.into_iter().map(|condition| ReplicationControllerCondition {
                last_transition_time: condition.last_transition_time,
                message: condition.message,
                reason: condition.reason,
                status: condition.status,
                type_: condition.type_,
            });
            conditions.collect()
        });
        self.status = Some(ReplicationControllerStatus {
            available_replicas: status.available_replicas,
            conditions,
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replication_controller_has_map_selector_and_fewer_fields() {
        let mut controller: ReplicationController = serde_json::from_value(json!({
            "metadata": {}, "spec": {"replicas": 2, "selector": {"app": "web"}},
        }))
        .unwrap();
        assert!(controller.selector().unwrap().is_some());
        assert!(ReplicationController::default().selector().unwrap().is_none());
        let told = ReplicaSetStatus { replicas: 2, terminating_replicas: Some(1), ..ReplicaSetStatus::default() };
        controller.set_status(told.clone());
        assert_eq!(controller.status(), Some(ReplicaSetStatus { terminating_replicas: None, ..told }));
    }
}
