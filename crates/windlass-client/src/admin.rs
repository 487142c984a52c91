//! Operations of administrators: cordon, uncordon, restart.

use serde_json::json;
use windlass_api::{
    Clock, ObjectRef, Patch, Resource, format_time,
    k8s_openapi::api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        core::v1::Node,
    },
};

use crate::{Client, verbs::PatchOne};

/// The annotation that kubectl sets to restart workloads: a new value in the pod template replaces the pods.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Workloads that replace their pods when their template changes.
pub trait Restart: Resource {}

impl Restart for Deployment {}
impl Restart for DaemonSet {}
impl Restart for StatefulSet {}

impl Client {
    /// Cordons a node: marks it as unschedulable.
    pub fn cordon(&self, node: impl Into<ObjectRef<Node>>) -> PatchOne<Node> {
        self.patch(node, unschedulable(true))
    }

    /// Uncordons a node: marks it as schedulable.
    pub fn uncordon(&self, node: impl Into<ObjectRef<Node>>) -> PatchOne<Node> {
        self.patch(node, unschedulable(false))
    }

    /// Restarts a workload: replaces its pods according to its update strategy. Two calls within the same second of
    /// `clock` restart it once.
    pub fn restart<K: Restart>(&self, workload: impl Into<ObjectRef<K>>, clock: &Clock) -> PatchOne<K> {
        let annotations = json!({ RESTARTED_AT: format_time(clock.now()) });
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        self.patch(workload, Patch::Strategic(patch))
    }
}

fn unschedulable(value: bool) -> Patch {
    // As in kubectl, a schedulable node has no value in this field.
    let value = if value { json!(true) } else { json!(null) };
    Patch::Strategic(json!({"spec": {"unschedulable": value}}))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::Fake;

    fn body(fake: &Fake) -> Value {
        serde_json::from_slice(fake.last().body()).unwrap()
    }

    #[tokio::test]
    async fn nodes_are_cordoned_and_uncordoned() {
        let fake = Fake::json(r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}"#);
        fake.client().cordon("n").await.unwrap();
        assert_eq!(body(&fake), json!({"spec": {"unschedulable": true}}));
        fake.client().uncordon("n").await.unwrap();
        assert_eq!(body(&fake), json!({"spec": {"unschedulable": null}}));
        assert_eq!(fake.seen(), ["PATCH /api/v1/nodes/n", "PATCH /api/v1/nodes/n"]);
    }

    #[tokio::test]
    async fn a_restart_changes_the_template() {
        let fake = Fake::json(r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"}}"#);
        let clock = Clock::from_fn(|| "2026-01-02T03:04:05Z".parse().unwrap());
        fake.client().restart::<Deployment>("d", &clock).within("a").await.unwrap();
        assert_eq!(fake.seen(), ["PATCH /apis/apps/v1/namespaces/a/deployments/d"]);
        let at = &body(&fake)["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT];
        assert_eq!(at, "2026-01-02T03:04:05Z");
    }
}
