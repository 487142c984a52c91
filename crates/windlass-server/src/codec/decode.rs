//! A decoder from JSON to the structs of the type table. It follows Kubernetes' fork of Go's encoding/json: the
//! accepted input, the ignored input, and the reported error are the same.
//!
//! The text must have passed `json::check` or come from this server; that also bounds the recursion. If a key is
//! repeated, Go decodes the second value into the first one: structs and maps are merged.

mod special;
mod text;

use std::{borrow::Cow, fmt::Write};

use serde_json::{Map, Number, Value};

use super::{
    MAX_ELEMENTS, base64,
    quote::quote,
    shape,
    types::{Kind, Special, Struct, StructRef, Type},
};

/// The maximum number of strict errors; the same as in Go.
const MAX_STRICT_ERRORS: usize = 100;

/// The maximum number of merges of repeated structs in a document; after that the last struct wins. Each merge decodes
/// all earlier occurrences again.
const MAX_MERGES: usize = 8;

/// An error that ends the decoding. Errors that do not end it are in `Decoder::saved`.
#[derive(Debug)]
enum Failure {
    Type(TypeError),
    Other(String),
}

/// Go's `UnmarshalTypeError`.
#[derive(Debug, Clone)]
struct TypeError {
    value: String,
    owner: &'static str,
    /// The dotted JSON path from the root struct.
    field: String,
    ty: String,
}

impl std::fmt::Display for TypeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "json: cannot unmarshal {} into Go ", self.value)?;
        if self.owner.is_empty() && self.field.is_empty() {
            write!(f, "value of type {}", self.ty)
        } else {
            write!(f, "struct field {}.{} of type {}", self.owner, self.field, self.ty)
        }
    }
}

/// The handling of unknown and duplicate fields: ignored or collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    Lenient,
    Strict,
}

/// The root struct of a document and its strict errors.
pub(super) struct Root {
    /// The values of the struct's fields; `None` is the Go zero value.
    pub(super) values: Vec<Option<Value>>,
    /// The strict errors, `unknown field "a.b"` or `duplicate field "c"`, in order of appearance.
    pub(super) strict_errors: Vec<String>,
}

/// Decodes a document into the struct. The error is Go's message.
pub(super) fn decode(data: &[u8], target: StructRef, strictness: Strictness) -> Result<Root, String> {
    let mut decoder = Decoder::new(data, strictness);
    let values = decoder.root(target).map_err(|failure| failure.to_string())?;
    match decoder.saved {
        Some(error) => Err(error.to_string()),
        None => Ok(Root { values, strict_errors: decoder.strict_errors }),
    }
}

/// Checks that a complete document is a value of a type that decodes JSON itself. The error is Go's message.
pub(super) fn check_special(data: &[u8], special: Special) -> Result<(), String> {
    let mut decoder = Decoder::new(data, Strictness::Lenient);
    decoder.special(special).map_err(|failure| failure.to_string())?;
    decoder.saved.map_or(Ok(()), |error| Err(error.to_string()))
}

/// Decodes a document without a struct. Duplicate keys are reported, and the last value wins.
pub(super) fn decode_any(data: &[u8], strictness: Strictness) -> Result<(Value, Vec<String>), String> {
    let mut decoder = Decoder::new(data, strictness);
    let value = decoder.any();
    match decoder.saved {
        Some(error) => Err(error.to_string()),
        None => Ok((value, decoder.strict_errors)),
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Type(error) => error.fmt(f),
            Self::Other(message) => f.write_str(message),
        }
    }
}

struct Decoder<'a> {
    data: &'a [u8],
    at: usize,
    strictness: Strictness,
    /// The first error that does not end the decoding.
    saved: Option<Failure>,
    strict_errors: Vec<String>,
    /// The path of the current value with indices and map keys, for strict errors; empty in lenient mode.
    path: String,
    /// The struct and the dotted field path for type errors, without indices and map keys.
    owner: &'static str,
    fields: Vec<&'static str>,
    merges: usize,
    elements: usize,
}

