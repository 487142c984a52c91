//! Label selector requirements.

use serde_json::Value;
use windlass_api::{Operator, Requirement};

use super::Tree;

/// Parses one of the `matchExpressions`; returns `None` if its operator is unknown.
pub(crate) fn requirement(expression: &Value) -> Option<Requirement> {
    let operator = match expression.text(&["operator"]) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    let values = expression.items(&["values"]).iter().filter_map(Value::as_str);
    Some(Requirement::new(expression.text(&["key"]), operator, values))
}
