//! The keywords of a schema other than its type, as arguments of `#[schema(…)]`.

use serde_json::{Map, Value};

/// The error for a schema that the arguments cannot express. The schema is then kept as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inexpressible;

/// Keywords whose value is a number, a text or a list of schemas, with their arguments, in output order.
const PLAIN: [(&str, &str, Form); 17] = [
    ("title", "title", Form::Text),
    ("multipleOf", "multiple_of", Form::Number),
    ("minLength", "min_length", Form::Count),
    ("maxLength", "max_length", Form::Count),
    ("pattern", "pattern", Form::Text),
    ("minItems", "min_items", Form::Count),
    ("maxItems", "max_items", Form::Count),
    ("minProperties", "min_properties", Form::Count),
    ("maxProperties", "max_properties", Form::Count),
    ("enum", "enum", Form::List),
    ("allOf", "all_of", Form::List),
    ("anyOf", "any_of", Form::List),
    ("oneOf", "one_of", Form::List),
    ("not", "not", Form::Json),
    ("default", "default", Form::Json),
    ("example", "example", Form::Json),
    ("x-kubernetes-map-type", "map_type", Form::Text),
];

/// Keywords without a value.
const FLAGS: [(&str, &str); 3] = [
    ("nullable", "nullable"),
    ("x-kubernetes-preserve-unknown-fields", "preserve_unknown_fields"),
    ("x-kubernetes-embedded-resource", "embedded_resource"),
];

#[derive(Clone, Copy)]
enum Form {
    Text,
    Number,
    Count,
    Json,
    List,
}

/// Returns the arguments for a schema, except for the keywords in `but`.
pub(crate) fn attribute_args(schema: &Map<String, Value>, but: &[&str]) -> Result<Vec<String>, Inexpressible> {
    let wanted = |key: &str| schema.get(key).filter(|_| !but.contains(&key));
    let mut args = Vec::new();
    if wanted("uniqueItems") == Some(&Value::Bool(true)) {
        return Err(Inexpressible);
    }
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let is_exclusive = wanted(exclusive) == Some(&Value::Bool(true));
        match wanted(bound) {
            Some(number) => {
                let prefix = if is_exclusive { "exclusive_" } else { "" };
                args.push(format!("{prefix}{bound} = {}", float(number)?));
            }
            None if is_exclusive => return Err(Inexpressible),
            None => {}
        }
    }
    for (key, word, form) in PLAIN {
        let Some(value) = wanted(key) else { continue };
        args.extend(match form {
            Form::Text => Some(format!("{word} = {}", text(value.as_str().ok_or(Inexpressible)?))),
            Form::Number => Some(format!("{word} = {}", float(value)?)),
            Form::Count => Some(format!("{word} = {}", value.as_u64().ok_or(Inexpressible)?)),
            Form::Json => Some(format!("{word} = {}", json(value))),
            Form::List => {
                let values = value.as_array().ok_or(Inexpressible)?.iter().map(json).collect::<Vec<_>>();
                match key {
                    "enum" if values.is_empty() => return Err(Inexpressible),
                    _ => (!values.is_empty()).then(|| format!("{word}({})", values.join(", "))),
                }
            }
        });
    }
    for (key, word) in FLAGS {
        if wanted(key) == Some(&Value::Bool(true)) {
            args.push(word.to_owned());
        }
    }
    list_type(schema, &mut args)?;
    if let Some(docs) = wanted("externalDocs") {
        let parts =
            ["url", "description"].iter().filter_map(|key| Some(format!("{key} = {}", text(docs[*key].as_str()?))));
        args.push(format!("external_docs({})", parts.collect::<Vec<_>>().join(", ")));
    }
    for rule in wanted("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        args.push(self::rule(rule)?);
    }
    contradiction(schema)?;
    Ok(args)
}

fn list_type(schema: &Map<String, Value>, args: &mut Vec<String>) -> Result<(), Inexpressible> {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    match (kind, keys.filter(|keys| !keys.is_empty())) {
        (None, None) => {}
        (Some(kind @ ("atomic" | "set")), None) => args.push(format!("list_type = {kind:?}")),
        (Some("map"), Some(keys)) => {
            let keys =
                keys.iter().map(|key| key.as_str().map(text)).collect::<Option<Vec<_>>>().ok_or(Inexpressible)?;
            args.push("list_type = \"map\"".to_owned());
            args.push(format!("map_keys({})", keys.join(", ")));
        }
        _ => return Err(Inexpressible),
    }
    Ok(())
}

