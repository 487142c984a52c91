//! Reproducible serialization of objects as YAML.

use serde::Serialize;
use serde_json::Value;

/// Serializes one document, with its separator line.
pub(crate) fn document(object: &impl Serialize) -> Result<String, String> {
    let mut value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    if let Some(fields) = value.as_object_mut() {
        // Set by the API server.
        fields.remove("status");
    }
    tidy(&mut value);
    let text = serde_saphyr::to_string(&value).map_err(|error| error.to_string())?;
    Ok(format!("---\n{}\n", text.trim_end()))
}

/// Removes nulls, and writes integers without a fraction.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) => {
            // Floats represent all integers up to this number exactly.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            if let Some(float) =
                number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT)
            {
                #[allow(clippy::cast_possible_truncation, reason = "it has no fraction and is in range")]
                let whole = float as i64;
                *value = Value::from(whole);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_are_omitted() {
        let object =
            serde_json::json!({"kind": "A", "a": null, "b": [{"c": null, "m": 1.0, "f": 0.5}], "status": {"x": 1}});
        assert_eq!(document(&object).unwrap(), "---\nkind: A\nb:\n- m: 1\n  f: 0.5\n");
    }
}
