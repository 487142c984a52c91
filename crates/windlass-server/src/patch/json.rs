//! JSON patch, RFC 6902, with the deviations of the library in the API server. Negative indices count from the end,
//! `replace` and `copy` accept a missing key, and the text before the first slash of a path is ignored.

mod document;

use serde_json::{Map, Value};
use windlass_api::{FieldValidation, Status};

use self::document::{Document, Failure};
use super::unprocessable;
use crate::codec::{self, Decoded};

const MAX_OPERATIONS: usize = 10_000;

pub(super) fn apply(body: &[u8], current: &Value, validation: FieldValidation) -> Result<Decoded, Status> {
    let strict = validation != FieldValidation::Ignore;
    let failed = |message: String| {
        Status::bad_request(if strict { format!("error decoding patch: {message}") } else { message })
    };
    let patch = codec::decode_untyped(body, validation).map_err(failed)?;
    let mut warnings = patch.warnings;
    let target = if strict { "[]handlers.jsonPatchOp" } else { "jsonpatch.Patch" };
    let operations = match patch.value {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(failed(mismatch(&other, target))),
    };
    if strict {
        check(&operations, &mut warnings).map_err(failed)?;
    }
    if operations.len() > MAX_OPERATIONS {
        let limit = "The allowed maximum operations in a JSON patch is";
        let message = format!("Request entity too large: {limit} {MAX_OPERATIONS}, got {}", operations.len());
        return Err(Status::failure(413, "RequestEntityTooLarge", message));
    }
    let mut document = Document::new(current);
    for operation in &operations {
        let none = Map::new();
        let operation = match operation {
            Value::Object(operation) => operation,
            // Go's lenient decoder reads a null operation as an empty one; other types are not valid operations.
            Value::Null => &none,
            other => return Err(failed(mismatch(other, "jsonpatch.Operation"))),
        };
        // The real server's error names neither the operation nor the problem.
        document.operate(operation).map_err(|failure| match failure {
            Failure::Inapplicable => unprocessable(),
            Failure::TooMuchWork => work_limit_exceeded(),
        })?;
    }
    Ok(Decoded { value: document.into_value(), warnings })
}

/// The reason why operations cannot be applied.
#[derive(Debug)]
pub(crate) enum OperationError {
    /// A test operation failed.
    TestFailed,
    /// An operation does not fit the object.
    Inapplicable(String),
}

/// Applies operations that an expression has constructed. Returns the changed object, which is not normalized.
pub(crate) fn apply_operations(operations: &[Value], current: &Value) -> Result<Value, OperationError> {
    let inapplicable = |why: &str| OperationError::Inapplicable(why.to_owned());
    if operations.len() > MAX_OPERATIONS {
        return Err(inapplicable("too many operations"));
    }
    let mut document = Document::new(current);
    for operation in operations {
        let operation = operation.as_object().ok_or_else(|| inapplicable("not an operation"))?;
        match document.operate(operation) {
            Ok(()) => {}
            Err(Failure::TooMuchWork) => return Err(inapplicable("the operations move too many values")),
            Err(Failure::Inapplicable) => {
                let explained = document.explain(operation);
                return Err(explained.map_or(OperationError::TestFailed, OperationError::Inapplicable));
            }
        }
    }
    Ok(document.into_value())
}

/// The real server has no such limit: it answers after minutes or not at all.
fn work_limit_exceeded() -> Status {
    let message = "Request entity too large: the operations of the JSON patch move too many values";
    Status::failure(413, "RequestEntityTooLarge", message)
}

/// Checks operations as a strict decoder of Go's struct does. The warnings already contain the duplicate keys.
fn check(operations: &[Value], warnings: &mut Vec<String>) -> Result<(), String> {
    for warning in warnings.iter_mut() {
        *warning = format!("json patch {warning}");
    }
    for (index, operation) in operations.iter().enumerate() {
        let Value::Object(fields) = operation else {
            if operation.is_null() {
                continue;
            }
            return Err(mismatch(operation, "handlers.jsonPatchOp"));
        };
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("value", _) | ("op" | "path" | "from", Value::String(_) | Value::Null) => {}
                ("op" | "path" | "from", other) => {
                    let word = word(other);
                    return Err(format!(
                        "json: cannot unmarshal {word} into Go struct field jsonPatchOp.{name} of type string"
                    ));
                }
                _ => {
                    let path = codec::go_quote(&format!("[{index}].{name}"));
                    warnings.push(format!("json patch unknown field {path}"));
                }
            }
        }
    }
    Ok(())
}

fn mismatch(value: &Value, target: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {target}", word(value))
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
