//! The scopes of quotas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{items, text};

/// A requirement of a quota: it counts only the objects that meet all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeRequirement {
    /// The name of the scope, such as `BestEffort`.
    pub scope: String,
    /// `Exists`, `DoesNotExist`, `In` or `NotIn`.
    pub operator: String,
    /// The values for `In` and `NotIn`.
    pub values: Vec<String>,
}

impl ScopeRequirement {
    /// Returns the requirements in the scopes and in the scope selector of a quota.
    #[must_use]
    pub fn of_quota(quota: &Value) -> Vec<Self> {
        let scopes = items(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
        let scopes =
            scopes.map(|scope| Self { scope: scope.to_owned(), operator: "Exists".to_owned(), values: Vec::new() });
        scopes.chain(Self::list(items(quota, &["spec", "scopeSelector", "matchExpressions"]))).collect()
    }

    /// Reads requirements from a list, as in a scope selector.
    pub fn list(expressions: &[Value]) -> impl Iterator<Item = Self> {
        expressions.iter().map(|expression| Self {
            scope: text(expression, &["scopeName"]).to_owned(),
            operator: text(expression, &["operator"]).to_owned(),
            values: items(expression, &["values"]).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// Reports whether one of the classes of an object meets the requirement.
    fn admits(&self, classes: &BTreeSet<String>) -> bool {
        let is_listed = |class: &String| self.values.contains(class);
        match &*self.operator {
            "Exists" => !classes.is_empty(),
            "DoesNotExist" => classes.is_empty(),
            "In" => classes.iter().any(is_listed),
            "NotIn" => classes.is_empty() || classes.iter().any(|class| !is_listed(class)),
            _ => false,
        }
    }
}

/// The properties of an object that scopes select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Scopes {
    /// The object is in no scope.
    #[default]
    None,
    Pod {
        is_terminating: bool,
        is_best_effort: bool,
        crosses_namespaces: bool,
        /// The priority class, if it has one.
        priority_classes: BTreeSet<String>,
    },
    PersistentVolumeClaim {
        attributes_classes: BTreeSet<String>,
    },
}

impl Scopes {
    pub(super) fn meet(&self, requirement: &ScopeRequirement) -> bool {
        match self {
            Self::None => false,
            Self::Pod { is_terminating, is_best_effort, crosses_namespaces, priority_classes } => {
                match &*requirement.scope {
                    "Terminating" => *is_terminating,
                    "NotTerminating" => !is_terminating,
                    "BestEffort" => *is_best_effort,
                    "NotBestEffort" => !is_best_effort,
                    "CrossNamespacePodAffinity" => *crosses_namespaces,
                    "PriorityClass" => requirement.admits(priority_classes),
                    _ => false,
                }
            }
            Self::PersistentVolumeClaim { attributes_classes } => {
                requirement.scope == "VolumeAttributesClass" && requirement.admits(attributes_classes)
            }
        }
    }
}
