//! Admission plugins for pods: default tolerations and priority.

use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::Status;

use super::classes::{cluster_object, default_priority};
use crate::registry::{Admission, Attributes, Operation};
use crate::{
    object::{Tree, default_pointer, object_mut},
    registry::Registry,
};

/// The plugin `Priority` for pods.
#[derive(Debug)]
pub(crate) struct PodPriorities;

/// The plugin `DefaultTolerationSeconds`.
#[derive(Debug)]
pub(crate) struct DefaultTolerations;

/// The time that a pod stays on a node that is not ready or unreachable, in seconds.
const TOLERATION_SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

impl Admission for PodPriorities {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write()
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.operation == Operation::Create {
                set_priority(registry, write).await?;
            } else {
                keep_priority(write);
            }
            Ok(())
        })
    }
}

impl Admission for DefaultTolerations {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write()
    }

    fn admit<'a>(&'a self, _: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        tolerate(&mut write.object);
        Box::pin(std::future::ready(Ok(())))
    }
}

fn tolerate(pod: &mut Value) {
    let spec = object_mut(pod, "spec");
    let tolerations = spec.items(&["tolerations"]);
    let tolerated = |taint: &str| {
        tolerations.iter().any(|toleration| {
            matches!(toleration.text(&["key"]), "" | "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
                && (toleration.text(&["key"]).is_empty() || toleration.text(&["key"]) == taint)
                && matches!(toleration.text(&["effect"]), "" | "NoExecute")
        })
    };
    let missing: Vec<Value> = TAINTS
        .into_iter()
        .filter(|taint| !tolerated(taint))
        .map(|taint| {
            json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS})
        })
        .collect();
    if missing.is_empty() {
        return;
    }
    let tolerations = spec.entry("tolerations").or_insert(Value::Null);
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    if let Some(tolerations) = tolerations.as_array_mut() {
        tolerations.extend(missing);
    }
}

async fn set_priority(registry: &Registry, write: &mut Attributes) -> Result<(), Status> {
    let name = write.object.text(&["spec", "priorityClassName"]).to_owned();
    let class = if name.is_empty() {
        default_priority(registry).await?
    } else {
        let class = cluster_object(registry, "scheduling.k8s.io", "priorityclasses", &name).await?;
        if class.is_none() {
            return Err(write.forbidden(format!("no PriorityClass with name {name} was found")));
        }
        class
    };
    let class = class.unwrap_or_default();
    let priority = class.int(&["value"]).unwrap_or_default();
    let policy = match class.text(&["preemptionPolicy"]) {
        "" => "PreemptLowerPriority",
        policy => policy,
    };
    let given = write.object.int(&["spec", "priority"]);
    if let Some(given) = given.filter(|given| *given != priority) {
        return Err(write.forbidden(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {priority} from the given PriorityClass name"
        )));
    }
    let given = write.object.text(&["spec", "preemptionPolicy"]).to_owned();
    if !given.is_empty() && given != policy {
        return Err(write.forbidden(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller \
             computed {policy} from the given PriorityClass name"
        )));
    }
    let spec = object_mut(&mut write.object, "spec");
    if name.is_empty() && !class.is_null() {
        spec.insert("priorityClassName".to_owned(), class.text(&["metadata", "name"]).into());
    }
    default_pointer(spec, "priority", priority);
    default_pointer(spec, "preemptionPolicy", policy);
    Ok(())
}

/// Keeps the priority fields of the old state if an update omits them.
fn keep_priority(write: &mut Attributes) {
    let Some(old) = write.old.as_ref().and_then(|old| old.at(&["spec"])) else { return };
    let spec = object_mut(&mut write.object, "spec");
    for key in ["priority", "preemptionPolicy"] {
        if let Some(value) = old.at(&[key]) {
            default_pointer(spec, key, value.clone());
        }
    }
}
