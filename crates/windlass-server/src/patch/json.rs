//! JSON patch, RFC 6902, with the habits of the library that the API server uses: negative indices count from the end,
//! `replace` and `copy` do not mind a missing key, and the first segment of a path is ignored.

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
            // In Go's lenient reading a null operation is an empty one; anything else is no patch.
            Value::Null => &none,
            other => return Err(failed(mismatch(other, "jsonpatch.Operation"))),
        };
        // The answer does not say which operation it was, nor what was wrong with it.
        document.operate(operation).map_err(|failure| match failure {
            Failure::Inapplicable => unprocessable(),
            Failure::TooMuchWork => too_much_work(),
        })?;
    }
    Ok(Decoded { value: document.into_value(), warnings })
}

/// The real server has no such limit, and answers after minutes or not at all.
fn too_much_work() -> Status {
    let message = "Request entity too large: the operations of the JSON patch move too many values";
    Status::failure(413, "RequestEntityTooLarge", message)
}

/// What strict decoding into Go's struct of an operation would find; the warnings about duplicates are there already.
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
