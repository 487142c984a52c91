//! Untyped numbers in Go's form. Go decodes each number as a 64-bit integer or else as a float, and encodes whole
//! floats as integers.

use serde_json::{Number, Value};

use super::decode::go_float;

/// Converts numbers to the form that they have after Go has decoded and encoded them.
pub(crate) fn go_numbers(value: &mut Value) {
    each_number(value, |number| {
        float_large(number);
        whole(number);
    });
}

/// Converts numbers to the form that they have after Go has decoded them.
pub(crate) fn float_large_numbers(value: &mut Value) {
    each_number(value, float_large);
}

/// Converts whole floats to integers, as an encoder with unsigned integers does.
pub(super) fn whole_numbers(value: &mut Value) {
    each_number(value, whole);
}

fn each_number(value: &mut Value, change: fn(&mut Number)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_number(item, change)),
        Value::Object(entries) => entries.values_mut().for_each(|value| each_number(value, change)),
        Value::Number(number) => change(number),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Converts an integer that does not fit into a signed 64-bit integer to a float.
fn float_large(number: &mut Number) {
    let large = if number.is_i64() { None } else { number.as_u64() };
    #[expect(clippy::cast_precision_loss, reason = "what Go does too")]
    if let Some(float) = large.and_then(|large| Number::from_f64(large as f64)) {
        *number = float;
    }
}

fn whole(number: &mut Number) {
    if number.is_f64()
        && let Some(written) = number.as_f64().and_then(go_float)
    {
        *number = written;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_integers_become_floats_and_whole_floats_integers() {
        let numbers = || json!({"a": [1, -1, 2.0, 2.5, u64::MAX, {"b": 3.0}]});
        let large = 18_446_744_073_709_551_615_f64;
        for (change, expected) in [
            (go_numbers as fn(&mut Value), json!({"a": [1, -1, 2, 2.5, large, {"b": 3}]})),
            (float_large_numbers, json!({"a": [1, -1, 2.0, 2.5, large, {"b": 3.0}]})),
            (whole_numbers, json!({"a": [1, -1, 2, 2.5, u64::MAX, {"b": 3}]})),
        ] {
            let mut value = numbers();
            change(&mut value);
            assert_eq!(value, expected);
        }
    }
}
