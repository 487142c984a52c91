//! `ConfigMap`, and the validation of data that it shares with `Secret`.

use crate::kinds::prelude::*;

pub(super) const KIND: Kind = Kind {
    name: "ConfigMap",
    rules: Rules { changes_first: true, ..Rules::COMMON },
    validate,
    validate_update: |new, old, errors| validate_immutable(&["data", "binaryData"], new, old, errors),
    ..BASE
};

/// The maximum size of a config map's or secret's data, in bytes.
pub(super) const MAX_SIZE: usize = 1 << 20;

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let (data, binary_data) = (object.child("data"), object.child("binaryData"));
    let mut size = 0;
    for (key, value) in data.entries() {
        errors.invalid_each(value.path(), key, config_key(key));
        if binary_data.key(key).is_set() {
            value.invalid_as(key, "duplicate of key present in binaryData", errors);
        }
        size += value.text().len();
    }
    size += validate_binary_data(&binary_data, errors);
    if size > MAX_SIZE {
        // The error concerns the whole object.
        errors.too_long(&Path::new("[]"), MAX_SIZE);
    }
}

/// Validates the keys of data in base64. Returns the decoded size of the values.
pub(super) fn validate_binary_data(data: &Field<'_>, errors: &mut Errors) -> usize {
    let mut size = 0;
    for (key, value) in data.entries() {
        errors.invalid_each(value.path(), key, config_key(key));
        size += decoded_len(value.text());
    }
    size
}

/// Validates that fields do not change if the old object is immutable.
pub(super) fn validate_immutable(names: &[&str], new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    const IMMUTABLE: &str = "field is immutable when `immutable` is set";
    if !old.child("immutable").flag() {
        return;
    }
    let immutable = new.child("immutable");
    if !immutable.flag() {
        immutable.forbidden(IMMUTABLE, errors);
    }
    for name in names {
        let field = new.child(name);
        if field.value() != old.child(name).value() {
            field.forbidden(IMMUTABLE, errors);
        }
    }
}

/// Returns the number of bytes that canonical base64 decodes to.
fn decoded_len(text: &str) -> usize {
    let padded = text.len() / 4 * 3;
    padded - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(padded)
}
