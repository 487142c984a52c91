//! Generates documents of any kind of the table from a seed: any input that clients may send, not only what Go would
//! encode.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any number is suitable")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use windlass_api::Entropy;

use super::{
    super::base64,
    super::decode::go_float,
    super::types::{self, Kind, Special, Struct, Type},
};

/// The maximum number of times that a struct may contain itself.
const MAX_RECURSION: usize = 2;

/// Texts that are difficult for an encoding.
const TEXTS: &[&str] = &[
    "",
    "a",
    "kebab-case.example.com/x",
    "yes",
    "Null",
    "~",
    "0x10",
    "010",
    "1e3",
    ".inf",
    "-1",
    "123456789012345678901234567890",
    "2001-12-14t21:59:43.10-05:00",
    "12:30:45",
    "- a",
    "a: b",
    "a #b",
    "#",
    "'",
    "\"",
    "\\",
    "&a",
    "*a",
    "!!str",
    "|",
    ">-",
    "%",
    "@",
    "{",
    "[]",
    "?",
    "=",
    "<<",
    " ",
    " a",
    "a ",
    "\n",
    "a\nb",
    "a\n\nb\n",
    "a\n ",
    "\n  a\n b\n\n",
    "\r\n",
    "\t",
    "a\tb",
    "\0",
    "\u{1}\u{1b}\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{feff}",
    "\u{2028}\u{2029}",
    "\u{fffd}\u{fffe}",
    "é日本",
    "\u{1F600}",
    "<&>",
    "a long text that has so many words in it that whoever writes it on lines of eighty letters has to break it: does he?",
];
const QUANTITIES: &[&str] = &[
    "0",
    "1",
    "100m",
    "0.5",
    "1.5Gi",
    "1e3",
    "1E6",
    "-1Ki",
    "1000000n",
    ".5",
    "5.",
    "+3",
    "12345678901234567890",
    "0.0000000001",
];
/// Does not contain Go's zero time: it is encoded as null, which decodes to a nil pointer.
const TIMES: &[&str] = &[
    "2023-11-14T22:13:31Z",
    "2023-11-14T22:13:31.5+02:00",
    "0001-01-01T00:00:01Z",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59Z",
];
const MICRO_TIMES: &[&str] =
    &["2023-11-14T22:13:31.000001Z", "2023-11-14T22:13:31.500000-07:30", "1969-12-31T23:59:59.999999Z"];
const DURATIONS: &[&str] = &["0", "1h2m3.5s", "-1ns", "1.000001s", "100us", "2562047h47m16.854775807s"];
const KEYS: &[&str] = &["a", "b", "10", "é", "a.b/c", "", "yes", "<", "\n"];

/// Generates documents and records the fields that it has set.
pub(super) struct Generator {
    entropy: Entropy,
    /// The probability that a field is set, in tenths.
    density: u64,
    open: BTreeMap<&'static str, usize>,
    pub(super) reached: BTreeSet<(&'static str, &'static str)>,
}

impl Generator {
    pub(super) fn new(seed: u64, density: u64) -> Self {
        Self { entropy: Entropy::seeded(seed), density, open: BTreeMap::new(), reached: BTreeSet::new() }
    }

    /// Generates an object of the struct, without kind and apiVersion, also in nested objects: protobuf does not encode
    /// them there.
    pub(super) fn object(&mut self, shape: &'static Struct) -> Value {
        *self.open.entry(shape.name).or_default() += 1;
        let mut fields = Map::new();
        for field in &shape.fields {
            if field.embedded != ["TypeMeta"]
                && self.entropy.below(10) < self.density
                && let Some(value) = self.value(&field.ty)
            {
                self.reached.insert((shape.name, field.name));
                fields.insert(field.name.to_owned(), value);
            }
        }
        *self.open.entry(shape.name).or_default() -= 1;
        Value::Object(fields)
    }

