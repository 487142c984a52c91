//! Pod eviction: deletes a pod if its PodDisruptionBudget allows it.
//!
//! Guaranteed: an allowed disruption is subtracted from the budget by a write before the pod is deleted. Of several
//! concurrent evictions, no more succeed than the budget allows. The disruption controller computes the allowed
//! disruptions: a budget that no controller has processed allows none.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{
    Cause, DryRun, GroupKind, GroupResource, LabelSelector, Operator, Preconditions, Requirement, Status, format_time,
};

use crate::{
    kubernetes::KubernetesVersion,
    object::{Errors, Path, Tree, as_object, object_mut},
    registry::{
        DeleteParams, ListParams, Registry, WriteParams,
        delete::{AdmissionState, check_preconditions},
        update::WriteScope,
    },
    resource::Target,
};

/// The maximum number of attempts to evict a pod that is not guarded by a budget and changes concurrently.
const MAX_ATTEMPTS: usize = 5;
/// The maximum number of deletions in a budget's `disruptedPods` that its controller has not yet confirmed.
const MAX_DISRUPTED: usize = 2000;
/// The message of an eviction that is rejected but may succeed later.
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// The retry delay in seconds for a budget that its controller has not processed yet.
const RETRY_SECONDS: u32 = 10;

impl Registry {
    /// Evicts a pod.
    pub(super) async fn evict(
        &self,
        target: &Target,
        deletion: DeleteParams,
        params: &WriteParams,
    ) -> Result<(), Status> {
        let pod = Target { subresource: None, ..target.clone() };
        let mut attempts = 0;
        let found = loop {
            attempts += 1;
            let found = self.get_stored(&pod).await?.value();
            if is_guarded(&found) {
                break found;
            }
            let pinned = deletion.preconditions.resource_version.is_some();
            // A pending pod may become ready, and thus guarded, before it is deleted. So the deletion is bound to its
            // version.
            let pin = !pinned && found.text(&["status", "phase"]) == "Pending" && !is_deleting(&found);
            let deletion = if pin { at_version(&deletion, &found) } else { deletion.clone() };
            match self.disrupt(&pod, deletion, params).await {
                Err(error) if error.is_conflict() && !pinned && attempts < MAX_ATTEMPTS => {}
                outcome => return outcome,
            }
        };

        let budgets = self.budgets(&pod, &found).await?;
        let budget = match budgets.as_slice() {
            [] => return self.disrupt(&pod, deletion, params).await,
            [budget] => budget,
            _ => {
                return Err(Status::unclassified(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let name = budget.text(&["metadata", "name"]);
        if is_harmless(&found, budget) {
            let outcome = self.disrupt(&pod, at_version(&deletion, &found), params).await;
            return match outcome {
                Err(error) if error.is_conflict() && deletion.preconditions.resource_version.is_none() => {
                    Err(not_processed(name))
                }
                outcome => outcome,
            };
        }
        self.take_disruption(&pod, name, deletion.dry_run).await?;
        self.disrupt(&pod, deletion, params).await
    }

    /// Marks a pod as disrupted and deletes it.
    async fn disrupt(&self, pod: &Target, mut deletion: DeleteParams, params: &WriteParams) -> Result<(), Status> {
        if deletion.dry_run == DryRun::No {
            let now = self.clock().now();
            let mark = |old: Option<&Value>| {
                let mut new = old.cloned().ok_or_else(|| Status::not_found(&pod.group_resource(), pod.name()))?;
                check_preconditions(pod, &deletion.preconditions, &new)?;
                mark_disrupted(&mut new, now);
                Ok(new)
            };
            let (marked, _) = self.change(pod, WriteScope::Internal, params, mark).await?;
            if let Some(version) = &mut deletion.preconditions.resource_version {
                *version = marked.revision.to_string();
            }
        }
        self.delete(pod, deletion).await?;
        Ok(())
    }

    /// Returns the budgets whose selectors match a pod.
    async fn budgets(&self, pod: &Target, found: &Value) -> Result<Vec<Value>, Status> {
        let table = self.resources();
        let Some(resource) = table.get("policy", "v1", "poddisruptionbudgets") else { return Ok(Vec::new()) };
        let budgets = self.list(&Target::collection(resource, Some(pod.namespace())), ListParams::default()).await?;
        let guards = |budget: &Value| {
            let label = |key: &str| found.at(&["metadata", "labels", key]).and_then(Value::as_str);
            budget.at(&["spec", "selector"]).and_then(selector).is_some_and(|selector| selector.matches(label))
        };
        Ok(budgets.items.iter().map(crate::resource::Item::value).filter(guards).collect())
    }

    /// Subtracts one disruption from a budget.
    async fn take_disruption(&self, pod: &Target, budget: &str, dry_run: DryRun) -> Result<(), Status> {
        let table = self.resources();
        let resource = table.get("policy", "v1", "poddisruptionbudgets").ok_or_else(Status::unknown_resource)?;
        let target = Target::object(resource, Some(pod.namespace()), budget).subresource("status");
        let params = WriteParams { dry_run, field_manager: "kube-apiserver".to_owned(), ..WriteParams::default() };
        let now = self.clock().now();
        let take = |old: Option<&Value>| match old {
            Some(old) => disrupted(old, pod.name(), now),
            None => Err(Status::not_found(&target.group_resource(), budget)),
        };
        self.change(&target, WriteScope::Status, &params, take).await?;
        Ok(())
    }
}

/// Returns the deletion that an eviction requests.
pub(super) fn deletion(
    eviction: &Value,
    params: &WriteParams,
    kubernetes: KubernetesVersion,
) -> Result<DeleteParams, Status> {
    let options = eviction.at(&["deleteOptions"]).cloned().unwrap_or_default();
    let dry_runs = options.items(&["dryRun"]);
    if dry_runs.iter().any(|value| value != "All") {
        let mut errors = Errors::of(kubernetes);
        errors.unsupported(&Path::new("dryRun"), &Value::from(dry_runs), &["All"]);
        errors.check(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "")?;
    }
    let text = |path: &[&str]| Some(options.text(path).to_owned()).filter(|text| !text.is_empty());
    let dry_run = !dry_runs.is_empty() || params.dry_run == DryRun::All;
    Ok(DeleteParams {
        grace_period: options.int(&["gracePeriodSeconds"]),
        propagation: text(&["propagationPolicy"]),
        orphan_dependents: options.at(&["orphanDependents"]).and_then(Value::as_bool),
        preconditions: Preconditions {
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
        },
        dry_run: if dry_run { DryRun::All } else { DryRun::No },
        user: params.user.clone(),
        audit: params.audit.clone(),
        warnings: params.warnings.clone(),
        trace: params.trace.clone(),
        admission: AdmissionState::Granted,
        webhooks: params.webhooks,
        in_collection: false,
    })
}

fn at_version(deletion: &DeleteParams, found: &Value) -> DeleteParams {
    let mut deletion = deletion.clone();
    deletion.preconditions.resource_version = Some(found.text(&["metadata", "resourceVersion"]).to_owned());
    deletion
}

fn is_deleting(pod: &Value) -> bool {
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// Reports whether budgets guard the pod. Pods that do not run are not guarded.
fn is_guarded(pod: &Value) -> bool {
    !is_deleting(pod) && !matches!(pod.text(&["status", "phase"]), "Pending" | "Succeeded" | "Failed")
}

/// Reports whether a pod can be evicted without a disruption of its budget. That requires that the pod is not ready,
/// and that the budget allows it or has enough healthy pods.
fn is_harmless(pod: &Value, budget: &Value) -> bool {
    let conditions = pod.items(&["status", "conditions"]);
    let is_ready = conditions
        .iter()
        .any(|condition| condition.text(&["type"]) == "Ready" && condition.text(&["status"]) == "True");
    if is_ready {
        return false;
    }
    let count = |field: &str| budget.int(&["status", field]).unwrap_or_default();
    budget.text(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || (count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy"))
}

/// Returns the budget after one allowed disruption.
fn disrupted(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Status> {
    let name = budget.text(&["metadata", "name"]);
    let count = |field: &str| budget.int(&["status", field]).unwrap_or_default();
    let generation = budget.int(&["metadata", "generation"]).unwrap_or_default();
    let forbidden = |why| Err(Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why));
    if count("observedGeneration") < generation {
        return Err(not_processed(name));
    }
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if budget.entries(&["status", "disruptedPods"]).count() > MAX_DISRUPTED {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(exhausted(budget, name));
    }
    let mut new = budget.clone();
    let status = object_mut(&mut new, "status");
    status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
    let pods = as_object(status.entry("disruptedPods").or_insert_with(|| json!({})));
    pods.insert(pod.to_owned(), format_time(now).into());
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": count("observedGeneration"),
            "lastTransitionTime": format_time(now), "reason": "InsufficientPods", "message": "",
        });
        set_condition(status.entry("conditions").or_insert_with(|| json!([])), condition);
    }
    Ok(new)
}

fn mark_disrupted(pod: &mut Value, now: Timestamp) {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": format_time(now),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    set_condition(object_mut(pod, "status").entry("conditions").or_insert_with(|| json!([])), condition);
}

/// Sets a condition. If the condition's status is unchanged, the transition time stays.
fn set_condition(conditions: &mut Value, mut new: Value) {
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|old| old.text(&["type"]) == new.text(&["type"])) {
        Some(old) => {
            if old.text(&["status"]) == new.text(&["status"])
                && let Some(since) = old.at(&["lastTransitionTime"])
            {
                as_object(&mut new).insert("lastTransitionTime".to_owned(), since.clone());
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// Rejects an eviction because the controller has not yet processed the budget's last change.
fn not_processed(budget: &str) -> Status {
    let message = format!("The disruption budget {budget} is still being processed by the server.");
    Status::too_many_requests(REFUSED, RETRY_SECONDS).with_causes(vec![cause(message)])
}

/// Rejects an eviction because no disruption is allowed, with the controller's reason.
fn exhausted(budget: &Value, name: &str) -> Status {
    let count = |field: &str| budget.int(&["status", field]).unwrap_or_default();
    let conditions = budget.items(&["status", "conditions"]);
    let condition = conditions.iter().find(|condition| {
        condition.text(&["type"]) == "DisruptionAllowed"
            && condition.text(&["status"]) == "False"
            && !condition.text(&["message"]).is_empty()
    });
    let (desired, current) = (count("desiredHealthy"), count("currentHealthy"));
    let message = match condition.map(|condition| (condition.text(&["reason"]), condition.text(&["message"]))) {
        Some(("SyncFailed", why)) => {
            format!("The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}")
        }
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some((reason, why)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {why}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    Status::too_many_requests(REFUSED, 0).with_causes(vec![cause(message)])
}

fn cause(message: String) -> Cause {
    Cause { reason: "DisruptionBudget".to_owned(), message, field: String::new() }
}

/// Parses the selector of a budget. Returns `None` for an invalid selector, which matches no pod. An empty selector
/// matches every pod.
fn selector(value: &Value) -> Option<LabelSelector> {
    let labels = value.entries(&["matchLabels"]);
    let mut requirements: Vec<_> = labels
        .map(|(key, value)| Requirement::new(key, Operator::Equals, [value.as_str().unwrap_or_default()]))
        .collect();
    for expression in value.items(&["matchExpressions"]) {
        let operator = match expression.text(&["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        };
        let values = expression.items(&["values"]).iter().filter_map(Value::as_str);
        requirements.push(Requirement::new(expression.text(&["key"]), operator, values));
    }
    Some(LabelSelector::new(requirements))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: Value) -> Value {
        json!({"metadata": {"name": "b", "generation": 1}, "status": status})
    }

    fn causes(status: &Status) -> Vec<&str> {
        status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.message.as_str()).collect()
    }

    #[test]
    fn budget_allows_only_its_number_of_disruptions() {
        let fresh = disrupted(&budget(json!({"disruptionsAllowed": 5})), "p", Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(
            (fresh.code, causes(&fresh)),
            (429, vec!["The disruption budget b is still being processed by the server."])
        );

        let counted =
            json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 2});
        let taken = disrupted(&budget(counted), "p", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(taken.int(&["status", "disruptionsAllowed"]), Some(0));
        assert_eq!(taken.text(&["status", "disruptedPods", "p"]), "1970-01-01T00:00:00Z");
        assert_eq!(taken.items(&["status", "conditions"])[0].text(&["reason"]), "InsufficientPods");
        let refused = disrupted(&taken, "q", Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(refused.message, REFUSED);
        assert_eq!(causes(&refused), ["The disruption budget b needs 2 healthy pods and has 2 currently"]);
    }

    #[test]
    fn unready_pods_are_evicted_for_free_if_others_are_healthy() {
        let pod = |ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let enough = budget(json!({"currentHealthy": 2, "desiredHealthy": 2}));
        assert!(is_harmless(&pod("False"), &enough));
        assert!(!is_harmless(&pod("True"), &enough));
        assert!(!is_harmless(&pod("False"), &budget(json!({"currentHealthy": 1, "desiredHealthy": 2}))));
    }

    #[test]
    fn budget_selector_matches_pods_and_empty_matches_all() {
        let matches = |value: Value, label: &'static str| {
            selector(&value).is_some_and(|selector| selector.matches(|key| (key == "app").then_some(label)))
        };
        assert!(matches(json!({}), "web"));
        assert!(matches(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}), "web"));
        assert!(!matches(json!({"matchLabels": {"app": "web"}}), "db"));
        assert!(!matches(json!({"matchExpressions": [{"key": "app", "operator": "Like"}]}), "web"));
    }
}
