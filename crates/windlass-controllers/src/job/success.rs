//! The success policy: a job may succeed when some of its indexes have.

use k8s_openapi::api::batch::v1::Job;

use super::{indexes::Indexes, spec};

/// Returns a description of the first fulfilled rule of the job's success policy.
pub(super) fn rule_met(job: &Job, succeeded: &Indexes) -> Option<String> {
    let rules = &job.spec.as_ref()?.success_policy.as_ref()?.rules;
    let completions = spec::completions(job).unwrap_or(0);
    if succeeded.is_empty() {
        return None;
    }
    let met = rules.iter().position(|rule| match (&rule.succeeded_indexes, rule.succeeded_count) {
        (Some(indexes), enough) => {
            let wanted = Indexes::parse(indexes, completions);
            let reached = wanted.overlap(succeeded);
            !wanted.is_empty() && (reached == wanted.total() || enough.is_some_and(|enough| reached >= enough))
        }
        (None, Some(enough)) => succeeded.total() >= enough,
        (None, None) => false,
    });
    met.map(|rule| format!("Matched rules at index {rule}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_met_by_its_indexes_or_by_enough_of_them() {
        let rules = json!([
            {"succeededIndexes": "0-2"},
            {"succeededIndexes": "3-9", "succeededCount": 2},
            {"succeededCount": 5},
        ]);
        let spec =
            json!({"template": {}, "completions": 8, "completionMode": "Indexed", "successPolicy": {"rules": rules}});
        let job: Job = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        let met = |succeeded: &str| rule_met(&job, &Indexes::parse(succeeded, 8));
        assert_eq!(met(""), None);
        assert_eq!(met("0,1,3"), None);
        assert_eq!(met("0-2").as_deref(), Some("Matched rules at index 0"));
        assert_eq!(met("3,7").as_deref(), Some("Matched rules at index 1"));
        let spec = json!({"template": {}, "completions": 8, "successPolicy": {"rules": [{"succeededCount": 2}]}});
        let job: Job = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        assert_eq!(rule_met(&job, &Indexes::parse("4", 8)), None);
        assert!(rule_met(&job, &Indexes::parse("4,6", 8)).is_some());
    }
}