    /// Generates a value of the type; `None` if it would be nested too deeply.
    fn value(&mut self, ty: &Type) -> Option<Value> {
        Some(match &ty.kind {
            Kind::String => Value::from(self.one_of(TEXTS)),
            Kind::Bool => Value::from(self.entropy.below(2) == 1),
            Kind::Int32 => Value::from(self.integer() as i32),
            Kind::Int64 => Value::from(self.integer()),
            Kind::Uint8 => Value::from(self.integer() as u8),
            Kind::Float64 => self.float(),
            Kind::Bytes => {
                let bytes: Vec<u8> = (0..self.entropy.below(6)).map(|_| self.integer() as u8).collect();
                Value::from(base64::encode(&bytes))
            }
            Kind::Pointer(inner) => self.value(inner)?,
            Kind::Slice(element) => {
                let first = self.value(element)?;
                match self.entropy.below(8) {
                    0 => json!([]),
                    1 => json!([first, null]),
                    2 | 3 => json!([first, self.value(element)]),
                    _ => json!([first]),
                }
            }
            Kind::Map { value: element, .. } => {
                let mut entries = Map::new();
                for _ in 0..self.entropy.below(4) {
                    entries.insert(self.one_of(KEYS).to_owned(), self.value(element)?);
                }
                Value::Object(entries)
            }
            Kind::Struct(inner) => self.nested(inner.get())?,
            Kind::Special(special) => self.special(*special)?,
        })
    }

    fn nested(&mut self, shape: &'static Struct) -> Option<Value> {
        let open = self.open.get(shape.name).copied().unwrap_or_default();
        (open < MAX_RECURSION).then(|| self.object(shape))
    }

    fn special(&mut self, special: Special) -> Option<Value> {
        let one_of_two = self.entropy.below(2) == 1;
        Some(match special {
            Special::Quantity if self.entropy.below(5) == 0 => Value::from(self.entropy.below(5000)),
            Special::Quantity => Value::from(self.one_of(QUANTITIES)),
            Special::IntOrString if one_of_two => Value::from(self.integer() as i32),
            Special::IntOrString => Value::from(self.one_of(TEXTS)),
            Special::Time => Value::from(self.one_of(TIMES)),
            Special::MicroTime => Value::from(self.one_of(MICRO_TIMES)),
            Special::Duration => Value::from(self.one_of(DURATIONS)),
            Special::FieldsV1 | Special::RawExtension | Special::Json => self.anything(3),
            Special::SchemaOrBool if one_of_two => Value::from(self.entropy.below(2) == 1),
            Special::SchemaOrArray if one_of_two => json!([self.nested(types::json_schema().get())?, {}]),
            Special::SchemaOrStringArray if one_of_two => json!([self.one_of(TEXTS), "b"]),
            Special::SchemaOrBool | Special::SchemaOrArray | Special::SchemaOrStringArray => {
                self.nested(types::json_schema().get())?
            }
        })
    }

    /// Generates untyped JSON.
    fn anything(&mut self, depth: u64) -> Value {
        match self.entropy.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => Value::from(self.entropy.below(2) == 1),
            2 => Value::from(self.integer()),
            3 => self.float(),
            4 => Value::from(self.one_of(TEXTS)),
            5 => (0..self.entropy.below(3)).map(|_| self.anything(depth - 1)).collect(),
            _ => {
                let entries =
                    (0..self.entropy.below(4)).map(|_| (self.one_of(KEYS).to_owned(), self.anything(depth - 1)));
                Value::Object(entries.collect())
            }
        }
    }

    fn integer(&mut self) -> i64 {
        match self.entropy.below(6) {
            0 => 0,
            1 => -1,
            2 => i64::MIN,
            3 => i64::MAX,
            _ => self.entropy.next_u64().cast_signed() >> self.entropy.below(64),
        }
    }

    fn float(&mut self) -> Value {
        let number = match self.entropy.below(5) {
            0 => 0.5,
            1 => -3.0,
            2 => 1e21,
            3 => f64::MIN_POSITIVE,
            _ => f64::from_bits(self.entropy.next_u64()),
        };
        // A whole number is an integer, as in decoded YAML. JSON has no NaN and no infinities.
        go_float(number).map_or(json!(1.25), Value::Number)
    }

    fn one_of(&self, all: &[&'static str]) -> &'static str {
        let index = usize::try_from(self.entropy.below(all.len() as u64));
        all[index.expect("an index is below the length")]
    }
}
