//! The five conditions of a terminating namespace. Their reasons and messages equal those of kube-controller-manager.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::NamespaceCondition, apimachinery::pkg::apis::meta::v1::Time};
use windlass_api::GroupResource;

/// The result of one pass over the content of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The error of an incomplete discovery.
    pub(crate) discovery_failure: Option<String>,
    /// The errors of failed deletions.
    pub(crate) deletion_failures: Vec<String>,
    /// The number of remaining objects by resource.
    pub(crate) remaining: BTreeMap<String, usize>,
    /// The number of remaining objects by finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
    /// `true` if the deletion of other resources waits for pods. The conditions then mention no remaining objects, not
    /// even pods, as in kube-controller-manager.
    pub(crate) awaits_pods: bool,
}

impl Progress {
    /// Counts the remaining objects of a resource, given the finalizers of each object.
    pub(crate) fn count<'o>(&mut self, resource: &GroupResource, objects: impl IntoIterator<Item = &'o [String]>) {
        let mut count = 0;
        for finalizers in objects {
            count += 1;
            for finalizer in finalizers {
                *self.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
        if count > 0 {
            // The dot is written even if the group is empty.
            self.remaining.insert(format!("{}.{}", resource.resource, resource.group), count);
        }
    }

    /// Returns `true` if nothing is left and nothing failed.
    pub(crate) fn is_complete(&self) -> bool {
        self.discovery_failure.is_none() && self.deletion_failures.is_empty() && self.remaining.is_empty()
    }

    /// Returns the new conditions of the namespace. Conditions of other types are kept.
    pub(crate) fn conditions(&self, before: &[NamespaceCondition], now: Timestamp) -> Vec<NamespaceCondition> {
        let counted = |what: &BTreeMap<String, usize>, how: &str| {
            let reports = what.iter().filter(|_| !self.awaits_pods);
            reports.map(|(name, count)| format!("{name} {how} {count} resource instances")).collect::<Vec<_>>()
        };
        let remaining = counted(&self.remaining, "has").join(", ");
        let finalizers = counted(&self.finalizers, "in").join(", ");
        let failures = &self.deletion_failures;
        let reports = [
            ConditionReport {
                type_: "NamespaceDeletionDiscoveryFailure",
                problem: self.discovery_failure.clone(),
                reasons: ("DiscoveryFailed", "ResourcesDiscovered"),
                fine: "All resources successfully discovered",
            },
            ConditionReport {
                type_: "NamespaceDeletionGroupVersionParsingFailure",
                problem: None,
                reasons: ("GroupVersionParsingFailed", "ParsedGroupVersions"),
                fine: "All legacy kube types successfully parsed",
            },
            ConditionReport {
                type_: "NamespaceDeletionContentFailure",
                problem: (!failures.is_empty()).then(|| {
                    format!(
                        "Failed to delete all resource types, {} remaining: {}",
                        failures.len(),
                        failures.join(", ")
                    )
                }),
                reasons: ("ContentDeletionFailed", "ContentDeleted"),
                fine: "All content successfully deleted, may be waiting on finalization",
            },
            ConditionReport {
                type_: "NamespaceContentRemaining",
                problem: (!remaining.is_empty()).then(|| format!("Some resources are remaining: {remaining}")),
                reasons: ("SomeResourcesRemain", "ContentRemoved"),
                fine: "All content successfully removed",
            },
            ConditionReport {
                type_: "NamespaceFinalizersRemaining",
                problem: (!finalizers.is_empty())
                    .then(|| format!("Some content in the namespace has finalizers remaining: {finalizers}")),
                reasons: ("SomeFinalizersRemain", "ContentHasNoFinalizers"),
                fine: "All content-preserving finalizers finished",
            },
        ];
        let mut conditions = before.to_vec();
        for reports in reports {
            reports.put_into(&mut conditions, now);
        }
        conditions
    }
}

/// A condition type with its reasons for true (there is a problem) and for false.
struct ConditionReport {
    type_: &'static str,
    problem: Option<String>,
    reasons: (&'static str, &'static str),
    fine: &'static str,
}

impl ConditionReport {
    fn put_into(self, conditions: &mut Vec<NamespaceCondition>, now: Timestamp) {
        let (status, reason, message) = match self.problem {
            Some(problem) => ("True", self.reasons.0, problem),
            None => ("False", self.reasons.1, self.fine.to_owned()),
        };
        let mut condition = NamespaceCondition {
            type_: self.type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        };
        match conditions.iter_mut().find(|known| known.type_ == self.type_) {
            Some(known) => {
                if known.status == condition.status {
                    condition.last_transition_time.clone_from(&known.last_transition_time);
                }
                *known = condition;
            }
            None => conditions.push(condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn text(conditions: &[NamespaceCondition], type_: &str) -> String {
        let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
        format!("{} {} {}", found.status, found.reason.as_deref().unwrap(), found.message.as_deref().unwrap())
    }

    #[test]
    fn an_empty_namespace_has_five_conditions_without_a_problem() {
        let conditions = Progress::default().conditions(&[], at(1));
        let all: Vec<_> = conditions.iter().map(|found| format!("{} {}", found.type_, found.status)).collect();
        assert_eq!(
            all,
            [
                "NamespaceDeletionDiscoveryFailure False",
                "NamespaceDeletionGroupVersionParsingFailure False",
                "NamespaceDeletionContentFailure False",
                "NamespaceContentRemaining False",
                "NamespaceFinalizersRemaining False",
            ]
        );
        assert_eq!(
            text(&conditions, "NamespaceContentRemaining"),
            "False ContentRemoved All content successfully removed"
        );
    }

    #[test]
    fn remaining_objects_are_counted_by_kind_and_finalizer() {
        let mut progress = Progress::default();
        let (held, free) = (["example.com/x".to_owned()], []);
        progress.count(&GroupResource::new("", "pods"), [&free[..]]);
        progress.count(&GroupResource::new("apps", "deployments"), [&held[..], &held[..], &free[..]]);
        progress.count(&GroupResource::new("", "secrets"), []);
        assert!(!progress.is_complete());
        let conditions = progress.conditions(&[], at(1));
        assert_eq!(
            text(&conditions, "NamespaceContentRemaining"),
            "True SomeResourcesRemain Some resources are remaining: deployments.apps has 3 resource instances, \
             pods. has 1 resource instances"
        );
        assert_eq!(
            text(&conditions, "NamespaceFinalizersRemaining"),
            "True SomeFinalizersRemain Some content in the namespace has finalizers remaining: \
             example.com/x in 2 resource instances"
        );
    }

    #[test]
    fn remaining_objects_are_not_reported_while_pods_end() {
        let mut progress = Progress { awaits_pods: true, ..Progress::default() };
        progress.count(&GroupResource::new("", "pods"), [&["example.com/x".to_owned()][..]]);
        assert!(!progress.is_complete());
        assert_eq!(progress.conditions(&[], at(1)), Progress::default().conditions(&[], at(1)));
    }

    #[test]
    fn condition_transition_time_changes_only_with_status() {
        let failing = Progress {
            discovery_failure: Some("x.io is away".to_owned()),
            deletion_failures: vec!["a".to_owned(), "b".to_owned()],
            ..Progress::default()
        };
        let first = failing.conditions(&[], at(1));
        assert_eq!(text(&first, "NamespaceDeletionDiscoveryFailure"), "True DiscoveryFailed x.io is away");
        assert_eq!(
            text(&first, "NamespaceDeletionContentFailure"),
            "True ContentDeletionFailed Failed to delete all resource types, 2 remaining: a, b"
        );
        assert_eq!(failing.conditions(&first, at(2)), first);
        let fine = Progress::default().conditions(&first, at(3));
        let times: Vec<_> = fine.iter().map(|found| found.last_transition_time.clone().unwrap().0).collect();
        assert_eq!(times, [at(3), at(1), at(3), at(1), at(1)]);
    }

    #[test]
    fn foreign_conditions_are_kept() {
        let theirs = NamespaceCondition { type_: "Other".to_owned(), ..NamespaceCondition::default() };
        let conditions = Progress::default().conditions(std::slice::from_ref(&theirs), at(1));
        assert_eq!((conditions.len(), &conditions[0]), (6, &theirs));
    }
}
