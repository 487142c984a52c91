//! Errors of fields, as kube-apiserver prints them.

use windlass_api::Cause;

/// Returns the error for an invalid value. `shown` is the printed value.
pub(crate) fn invalid(field: &str, shown: &str, detail: &str) -> Cause {
    let message = format!("Invalid value: {shown}: {detail}");
    Cause { reason: "FieldValueInvalid".to_owned(), message, field: field.to_owned() }
}

/// Quotes a text as Go does, as far as texts in schemas need it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
