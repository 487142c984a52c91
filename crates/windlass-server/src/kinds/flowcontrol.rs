//! The group `flowcontrol.apiserver.k8s.io`: priority and fairness of requests.
//!
//! The objects exist because clients list them. This server does not apply them: it has one queue for all requests.

use crate::kinds::prelude::*;

pub(crate) use self::defaults::{levels, schemas};

mod defaults;
mod flow_schema;
mod priority_level_configuration;

pub(super) const KINDS: &[Kind] = &[flow_schema::KIND, priority_level_configuration::KIND];

/// The rules that both kinds share.
const RULES: Rules = Rules { resets: Resets::BARE_STATUS, generation: Generation::Spec, ..Rules::WITH_STATUS };

/// Validates that the spec of a mandatory object equals the one that the server creates.
fn validate_mandatory_spec(object: &Field<'_>, mandatory: &[Value], errors: &mut Errors) {
    let name = object.child("metadata.name").text();
    let Some(mandatory) = mandatory.iter().find(|mandatory| mandatory.text(&["metadata", "name"]) == name) else {
        return;
    };
    let spec = object.child("spec");
    if !same(mandatory.at(&["spec"]), spec.value()) {
        spec.invalid(&format!("spec of '{name}' must equal the fixed value"), errors);
    }
}

/// Validates the conditions of a new status.
fn validate_conditions(object: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let conditions = object.child("status.conditions");
    let mut seen = DuplicateCheck::default();
    for condition in conditions.items() {
        condition.check_unique_by("type", &mut seen, errors);
        condition.child("type").check_not_empty("", errors);
    }
}