impl<'a> Decoder<'a> {
    fn new(data: &'a [u8], strictness: Strictness) -> Self {
        Self {
            data,
            at: 0,
            strictness,
            saved: None,
            strict_errors: Vec::new(),
            path: String::new(),
            owner: "",
            fields: Vec::new(),
            merges: 0,
            elements: 0,
        }
    }

    fn root(&mut self, target: StructRef) -> Result<Vec<Option<Value>>, Failure> {
        let shape = target.get();
        match self.peek() {
            b'{' => self.fields(shape),
            b'n' => Ok(vec![None; shape.fields.len()]),
            _ => {
                let word = self.word();
                self.record_failure(Failure::Type(TypeError {
                    value: word.into(),
                    owner: "",
                    field: String::new(),
                    ty: target.go_name().into(),
                }));
                Ok(Vec::new())
            }
        }
    }

    /// Decodes a value of this type; `None` is the zero value.
    fn value(&mut self, ty: &Type) -> Result<Option<Value>, Failure> {
        let first = self.peek();
        match &ty.kind {
            Kind::Pointer(inner) => {
                if first == b'n' {
                    self.skip();
                    return Ok(None);
                }
                return self.value(inner).map(|value| Some(value.unwrap_or_else(|| shape::zero(inner))));
            }
            Kind::Special(special) => return self.special(*special),
            _ if first == b'n' => {
                self.skip();
                return Ok(None);
            }
            _ => {}
        }
        Ok(match (&ty.kind, first) {
            (Kind::String, b'"') => Some(Value::String(self.string())),
            (Kind::Bool, b't' | b'f') => {
                self.skip();
                Some(Value::Bool(first == b't'))
            }
            (Kind::Int32 | Kind::Int64 | Kind::Uint8 | Kind::Float64, b'-' | b'0'..=b'9') => self.number(ty),
            (Kind::Bytes, b'"') => {
                let text = self.string();
                match base64::normalize(&text) {
                    Ok(text) => Some(Value::String(text)),
                    Err(message) => {
                        self.record_failure(Failure::Other(message));
                        None
                    }
                }
            }
            (Kind::Bytes, b'[') => Some(Value::String(base64::encode(&self.octets()))),
            (Kind::Slice(element), b'[') => Some(self.array(element)?),
            (Kind::Map { value, .. }, b'{') => Some(self.map(value)?),
            (Kind::Struct(inner), b'{') => {
                let inner = inner.get();
                let values = self.fields(inner)?;
                Some(shape::object(inner, values))
            }
            _ => {
                let word = self.word();
                let error = self.type_error(word.into(), ty.go_name());
                self.record_failure(Failure::Type(error));
                self.skip();
                None
            }
        })
    }

