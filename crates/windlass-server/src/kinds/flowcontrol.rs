//! The group `flowcontrol.apiserver.k8s.io`: priority and fairness of requests.
//!
//! [`crate::flow_control`] applies the objects.

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
        // The real server shows the spec with Go's field names.
        let shown = internal(spec.value().unwrap_or(&Value::Null));
        spec.invalid_as(&shown, &format!("spec of '{name}' must equal the fixed value"), errors);
    }
}

/// The fields of a structure in the order of Go, and their own fields.
type Fields = &'static [(&'static str, Shape)];

/// A field of a structure.
#[derive(Clone, Copy)]
enum Shape {
    /// A value that is shown as it is.
    Plain,
    /// `false` if it is unset.
    Flag,
    Struct(Fields),
    List(Fields),
}

use Shape::{Flag, List, Plain, Struct};

/// The fields of a PriorityLevelConfigurationSpec and of a FlowSchemaSpec. They have no name in common.
const SPEC: [Fields; 2] = [
    &[
        ("type", Plain),
        (
            "limited",
            Struct(&[
                ("nominalConcurrencyShares", Plain),
                (
                    "limitResponse",
                    Struct(&[
                        ("type", Plain),
                        ("queuing", Struct(&[("queues", Plain), ("handSize", Plain), ("queueLengthLimit", Plain)])),
                    ]),
                ),
                ("lendablePercent", Plain),
                ("borrowingLimitPercent", Plain),
            ]),
        ),
        ("exempt", Struct(&[("nominalConcurrencyShares", Plain), ("lendablePercent", Plain)])),
    ],
    &[
        ("priorityLevelConfiguration", Struct(&[("name", Plain)])),
        ("matchingPrecedence", Plain),
        ("distinguisherMethod", Struct(&[("type", Plain)])),
        (
            "rules",
            List(&[
                (
                    "subjects",
                    List(&[
                        ("kind", Plain),
                        ("user", Struct(&[("name", Plain)])),
                        ("group", Struct(&[("name", Plain)])),
                        ("serviceAccount", Struct(&[("namespace", Plain), ("name", Plain)])),
                    ]),
                ),
                (
                    "resourceRules",
                    List(&[
                        ("verbs", Plain),
                        ("apiGroups", Plain),
                        ("resources", Plain),
                        ("clusterScope", Flag),
                        ("namespaces", Plain),
                    ]),
                ),
                ("nonResourceRules", List(&[("verbs", Plain), ("nonResourceURLs", Plain)])),
            ]),
        ),
    ],
];

/// Returns a spec as Go encodes the internal type.
fn internal(spec: &Value) -> Value {
    let [levels, schemas] = SPEC;
    structure(spec, if spec.at(&["type"]).is_some() { levels } else { schemas })
}

fn structure(value: &Value, fields: Fields) -> Value {
    let shown = fields.iter().map(|(name, shape)| {
        let field = value.at(&[name]);
        let shown = match (shape, field) {
            (Flag, None) => false.into(),
            (_, None) => Value::Null,
            (Plain | Flag, Some(field)) => field.clone(),
            (Struct(fields), Some(field)) => structure(field, fields),
            (List(fields), Some(field)) => {
                field.as_array().into_iter().flatten().map(|item| structure(item, fields)).collect()
            }
        };
        let name = match *name {
            "apiGroups" => "APIGroups".to_owned(),
            name => name[..1].to_ascii_uppercase() + &name[1..],
        };
        (name, shown)
    });
    Value::Object(shown.collect())
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
