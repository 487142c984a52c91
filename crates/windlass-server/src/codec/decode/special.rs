//! Types whose Go code decodes JSON itself.

use serde_json::Value;

use super::{Decoder, Failure, Strictness, TypeError};
use crate::codec::{
    go_numbers, quantity, shape, sort_keys,
    time::{self, Precision},
    types::{self, Special},
};

impl Decoder<'_> {
    /// Decodes a type with custom JSON; its errors end the decoding.
    pub(super) fn special(&mut self, special: Special) -> Result<Option<Value>, Failure> {
        let first = self.peek();
        match special {
            Special::Quantity => {
                let raw = self.raw();
                if raw == b"null" {
                    return Ok(None);
                }
                let text = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).unwrap_or(raw);
                let text = String::from_utf8_lossy(text);
                quantity::canonical(text.trim()).map(|text| Some(Value::from(text))).map_err(Failure::Other)
            }
            Special::IntOrString if first == b'"' => Ok(Some(Value::String(self.string()))),
            Special::IntOrString if first == b'n' => {
                self.skip();
                Ok(None)
            }
            Special::IntOrString => {
                if first == b'-' || first.is_ascii_digit() {
                    let literal = self.literal();
                    return match literal.parse::<i32>() {
                        Ok(number) => Ok(Some(Value::from(number))),
                        Err(_) => Err(Failure::Type(self.type_error(format!("number {literal}"), "int32".into()))),
                    };
                }
                let word = self.word();
                Err(Failure::Type(self.type_error(word.into(), "int32".into())))
            }
            Special::Time | Special::MicroTime => {
                if first == b'n' {
                    self.skip();
                    return Ok(None);
                }
                let precision = if special == Special::Time { Precision::Seconds } else { Precision::Micros };
                let text = self.text()?;
                time::normalize_time(&text, precision).map(|text| text.map(Value::String)).map_err(Failure::Other)
            }
            Special::Duration => {
                let text = if first == b'n' {
                    self.skip();
                    String::new()
                } else {
                    self.text()?
                };
                time::normalize_duration(&text).map(|text| Some(Value::String(text))).map_err(Failure::Other)
            }
            Special::FieldsV1 | Special::RawExtension => {
                let value = Self::untyped(self.raw());
                Ok(if value.is_null() { None } else { Some(value) })
            }
            Special::Json => {
                let mut value = Self::untyped(self.raw());
                go_numbers(&mut value);
                sort_keys(&mut value);
                Ok(if value.is_null() { None } else { Some(value) })
            }
            Special::SchemaOrBool => match first {
                b'{' => self.schema().map(Some),
                b't' | b'f' => {
                    self.skip();
                    Ok(Some(Value::Bool(first == b't')))
                }
                _ => Err(Failure::Other("boolean or JSON schema expected".into())),
            },
            Special::SchemaOrArray | Special::SchemaOrStringArray => match first {
                b'{' => self.schema().map(Some),
                b'[' => {
                    let of_schemas = special == Special::SchemaOrArray;
                    let raw = self.raw();
                    let mut inner = Decoder::new(raw, Strictness::Lenient);
                    let items = if of_schemas { inner.schemas() } else { Ok(inner.strings()) };
                    let items = self.nested(inner.saved, items)?;
                    Ok(if items.is_empty() { None } else { Some(Value::Array(items)) })
                }
                _ => {
                    self.skip();
                    Ok(None)
                }
            },
        }
    }

    /// Decodes a schema inside of a union. It is decoded separately, so its unknown fields are not reported.
    fn schema(&mut self) -> Result<Value, Failure> {
        let mut inner = Decoder::new(self.raw(), Strictness::Lenient);
        let values = inner.root(types::json_schema());
        let values = self.nested(inner.saved, values)?;
        Ok(shape::object(types::json_schema().get(), values))
    }

    fn schemas(&mut self) -> Result<Vec<Value>, Failure> {
        let shape = types::json_schema().get();
        let mut items = Vec::new();
        self.open();
        while self.more() {
            if self.peek() == b'{' {
                let values = self.fields(shape)?;
                items.push(shape::object(shape, values));
            } else {
                if self.peek() != b'n' {
                    let word = self.word();
                    let error = self.type_error(word.into(), types::json_schema().go_name().into());
                    self.record_failure(Failure::Type(error));
                }
                self.skip();
                items.push(shape::zero_struct(shape));
            }
        }
        Ok(items)
    }

    fn strings(&mut self) -> Vec<Value> {
        let mut items = Vec::new();
        self.open();
        while self.more() {
            match self.peek() {
                b'"' => items.push(Value::String(self.string())),
                first => {
                    if first != b'n' {
                        let word = self.word();
                        let error = self.type_error(word.into(), "string".into());
                        self.record_failure(Failure::Type(error));
                    }
                    self.skip();
                    items.push(Value::from(""));
                }
            }
        }
        items
    }

    /// Returns the result of a nested decoder; its errors get the struct and field of this decoder as a prefix.
    fn nested<T>(&self, saved: Option<Failure>, result: Result<T, Failure>) -> Result<T, Failure> {
        let failure = match (result, saved) {
            (Ok(value), None) => return Ok(value),
            (Err(failure), _) | (Ok(_), Some(failure)) => failure,
        };
        Err(match failure {
            Failure::Type(error) if !self.fields.is_empty() => {
                let mut field = self.fields.join(".");
                if !error.field.is_empty() {
                    field = format!("{field}.{}", error.field);
                }
                Failure::Type(TypeError { owner: self.owner, field, ..error })
            }
            other => other,
        })
    }

    /// Decodes a string that the caller parses further.
    fn text(&mut self) -> Result<String, Failure> {
        if self.peek() == b'"' {
            return Ok(self.string());
        }
        let word = match self.peek() {
            b'-' | b'0'..=b'9' => "number",
            _ => self.word(),
        };
        Err(Failure::Type(self.type_error(word.into(), "string".into())))
    }
}
