//! What of the selectors in a review cannot be understood. They make no difference to roles, which know no selectors.

use serde_json::Value;
use windlass_api::{FieldSelector, LabelSelector};

use crate::registry::Tree;

/// Whether one requirement can be understood.
type Sound = fn(&Value) -> bool;

/// In words; empty when all is understood.
pub(super) fn problem(review: &Value) -> String {
    let selectors: [(&str, fn(&str) -> bool, Sound); 2] = [
        (
            "fieldSelector",
            |raw| raw.parse::<FieldSelector>().is_ok(),
            |requirement| {
                matches!(requirement.text(&["operator"]), "In" | "NotIn") && requirement.items(&["values"]).len() == 1
            },
        ),
        (
            "labelSelector",
            |raw| raw.parse::<LabelSelector>().is_ok(),
            |requirement| {
                let given = !requirement.items(&["values"]).is_empty();
                match requirement.text(&["operator"]) {
                    "In" | "NotIn" => given,
                    "Exists" | "DoesNotExist" => !given,
                    _ => false,
                }
            },
        ),
    ];
    let problems = selectors.into_iter().filter_map(|(name, parses, is_sound)| {
        let selector = review.at(&["spec", "resourceAttributes", name])?;
        let requirements = selector.items(&["requirements"]);
        let sound = requirements.iter().filter(|requirement| is_sound(requirement)).count();
        let how = match requirements.len() {
            0 if parses(selector.text(&["rawSelector"])) => return None,
            all if all > 0 && sound == all => return None,
            _ if sound > 0 => "partially ignored",
            _ => "ignored",
        };
        Some(format!("spec.resourceAttributes.{name} {how} due to parse error"))
    });
    problems.collect::<Vec<_>>().join("; ")
}