/// Returns the argument for a CEL rule.
fn rule(rule: &Value) -> Result<String, Inexpressible> {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let of = |key: &str| rule[key].as_str().filter(|text| !text.is_empty());
    let is_blank = |key: &str| of(key).is_some_and(|text| text.trim().is_empty());
    if of("rule").is_none() || of("reason").is_some_and(|reason| !REASONS.contains(&reason)) {
        return Err(Inexpressible);
    }
    let parts = [
        ("rule", "rule"),
        ("message", "message"),
        ("messageExpression", "message_expression"),
        ("reason", "reason"),
        ("fieldPath", "field_path"),
    ];
    if parts.iter().any(|(key, _)| is_blank(key)) {
        return Err(Inexpressible);
    }
    let mut args =
        parts.iter().filter_map(|(key, word)| Some(format!("{word} = {}", text(of(key)?)))).collect::<Vec<_>>();
    if rule["optionalOldSelf"] == true {
        args.push("optional_old_self".to_owned());
    }
    Ok(format!("rule({})", args.join(", ")))
}

/// Returns an error for contradictory bounds, which the derive rejects.
fn contradiction(schema: &Map<String, Value>) -> Result<(), Inexpressible> {
    let pairs = [
        ("minimum", "maximum"),
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
    ];
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let is_wrong =
        |(low, high): (&str, &str)| matches!((bound(low), bound(high)), (Some(low), Some(high)) if low > high);
    if pairs.into_iter().any(is_wrong) { Err(Inexpressible) } else { Ok(()) }
}

fn float(number: &Value) -> Result<String, Inexpressible> {
    Ok(number.as_f64().ok_or(Inexpressible)?.to_string())
}

/// Formats a text as a Rust literal. Raw if it would need many backslashes.
pub(crate) fn text(text: &str) -> String {
    let is_raw = text.contains(['\\', '"']) && !text.chars().any(char::is_control);
    if !is_raw {
        return format!("{text:?}");
    }
    let mut hashes = String::new();
    while text.contains(&format!("\"{hashes}")) {
        hashes.push('#');
    }
    format!("r{hashes}\"{text}\"{hashes}")
}

/// Formats JSON as an argument of `json!`.
pub(crate) fn json(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        Value::Array(items) => format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{}: {}", text(key), json(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Number(number) => {
            // A literal without a suffix is an `i32`.
            let suffix = match (number.as_i64(), number.as_u64()) {
                (Some(number), _) if i32::try_from(number).is_ok() => "",
                (Some(_), _) => "i64",
                (None, Some(_)) => "u64",
                (None, None) => "",
            };
            format!("{number}{suffix}")
        }
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(schema: Value) -> Result<String, Inexpressible> {
        attribute_args(schema.as_object().unwrap(), &[]).map(|args| args.join(", "))
    }

    #[test]
    fn string_literals_are_escaped() {
        for (string, literal) in
            [("a", "\"a\""), (r"^\d$", "r\"^\\d$\""), ("\"#", "r##\"\"#\"##"), ("a\n\"", r#""a\n\"""#)]
        {
            assert_eq!(text(string), literal);
            assert_eq!(syn::parse_str::<syn::LitStr>(literal).unwrap().value(), string);
        }
    }

    #[test]
    fn numbers_in_json_have_a_type_that_holds_them() {
        assert_eq!(
            json(&serde_json::json!([1, 5_000_000_000_u64, u64::MAX, -1.5])),
            "[1, 5000000000i64, 18446744073709551615u64, -1.5]"
        );
    }

    #[test]
    fn keywords_that_the_derive_rejects_are_omitted() {
        use serde_json::json;
        for schema in [
            json!({"uniqueItems": true}),
            json!({"exclusiveMinimum": true}),
            json!({"minimum": 2, "maximum": 1}),
            json!({"x-kubernetes-list-type": "map"}),
            json!({"x-kubernetes-list-map-keys": ["a"]}),
            json!({"enum": []}),
            json!({"x-kubernetes-validations": [{"rule": " "}]}),
            json!({"x-kubernetes-validations": [{"rule": "true", "reason": "Odd"}]}),
        ] {
            assert_eq!(said(schema.clone()), Err(Inexpressible), "{schema}");
        }
        assert_eq!(said(json!({"maximum": 2.5, "exclusiveMaximum": true})).unwrap(), "exclusive_maximum = 2.5");
    }
}
