//! Results of expressions as JSON.

use serde_json::{Map as Object, Number, Value as Json};

use crate::value::{Key, Value};

/// Returns a value as JSON. Returns `None` for values without a form in JSON, such as types.
pub(crate) fn to_json(value: &Value<'_>) -> Option<Json> {
    Some(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Double(number) => Json::Number(Number::from_f64(*number)?),
        Value::Text(text) => Json::String((**text).to_owned()),
        Value::List(list) => list.iter().map(|item| to_json(&item.ok()?)).collect::<Option<_>>()?,
        Value::Map(map) => {
            let entries = map.keys().into_iter().map(|key| {
                let Some(Key::Text(name)) = key.key() else { return None };
                Some((name, to_json(&value.find(&key).ok()??)?))
            });
            Json::Object(entries.collect::<Option<Object<_, _>>>()?)
        }
        Value::Unknown(json) => (*json).clone(),
        Value::Bytes(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Type(_)
        | Value::Optional(_)
        | Value::Struct(_)
        | Value::Extension(_) => return None,
    })
}
