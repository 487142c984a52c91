//! The results of expressions that construct objects and patches, as JSON.

use serde_json::{Map as JsonMap, Number, Value as Json};

use crate::{
    meter::Meter,
    value::{Key, Map, Struct, Value},
};

/// Returns a constructed object as JSON.
pub(crate) fn object(value: &Value<'_>, meter: &Meter) -> Result<Json, String> {
    let Value::Struct(object) = value else {
        return Err(format!("unsupported return type from ApplyConfiguration expression: {}", value.type_name()));
    };
    check_names(object)?;
    to_json(value, meter)
}

/// Returns the operations of a constructed JSON patch.
pub(crate) fn patch(value: &Value<'_>, meter: &Meter) -> Result<Json, String> {
    let Value::List(operations) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut patch = Vec::new();
    for operation in operations.iter() {
        let Ok(Value::Struct(operation)) = operation else {
            return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_owned());
        };
        let text = |name: &str| match operation.fields.get(name) {
            Some(Value::Text(text)) => (**text).to_owned(),
            _ => String::new(),
        };
        let mut fields = JsonMap::new();
        fields.insert("op".to_owned(), text("op").into());
        fields.insert("path".to_owned(), text("path").into());
        let from = text("from");
        if !from.is_empty() {
            fields.insert("from".to_owned(), from.into());
        }
        if let Some(value) = operation.fields.get("value") {
            if let Value::Struct(object) = value {
                check_names(object)?;
            }
            let why = "JSONPath valueExpression evaluated to a type that could not marshal to JSON";
            fields.insert("value".to_owned(), to_json(value, meter).map_err(|error| format!("{why}: {error}"))?);
        }
        patch.push(Json::Object(fields));
    }
    Ok(Json::Array(patch))
}

/// Checks that the name of each type in an object is the path of its field.
fn check_names(object: &Struct<'_>) -> Result<(), String> {
    let mut problems = Vec::new();
    check_object(object, object.name, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", problems.join("\n"))) }
}

fn check_object(object: &Struct<'_>, path: &str, problems: &mut Vec<String>) {
    if object.name != path {
        let name = object.name;
        let problem = format!(
            "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
        );
        problems.push(problem);
    }
    for (name, value) in &object.fields {
        check_value(value, &format!("{path}.{name}"), problems);
    }
}

fn check_value(value: &Value<'_>, path: &str, problems: &mut Vec<String>) {
    match value {
        Value::Struct(object) => check_object(object, path, problems),
        Value::List(list) if list.is_constructed() => {
            for item in list.iter().filter_map(Result::ok) {
                check_value(&item, path, problems);
            }
        }
        Value::Map(Map::Owned(entries)) => {
            for value in entries.values() {
                check_value(value, path, problems);
            }
        }
        _ => {}
    }
}

fn to_json(value: &Value<'_>, meter: &Meter) -> Result<Json, String> {
    meter.work(1).map_err(|fault| fault.to_string())?;
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Double(number) => Json::Number(Number::from_f64(*number).ok_or_else(|| unsupported(value))?),
        Value::Text(text) => {
            meter.work(text.len() as u64 / 64).map_err(|fault| fault.to_string())?;
            (**text).into()
        }
        Value::Bytes(bytes) => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(bytes).into()
        }
        Value::Timestamp(time) => time.to_string().into(),
        Value::List(list) => {
            let items = list.iter().map(|item| to_json(&item.map_err(|fault| fault.to_string())?, meter));
            Json::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let mut fields = JsonMap::new();
            for key in map.names() {
                let Some(Key::Text(name)) = key.key() else {
                    return Err(format!("map key of type {} is not a string", key.type_name()));
                };
                let entry = value.find(&key).map_err(|fault| fault.to_string())?.unwrap_or(Value::Null);
                fields.insert(name, to_json(&entry, meter)?);
            }
            Json::Object(fields)
        }
        Value::Struct(object) => {
            let mut fields = JsonMap::new();
            for (name, value) in &object.fields {
                fields.insert((*name).to_owned(), to_json(value, meter)?);
            }
            Json::Object(fields)
        }
        Value::Unknown(json) => (*json).clone(),
        Value::Duration(_) | Value::Type(_) | Value::Optional(_) | Value::Extension(_) => {
            return Err(unsupported(value));
        }
    })
}

fn unsupported(value: &Value<'_>) -> String {
    format!("unsupported type: {}", value.type_name())
}
