//! Templates of objects: JSON with `${…}` in its strings.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::expression::{Expression, Variables};

/// An object whose strings can contain `${name}` and `${expression}`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Template {
    Constant(Value),
    /// A string with placeholders.
    Text(Vec<Part>),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Plain(String),
    /// A text variable, or an expression.
    Placeholder(Expression),
}

/// The values of the placeholders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) numbers: Variables,
    pub(crate) texts: BTreeMap<&'static str, String>,
}

impl Template {
    /// Parses the placeholders in a value. The error names the path of the field.
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) if text.contains("${") => Self::Text(parts(text)?),
            Value::Array(items) => {
                let parse = |(index, item)| Self::parse(item).map_err(|error| format!("[{index}]{}", nested(&error)));
                Self::List(items.iter().enumerate().map(parse).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let parse = |(name, field): (&String, &Value)| match Self::parse(field) {
                    Ok(field) => Ok((name.clone(), field)),
                    Err(error) => Err(format!(".{name}{}", nested(&error))),
                };
                Self::Map(fields.iter().map(parse).collect::<Result<_, _>>()?)
            }
            constant => Self::Constant(constant.clone()),
        })
    }

    /// Returns the object. A string that consists of a single placeholder with a number becomes a number.
    pub(crate) fn render(&self, scope: &Scope) -> Result<Value, String> {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Text(parts) => match parts.as_slice() {
                [Part::Placeholder(expression)] => scope.value(expression)?,
                parts => {
                    let texts: Result<Vec<String>, String> = parts.iter().map(|part| part.render(scope)).collect();
                    Value::String(texts?.concat())
                }
            },
            Self::List(items) => Value::Array(items.iter().map(|item| item.render(scope)).collect::<Result<_, _>>()?),
            Self::Map(fields) => {
                let render = |(name, field): &(String, Self)| Ok((name.clone(), field.render(scope)?));
                Value::Object(fields.iter().map(render).collect::<Result<Map<_, _>, String>>()?)
            }
        })
    }
}

impl Part {
    fn render(&self, scope: &Scope) -> Result<String, String> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Placeholder(expression) => Ok(match scope.value(expression)? {
                Value::String(text) => text,
                number => number.to_string(),
            }),
        }
    }
}

impl Scope {
    fn value(&self, expression: &Expression) -> Result<Value, String> {
        let text = expression.to_string();
        if let Some(text) = self.texts.get(text.trim()) {
            return Ok(text.as_str().into());
        }
        let number = expression.evaluate(&self.numbers).map_err(|error| {
            let texts: Vec<&str> = self.texts.keys().copied().collect();
            format!("${{{text}}}: {error}, {}", texts.join(", "))
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "whole numbers of this size")]
        let whole = (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64);
        Ok(whole.map_or_else(|| number.into(), Value::from))
    }
}

/// Separates the path of a nested field from a message.
fn nested(error: &str) -> String {
    if error.starts_with(['.', '[']) { error.to_owned() } else { format!(": {error}") }
}

fn parts(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once("${") {
        let Some((expression, after)) = after.split_once('}') else {
            return Err(format!("{text:?} has no }} after ${{"));
        };
        if !plain.is_empty() {
            parts.push(Part::Plain(plain.to_owned()));
        }
        parts.push(Part::Placeholder(Expression::parse(expression)?));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Plain(rest.to_owned()));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        Scope {
            numbers: [("index".to_owned(), 7.0), ("replicas".to_owned(), 5.0)].into(),
            texts: [("name", "web-7".to_owned())].into(),
        }
    }

    #[test]
    fn placeholders_become_numbers_or_text() {
        let template = json!({
            "replicas": "${replicas}", "half": "${replicas / 2}", "name": "${name}", "volume": ["config-${index % 5}"],
            "plain": true,
        });
        let rendered = Template::parse(&template).unwrap().render(&scope()).unwrap();
        let expected = json!({ "replicas": 5, "half": 2.5, "name": "web-7", "volume": ["config-2"], "plain": true });
        assert_eq!(rendered, expected);
    }

    #[test]
    fn errors_name_the_path_of_the_field() {
        let error = Template::parse(&json!({ "spec": { "items": ["a", "${1 +}"] } })).unwrap_err();
        assert!(error.starts_with(".spec.items[1]: invalid expression \"1 +\""), "{error}");
        assert!(Template::parse(&json!("${name")).unwrap_err().contains("no }"));
        let error = Template::parse(&json!("${nme}")).unwrap().render(&scope()).unwrap_err();
        assert!(error.contains("unknown variable \"nme\"") && error.ends_with("index, replicas, name"), "{error}");
    }
}
