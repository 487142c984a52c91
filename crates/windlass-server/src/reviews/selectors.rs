//! The selectors in reviews. Roles have no selectors, so they don't influence a decision.

use std::borrow::Cow;

use serde_json::Value;
use windlass_api::{FieldSelector, LabelSelector};

use crate::{
    kinds::{validate_count, validate_label},
    object::{Errors, Field, Tree},
};

/// The differences between field selectors and label selectors.
struct Rules {
    name: &'static str,
    parses: fn(&str) -> bool,
    /// Reports whether a valid requirement is supported.
    is_supported: fn(&Value) -> bool,
    validate: fn(&Field<'_>, &mut Errors),
}

const RULES: [Rules; 2] = [
    Rules {
        name: "fieldSelector",
        parses: |raw| raw.parse::<FieldSelector>().is_ok(),
        is_supported: |requirement| {
            matches!(requirement.text(&["operator"]), "In" | "NotIn") && requirement.items(&["values"]).len() == 1
        },
        validate: |requirement, errors| {
            let key = requirement.child("key");
            if key.is_empty() {
                key.required("must be specified", errors);
            }
            validate_count(requirement, errors);
        },
    },
    Rules {
        name: "labelSelector",
        parses: |raw| raw.parse::<LabelSelector>().is_ok(),
        is_supported: |requirement| {
            matches!(requirement.text(&["operator"]), "In" | "NotIn" | "Exists" | "DoesNotExist")
        },
        validate: |requirement, errors| {
            validate_count(requirement, errors);
            validate_label(requirement, errors);
        },
    },
];

/// Validates the selectors of resource attributes. Unknown operators are allowed, because another authorizer may
/// support them.
pub(super) fn validate(attributes: &Field<'_>, errors: &mut Errors) {
    for rules in &RULES {
        let selector = attributes.child(rules.name);
        if !selector.is_set() {
            continue;
        }
        let (raw, requirements) = (selector.child("rawSelector"), selector.child("requirements"));
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => raw.invalid("may not specified at the same time as requirements", errors),
            (true, true) => {
                let path = selector.path();
                let text = format!("when {path} is specified, requirements or rawSelector is required");
                requirements.required(&text, errors);
            }
            _ => {}
        }
        for requirement in requirements.items() {
            (rules.validate)(&requirement, errors);
        }
    }
}

/// Returns the value that the field selector requires of a field, if any.
pub(super) fn required_field<'r>(review: &'r Value, field: &str) -> Option<Cow<'r, str>> {
    let selector = review.at(&["spec", "resourceAttributes", "fieldSelector"])?;
    if let Ok(raw) = selector.text(&["rawSelector"]).parse::<FieldSelector>()
        && let Some(value) = raw.exact(field)
    {
        return Some(Cow::Owned(value.to_owned()));
    }
    selector.items(&["requirements"]).iter().find_map(|requirement| match requirement.items(&["values"]) {
        [value] if requirement.text(&["key"]) == field && requirement.text(&["operator"]) == "In" => {
            value.as_str().map(Cow::Borrowed)
        }
        _ => None,
    })
}

/// Returns a message about unsupported selectors; empty if all are supported.
pub(super) fn problem(review: &Value) -> String {
    let problems = RULES.iter().filter_map(|rules| {
        let selector = review.at(&["spec", "resourceAttributes", rules.name])?;
        let requirements = selector.items(&["requirements"]);
        let supported = requirements.iter().filter(|requirement| (rules.is_supported)(requirement)).count();
        let how = match requirements.len() {
            0 if (rules.parses)(selector.text(&["rawSelector"])) => return None,
            all if all > 0 && supported == all => return None,
            _ if supported > 0 => "partially ignored",
            _ => "ignored",
        };
        Some(format!("spec.resourceAttributes.{} {how} due to parse error", rules.name))
    });
    problems.collect::<Vec<_>>().join("; ")
}