    fn fields(&mut self, shape: &'static Struct) -> Result<Vec<Option<Value>>, Failure> {
        let mut values = vec![None; shape.fields.len()];
        let mut seen = 0u128;
        let mut next = 0;
        // The texts of the struct fields, in case they are repeated.
        let mut texts: Vec<(usize, Cow<'_, [u8]>)> = Vec::new();
        let (owner, depth, path) = (self.owner, self.fields.len(), self.path.len());
        self.open();
        while let Some(key) = self.key() {
            let Some(index) = shape.position(&key, next) else {
                self.strict_error("unknown", &key);
                self.skip();
                continue;
            };
            next = index + 1;
            let field = &shape.fields[index];
            let again = seen & 1 << index != 0;
            if again {
                self.strict_error("duplicate", &key);
            }
            seen |= 1 << index;
            self.owner = shape.name;
            self.fields.extend_from_slice(&field.embedded);
            self.fields.push(field.name);
            self.push_key(field.name);
            let is_null = self.peek() == b'n';
            let start = self.at;
            let mut value = self.value(&field.ty)?;
            if field.ty.as_struct().is_some() && !is_null {
                let text = Cow::Borrowed(&self.data[start..self.at]);
                match texts.iter_mut().find(|(earlier, _)| *earlier == index) {
                    Some((_, earlier)) if self.merges < MAX_MERGES => {
                        *earlier = Cow::Owned(join(earlier, &text));
                        value = self.merged(earlier, &field.ty)?;
                    }
                    Some(_) => {}
                    None => texts.push((index, text)),
                }
            }
            let slot = &mut values[index];
            match (&field.ty.kind, value, slot) {
                (Kind::Map { .. }, Some(Value::Object(later)), Some(Value::Object(earlier))) => earlier.extend(later),
                (
                    Kind::Pointer(_) | Kind::Slice(_) | Kind::Map { .. } | Kind::Bytes | Kind::Special(_),
                    value,
                    slot,
                ) => {
                    *slot = value;
                }
                // For other types, null keeps the previous value.
                (_, value, slot) => {
                    if !is_null {
                        *slot = value;
                    }
                }
            }
            self.owner = owner;
            self.fields.truncate(depth);
            self.path.truncate(path);
        }
        Ok(values)
    }

    /// Decodes the combined text of two occurrences of the same struct.
    fn merged(&mut self, text: &[u8], ty: &Type) -> Result<Option<Value>, Failure> {
        self.merges += 1;
        let mut inner = Decoder::new(text, Strictness::Lenient);
        (inner.owner, inner.merges) = (self.owner, self.merges);
        inner.fields.clone_from(&self.fields);
        let value = inner.value(ty)?;
        self.merges = inner.merges;
        if let Some(failure) = inner.saved {
            self.record_failure(failure);
        }
        Ok(value)
    }

    fn array(&mut self, element: &Type) -> Result<Value, Failure> {
        let mut items = Vec::new();
        let path = self.path.len();
        self.open();
        while self.more() {
            self.count_element()?;
            self.push_index(items.len());
            let item = self.value(element)?;
            items.push(item.unwrap_or_else(|| shape::zero(element)));
            self.path.truncate(path);
        }
        Ok(Value::Array(items))
    }

    /// Decodes a map. Go encodes maps with sorted keys.
    fn map(&mut self, value: &Type) -> Result<Value, Failure> {
        let mut entries = Map::new();
        let path = self.path.len();
        self.open();
        while let Some(key) = self.key() {
            if entries.contains_key(&key) {
                self.strict_error("duplicate", &key);
            }
            self.count_element()?;
            self.push_key(&key);
            let entry = self.value(value)?;
            entries.insert(key, entry.unwrap_or_else(|| shape::zero(value)));
            self.path.truncate(path);
        }
        entries.sort_keys();
        Ok(Value::Object(entries))
    }

    fn number(&mut self, ty: &Type) -> Option<Value> {
        let literal = self.literal();
        let number = match ty.kind {
            Kind::Int32 => literal.parse::<i32>().ok().map(Number::from),
            Kind::Int64 => literal.parse::<i64>().ok().map(Number::from),
            Kind::Uint8 => literal.parse::<u8>().ok().map(Number::from),
            _ => literal.parse::<f64>().ok().and_then(go_float),
        };
        if number.is_none() {
            let error = self.type_error(format!("number {literal}"), ty.go_name());
            self.record_failure(Failure::Type(error));
        }
        number.map(Value::Number)
    }

    /// Decodes an array of numbers as a `[]byte`.
    fn octets(&mut self) -> Vec<u8> {
        let mut octets = Vec::new();
        self.open();
        while self.more() {
            let first = self.peek();
            let literal = if first == b'-' || first.is_ascii_digit() { Some(self.literal()) } else { None };
            match literal.map(str::parse) {
                Some(Ok(octet)) => octets.push(octet),
                _ if first == b'n' => {
                    self.skip();
                    octets.push(0);
                }
                failed => {
                    let value = literal.filter(|_| failed.is_some()).map(|text| format!("number {text}"));
                    let value = value.unwrap_or_else(|| self.word().into());
                    let error = self.type_error(value, "uint8".into());
                    self.record_failure(Failure::Type(error));
                    if failed.is_none() {
                        self.skip();
                    }
                }
            }
        }
        octets
    }

    /// Decodes an untyped value. Duplicate keys are reported, and the last value wins.
    fn any(&mut self) -> Value {
        match self.peek() {
            b'"' => Value::String(self.string()),
            b'{' => {
                let mut entries = Map::new();
                let path = self.path.len();
                self.open();
                while let Some(key) = self.key() {
                    if entries.contains_key(&key) {
                        self.strict_error("duplicate", &key);
                    }
                    self.push_key(&key);
                    let value = self.any();
                    entries.insert(key, value);
                    self.path.truncate(path);
                }
                Value::Object(entries)
            }
            b'[' => {
                let mut items = Vec::new();
                let path = self.path.len();
                self.open();
                while self.more() {
                    self.push_index(items.len());
                    items.push(self.any());
                    self.path.truncate(path);
                }
                Value::Array(items)
            }
            first @ (b't' | b'f') => {
                self.skip();
                Value::Bool(first == b't')
            }
            b'-' | b'0'..=b'9' => {
                let literal = self.literal();
                if let Ok(number) = literal.parse::<i64>() {
                    return Value::from(number);
                }
                if let Ok(number) = literal.parse::<u64>() {
                    return Value::from(number);
                }
                let number = literal.parse::<f64>().ok().filter(|number| number.is_finite()).and_then(Number::from_f64);
                if number.is_none() {
                    let error = self.type_error(format!("number {literal}"), "float64".into());
                    self.record_failure(Failure::Type(error));
                }
                number.map_or(Value::Null, Value::Number)
            }
            _ => {
                self.skip();
                Value::Null
            }
        }
    }

    fn untyped(raw: &[u8]) -> Value {
        Decoder::new(raw, Strictness::Lenient).any()
    }

    /// Bounds the decoded size of a small text: three bytes may decode to a struct with many fields that are always
    /// encoded.
    fn count_element(&mut self) -> Result<(), Failure> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(Failure::Other(format!("more than {MAX_ELEMENTS} elements")));
        }
        Ok(())
    }

    fn record_failure(&mut self, failure: Failure) {
        self.saved.get_or_insert(failure);
    }

    fn type_error(&self, value: String, ty: String) -> TypeError {
        TypeError { value, owner: self.owner, field: self.fields.join("."), ty }
    }

    fn strict_error(&mut self, what: &str, key: &str) {
        if self.strictness == Strictness::Lenient || self.strict_errors.len() >= MAX_STRICT_ERRORS {
            return;
        }
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        let error = format!("{what} field {}", quote(&path));
        if !self.strict_errors.contains(&error) {
            self.strict_errors.push(error);
        }
    }

    fn push_key(&mut self, key: &str) {
        if self.strictness == Strictness::Strict {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(key);
        }
    }

    fn push_index(&mut self, index: usize) {
        if self.strictness == Strictness::Strict {
            _ = write!(self.path, "[{index}]");
        }
    }

    /// Returns Go's word for the next value, for type errors.
    fn word(&mut self) -> &'static str {
        match self.peek() {
            b'"' => "string",
            b'{' => "object",
            b'[' => "array",
            b't' | b'f' => "bool",
            _ => "number",
        }
    }
}

/// Combines the members of two objects into one object.
fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    let members = |text: &'_ [u8]| -> Option<Vec<u8>> {
        let inside = text.trim_ascii().strip_prefix(b"{")?.strip_suffix(b"}")?.trim_ascii();
        (!inside.is_empty()).then(|| inside.to_vec())
    };
    let members: Vec<Vec<u8>> = [members(first), members(second)].into_iter().flatten().collect();
    [b"{".as_slice(), &members.join(&b','), b"}"].concat()
}

/// Formats a float as Go does: without a fraction if it is a whole number.
pub(super) fn go_float(number: f64) -> Option<Number> {
    if number.fract() == 0.0 && number.abs() < 1e21 {
        // The number in the form that it has after encoding and decoding; zero loses its sign.
        return (number + 0.0).to_string().parse().ok();
    }
    Number::from_f64(number)
}
