//! The selectors in reviews. Roles have no selectors, so they don't influence a decision.

use serde_json::Value;
use windlass_api::{FieldSelector, LabelSelector};

use crate::{
    kinds::{validate_count, validate_label},
    object::{Errors, Path, Tree},
};

/// The differences between field selectors and label selectors.
struct Rules {
    name: &'static str,
    parses: fn(&str) -> bool,
    /// Reports whether a valid requirement is supported.
    is_understood: fn(&Value) -> bool,
    validate: fn(&Value, &Path<'_>, &mut Errors),
}

const RULES: [Rules; 2] = [
    Rules {
        name: "fieldSelector",
        parses: |raw| raw.parse::<FieldSelector>().is_ok(),
        is_understood: |requirement| {
            matches!(requirement.text(&["operator"]), "In" | "NotIn") && requirement.items(&["values"]).len() == 1
        },
        validate: |requirement, path, errors| {
            if requirement.text(&["key"]).is_empty() {
                errors.required(&path.child("key"), "must be specified");
            }
            validate_count(requirement, path, errors);
        },
    },
    Rules {
        name: "labelSelector",
        parses: |raw| raw.parse::<LabelSelector>().is_ok(),
        is_understood: |requirement| {
            matches!(requirement.text(&["operator"]), "In" | "NotIn" | "Exists" | "DoesNotExist")
        },
        validate: |requirement, path, errors| {
            validate_count(requirement, path, errors);
            validate_label(requirement, path, errors);
        },
    },
];

/// Validates the selectors of resource attributes. Unknown operators are allowed, because another authorizer may
/// support them.
pub(super) fn validate(attributes: &Value, path: &Path<'_>, errors: &mut Errors) {
    for rules in &RULES {
        let Some(found) = attributes.at(&[rules.name]) else { continue };
        let path = path.child(rules.name);
        let raw = found.text(&["rawSelector"]);
        let requirements = found.items(&["requirements"]);
        let list = path.child("requirements");
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => {
                let why = "may not specified at the same time as requirements";
                errors.invalid(&path.child("rawSelector"), raw, why);
            }
            (true, true) => {
                errors.required(&list, &format!("when {path} is specified, requirements or rawSelector is required"));
            }
            _ => {}
        }
        for (index, requirement) in requirements.iter().enumerate() {
            (rules.validate)(requirement, &list.index(index), errors);
        }
    }
}

/// Returns a message about unsupported selectors; empty if all are supported.
pub(super) fn problem(review: &Value) -> String {
    let problems = RULES.iter().filter_map(|rules| {
        let selector = review.at(&["spec", "resourceAttributes", rules.name])?;
        let requirements = selector.items(&["requirements"]);
        let understood = requirements.iter().filter(|requirement| (rules.is_understood)(requirement)).count();
        let how = match requirements.len() {
            0 if (rules.parses)(selector.text(&["rawSelector"])) => return None,
            all if all > 0 && understood == all => return None,
            _ if understood > 0 => "partially ignored",
            _ => "ignored",
        };
        Some(format!("spec.resourceAttributes.{} {how} due to parse error", rules.name))
    });
    problems.collect::<Vec<_>>().join("; ")
}
