//! The conditions that a step waits for.

use std::{fmt, sync::Arc};

use serde_json::Value;
use windlass_cel::{Environment, Expected, LIMIT_PER_CALL, Presence, Program, Schema};

use super::manifest::Document;

/// A condition of an object.
#[derive(Clone)]
pub(super) enum Condition {
    /// The object does not exist.
    Absent,
    /// The object exists and the expression is true.
    Expression { source: String, program: Arc<Program> },
}

impl Condition {
    /// Returns the condition in a document.
    pub(super) fn of(document: &Document) -> Result<Self, String> {
        let fields = ["apiVersion", "kind", "metadata", "condition", "absent"];
        let unknown =
            document.content.as_object().and_then(|content| content.keys().find(|key| !fields.contains(&&***key)));
        if let Some(unknown) = unknown {
            return Err(format!("unknown field {unknown:?}; a wait has metadata, and condition or absent"));
        }
        match (&document.content["condition"], &document.content["absent"]) {
            (Value::String(source), Value::Null) => {
                let environment = Environment::new().with("object", &Schema::any(), Presence::Certain);
                let program =
                    environment.compile(source, Expected::Bool).map_err(|error| format!("condition: {error}"))?;
                Ok(Self::Expression { source: source.clone(), program: Arc::new(program) })
            }
            (Value::Null, Value::Bool(true)) => Ok(Self::Absent),
            _ => Err("a wait needs either a condition in CEL or absent: true".to_owned()),
        }
    }

    /// Returns `Ok` if the condition is met, or the reason why it is not.
    pub(super) fn check(&self, object: Option<&Value>) -> Result<(), String> {
        match (self, object) {
            (Self::Absent, None) => Ok(()),
            (Self::Absent, Some(object)) => match &object["metadata"]["deletionTimestamp"] {
                Value::Null => Err("it exists".to_owned()),
                _ => Err(format!("it is being deleted, with finalizers {}", object["metadata"]["finalizers"])),
            },
            (Self::Expression { .. }, None) => Err("it does not exist".to_owned()),
            (Self::Expression { program, .. }, Some(object)) => {
                match program.condition(&[("object", Some(object))], LIMIT_PER_CALL).result {
                    Ok(true) => Ok(()),
                    Ok(false) => Err("it is false".to_owned()),
                    // A field may appear later.
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Expression { source, .. } => f.write_str(source.trim()),
        }
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::steps::manifest;

    fn condition(fields: &str) -> Result<Condition, String> {
        let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n{fields}\n");
        Condition::of(&manifest::read(&text)?[0])
    }

    #[test]
    fn condition_is_checked() {
        let ready = condition("condition: object.status.ready >= 2").unwrap();
        assert_eq!(ready.check(Some(&json!({"status": {"ready": 2}}))), Ok(()));
        assert_eq!(ready.check(Some(&json!({"status": {"ready": 1}}))), Err("it is false".to_owned()));
        assert_eq!(ready.check(Some(&json!({}))), Err("no such key: status".to_owned()));
        assert_eq!(ready.check(None), Err("it does not exist".to_owned()));
        let absent = condition("absent: true").unwrap();
        assert_eq!(absent.check(None), Ok(()));
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}});
        assert_eq!(absent.check(Some(&deleted)).unwrap_err(), "it is being deleted, with finalizers [\"a/b\"]");
    }

    #[test]
    fn invalid_conditions_are_rejected() {
        let error = |fields: &str| condition(fields).unwrap_err();
        assert!(error("condition: object.status ==").starts_with("condition: ERROR: <input>:1:"));
        assert!(error("condition: subject == 1").contains("undeclared reference to 'subject'"));
        assert!(error("condition: '1'").starts_with("condition: cel expression must evaluate to a bool"));
        let either = "a wait needs either a condition in CEL or absent: true";
        assert_eq!((error(""), error("absent: false")), (either.to_owned(), either.to_owned()));
        assert!(error("conditions: x").starts_with("unknown field \"conditions\""));
    }
}
