//! The effect of a failed pod on its job.

use k8s_openapi::api::{
    batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule},
    core::v1::{ContainerStateTerminated, ContainerStatus, Pod},
};
use windlass_api::ObjectExt;

use super::spec;

/// The annotation with the number of counted failures of a pod's index before this pod.
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the number of ignored failures of a pod's index before this pod.
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The consequence of a pod's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The failure counts against the limits.
    Count,
    /// The failure is ignored.
    Ignore,
    /// The pod's index fails, regardless of the limit.
    FailIndex,
    /// The job fails with this message.
    FailJob(String),
}

/// Returns the consequence of the first matching rule in the job's policy. Without a match, the failure counts.
pub(super) fn verdict(job: &Job, pod: &Pod) -> Verdict {
    let rules = spec::failure_policy(job).map(|policy| &*policy.rules).unwrap_or_default();
    let matching = rules.iter().enumerate().filter_map(|(at, rule)| Some((at, rule, matches(rule, pod)?)));
    for (at, rule, what) in matching {
        match &*rule.action {
            "Ignore" => return Verdict::Ignore,
            "FailIndex" => return Verdict::FailIndex,
            "Count" => return Verdict::Count,
            "FailJob" => {
                return Verdict::FailJob(what.message(pod, at));
            }
            // An action that only newer servers support.
            _ => {}
        }
    }
    Verdict::Count
}

/// The part of a pod that a rule matched.
enum Match<'p> {
    ExitCode { container: &'p str, code: i32 },
    Condition(&'p str),
}

impl Match<'_> {
    fn message(&self, pod: &Pod, rule: usize) -> String {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name());
        match self {
            Self::ExitCode { container, code } => format!(
                "Container {container} for pod {namespace}/{name} failed with exit code {code} matching FailJob rule at index {rule}"
            ),
            Self::Condition(type_) => {
                format!("Pod {namespace}/{name} has condition {type_} matching FailJob rule at index {rule}")
            }
        }
    }
}

fn matches<'p>(rule: &PodFailurePolicyRule, pod: &'p Pod) -> Option<Match<'p>> {
    let status = pod.status.as_ref()?;
    if let Some(codes) = &rule.on_exit_codes {
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        return containers.into_iter().find_map(|container| exit_code(codes, container));
    }
    let patterns = rule.on_pod_conditions.as_ref()?;
    status.conditions.iter().flatten().find_map(|condition| {
        let mut patterns = patterns.iter();
        let holds = patterns.any(|pattern| {
            pattern.type_ == condition.type_ && pattern.status.as_deref().unwrap_or("True") == condition.status
        });
        holds.then_some(Match::Condition(&condition.type_))
    })
}

fn exit_code<'p>(rule: &PodFailurePolicyOnExitCodesRequirement, container: &'p ContainerStatus) -> Option<Match<'p>> {
    let ContainerStateTerminated { exit_code: code, .. } = container.state.as_ref()?.terminated.as_ref()?;
    let meant = rule.container_name.as_ref().is_none_or(|name| *name == container.name);
    let holds = match &*rule.operator {
        "In" => rule.values.contains(code),
        "NotIn" => !rule.values.contains(code),
        _ => false,
    };
    (meant && *code != 0 && holds).then_some(Match::ExitCode { container: &container.name, code: *code })
}

/// Returns `true` if the index of a failed pod is not retried.
pub(super) fn exhausts_index(job: &Job, pod: &Pod) -> bool {
    let Some(limit) = spec::backoff_limit_per_index(job) else { return false };
    spec::has_failed(job, pod)
        && match verdict(job, pod) {
            Verdict::FailIndex => true,
            Verdict::Ignore => false,
            Verdict::Count | Verdict::FailJob(_) => count(pod, FAILURES) >= limit,
        }
}

/// Returns the number of earlier failures of a pod's index, counted and ignored.
pub(super) fn earlier_failures(pod: &Pod) -> i32 {
    count(pod, FAILURES).saturating_add(count(pod, IGNORED))
}

/// Returns the failure annotations of the pod that replaces `failed`.
pub(super) fn annotations(job: &Job, failed: Option<&Pod>) -> Vec<(&'static str, i32)> {
    let (mut failures, mut ignored) = failed.map_or((0, 0), |pod| (count(pod, FAILURES), count(pod, IGNORED)));
    match failed.map(|pod| verdict(job, pod)) {
        None => {}
        Some(Verdict::Ignore) => ignored = ignored.saturating_add(1),
        Some(_) => failures = failures.saturating_add(1),
    }
    let mut annotations = vec![(FAILURES, failures)];
    annotations.extend((ignored > 0).then_some((IGNORED, ignored)));
    annotations
}

/// An annotation that is not a number counts as zero.
fn count(pod: &Pod, annotation: &str) -> i32 {
    pod.annotations().get(annotation).and_then(|count| count.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(rules: Value) -> Job {
        let spec = json!({"template": {}, "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": rules}});
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
    }

    fn pod(code: i32, annotations: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "annotations": annotations},
            "status": {"phase": "Failed",
                "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": code}}}],
                "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let job = job(json!([
            {"action": "Ignore", "onPodConditions": [{"type": "Other", "status": "True"}]},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3], "containerName": "other"}},
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [3, 4]}},
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [4]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]));
        let none = || json!({});
        let message = "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 2";
        assert_eq!(verdict(&job, &pod(42, none())), Verdict::FailJob(message.to_owned()));
        assert_eq!(verdict(&job, &pod(1, none())), Verdict::FailIndex);
        assert_eq!(verdict(&job, &pod(4, none())), Verdict::Count);
        assert_eq!(verdict(&job, &pod(3, none())), Verdict::Ignore);
        assert_eq!(verdict(&job, &pod(0, none())), Verdict::Ignore, "an exit with 0 matches no rule of codes");
    }

    #[test]
    fn an_index_remembers_its_failures_from_pod_to_pod() {
        let ignoring = job(json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}]));
        let first = pod(1, json!({FAILURES: "0"}));
        assert!(!exhausts_index(&ignoring, &first));
        assert_eq!(annotations(&ignoring, None), [(FAILURES, 0)]);
        assert_eq!(annotations(&ignoring, Some(&first)), [(FAILURES, 1)]);
        assert!(exhausts_index(&ignoring, &pod(1, json!({FAILURES: "1"}))));
        let ignored = pod(7, json!({FAILURES: "1", IGNORED: "x"}));
        assert!(!exhausts_index(&ignoring, &ignored));
        assert_eq!(annotations(&ignoring, Some(&ignored)), [(FAILURES, 1), (IGNORED, 1)]);
        assert_eq!(earlier_failures(&pod(7, json!({FAILURES: "1", IGNORED: "2"}))), 3);
    }
}
