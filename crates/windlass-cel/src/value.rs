//! The values of an evaluation. Values from the object are views of it.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeMap, rc::Rc};

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::Value as Json;
use windlass_api::parse_duration;

use crate::{
    extension::ExtensionValue,
    fault::EvalFault,
    meter::Meter,
    schema::{Format, ListType, Schema, Shape},
};

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'v>),
    Bytes(Rc<[u8]>),
    List(List<'v>),
    Map(Map<'v>),
    /// An object that the expression constructed.
    Struct(Rc<Struct<'v>>),
    Timestamp(Timestamp),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A type by its name.
    Type(&'static str),
    Optional(Option<Rc<Self>>),
    Extension(Rc<ExtensionValue>),
    /// A part that the schema preserves without declaring it. It can only be compared.
    Unknown(&'v Json),
}

/// A constructed object.
#[derive(Clone, Debug)]
pub(crate) struct Struct<'v> {
    /// The name of the type: `Object.spec`, `JSONPatch`.
    pub(crate) name: &'v str,
    pub(crate) fields: BTreeMap<&'v str, Value<'v>>,
}

/// A text, borrowed from the object or owned.
#[derive(Clone, Debug)]
pub(crate) enum Text<'v> {
    Borrowed(&'v str),
    Owned(Rc<str>),
}

#[derive(Clone, Debug)]
pub(crate) struct List<'v> {
    items: Items<'v>,
    /// The list type, which determines equality and sums.
    kind: &'v ListType,
}

#[derive(Clone, Debug)]
enum Items<'v> {
    Json(&'v [Json], &'v Schema),
    Owned(Rc<Vec<Value<'v>>>),
    /// A lazy concatenation with its length. Concatenating large lists costs nothing.
    Sum(Rc<(List<'v>, List<'v>)>, usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Map<'v> {
    Json(&'v serde_json::Map<String, Json>, &'v Schema),
    Owned(Rc<BTreeMap<Key, Value<'v>>>),
}

/// The key of a map. All integers are of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Number(i128),
    Text(String),
}

static ATOMIC: ListType = ListType::Atomic;

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Text::Owned(text.into()))
    }
}

/// The faults that name values.
impl EvalFault {
    pub(crate) fn no_overload(function: &str, args: &[&Value<'_>]) -> Self {
        // For operators, kube-apiserver does not print the name.
        if function.contains('_') || function == "@in" {
            return Self::error("no such overload");
        }
        let types = args.iter().map(|arg| arg.type_name()).collect::<Vec<_>>().join(", ");
        Self::error(format!("no such overload: {function}({types})"))
    }

    /// Creates the error for a missing key or index.
    pub(crate) fn missing(container: &Value<'_>, key: &Value<'_>) -> Self {
        let what = if matches!(container, Value::List(_)) { "index out of bounds" } else { "no such key" };
        Self::error(format!("{what}: {}", shown(key)))
    }
}

impl<'v> Value<'v> {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(Text::Owned(text.into()))
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(List::new(items))
    }

    pub(crate) fn extension(value: ExtensionValue) -> Self {
        Self::Extension(Rc::new(value))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// Reads a part of an object. Returns an error if it does not match its schema.
    pub(crate) fn read(json: &'v Json, schema: &'v Schema) -> Result<Self, EvalFault> {
        let unlike = |expected: &str| Err(EvalFault::error(format!("invalid data, expected {expected}")));
        if json.is_null() && !matches!(schema.shape, Shape::Any) {
            let why = "invalid data, got null for schema with nullable=false";
            return if schema.nullable { Ok(Self::Null) } else { Err(EvalFault::error(why)) };
        }
        match (&schema.shape, json) {
            (Shape::Any, json) => Ok(Self::any(json, schema)),
            (Shape::IntOrString, Json::String(text)) => Ok(Self::Text(Text::Borrowed(text))),
            (Shape::IntOrString, Json::Number(number)) if number.is_i64() => {
                Ok(Self::Int(number.as_i64().unwrap_or_default()))
            }
            (Shape::IntOrString, _) => unlike("XIntOrString value to be either a string or integer"),
            (Shape::Bool, Json::Bool(flag)) => Ok(Self::Bool(*flag)),
            (Shape::Bool, _) => unlike("bool"),
            (Shape::Int, Json::Number(number)) if integer(number).is_some() => {
                Ok(Self::Int(integer(number).unwrap_or_default()))
            }
            (Shape::Int, _) => unlike("int"),
            (Shape::Double, Json::Number(number)) => Ok(Self::Double(number.as_f64().unwrap_or_default())),
            (Shape::Double, _) => unlike("float"),
            (Shape::String(format), Json::String(text)) => Self::formatted(text, *format),
            (Shape::String(_), _) => unlike("string"),
            (Shape::List { item, list }, Json::Array(items)) => {
                Ok(Self::List(List { items: Items::Json(items, item), kind: list }))
            }
            (Shape::List { .. }, _) => unlike("an array for the provided schema with type=array"),
            (Shape::Map(_) | Shape::Object(_), Json::Object(entries)) => Ok(Self::Map(Map::Json(entries, schema))),
            (Shape::Map(_) | Shape::Object(_), _) => unlike("a map for the provided schema with type=object"),
        }
    }

    /// Reads JSON without a schema.
    fn any(json: &'v Json, schema: &'v Schema) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => {
                number.as_i64().map_or_else(|| Self::Double(number.as_f64().unwrap_or_default()), Self::Int)
            }
            Json::String(text) => Self::Text(Text::Borrowed(text)),
            Json::Array(items) => Self::List(List { items: Items::Json(items, schema), kind: &ATOMIC }),
            Json::Object(entries) => Self::Map(Map::Json(entries, schema)),
        }
    }

    fn formatted(text: &'v str, format: Format) -> Result<Self, EvalFault> {
        let wrong = |what: &str| EvalFault::error(format!("Invalid {what} {text}"));
        match format {
            Format::Text => Ok(Self::Text(Text::Borrowed(text))),
            Format::Bytes => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map(|bytes| Self::Bytes(bytes.into()))
                .map_err(|_| wrong("byte formatted string")),
            Format::Duration => go_duration(text).map(Self::Duration).ok_or_else(|| wrong("duration")),
            Format::Date => {
                format!("{text}T00:00:00Z").parse().map(Self::Timestamp).map_err(|_| wrong("date formatted string"))
            }
            Format::DateTime => text.parse().map(Self::Timestamp).map_err(|_| wrong("date-time formatted string")),
        }
    }

    /// Returns the name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(map) => map.type_name(),
            Self::Struct(object) if object.name == "JSONPatch" => "JSONPatch",
            Self::Struct(_) => "Object",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Extension(named) => named.type_name(),
            Self::Unknown(_) => "unknown",
        }
    }

    /// Returns the name of the Go type, for messages.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "Null",
            Self::Bool(_) => "Bool",
            Self::Int(_) => "Int",
            Self::Uint(_) => "Uint",
            Self::Double(_) => "Double",
            Self::Text(_) => "String",
            Self::Bytes(_) => "Bytes",
            Self::Timestamp(_) => "Timestamp",
            Self::Duration(_) => "Duration",
            other => other.type_name(),
        }
    }

    /// Returns the number of characters, bytes, items or entries. Returns one for all other values.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Text(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(value)) => value.size(),
            Self::Extension(named) => named.size(),
            _ => 1,
        }
    }

    /// Returns the value as a map key.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(flag) => Key::Bool(*flag),
            Self::Int(number) => Key::Number(i128::from(*number)),
            Self::Uint(number) => Key::Number(i128::from(*number)),
            #[allow(clippy::cast_possible_truncation, reason = "only whole numbers, saturating")]
            Self::Double(number) if number.fract() == 0.0 => Key::Number(*number as i128),
            Self::Text(text) => Key::Text((**text).to_owned()),
            _ => return None,
        })
    }

    pub(crate) fn equals(&self, other: &Self, meter: &Meter) -> Result<bool, EvalFault> {
        meter.work(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => **a == **b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Extension(a), Self::Extension(b)) => a == b,
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => a.equals(b, meter)?,
            (Self::Optional(a), Self::Optional(b)) => a.is_none() && b.is_none(),
            (Self::List(a), Self::List(b)) => a.equals(b, meter)?,
            (Self::Map(a), Self::Map(b)) => a.equals(b, meter)?,
            (Self::Struct(a), Self::Struct(b)) => a.equals(b, meter)?,
            (a, b) => a.is_number() && b.is_number() && a.compare(b) == Some(Ordering::Equal),
        })
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Uint(_) | Self::Double(_))
    }

    /// Compares two values. Returns `None` if they have no order.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        let whole = |value: &Self| match value {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            _ => None,
        };
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some((**a).cmp(&**b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            #[allow(clippy::cast_precision_loss, reason = "as CEL compares numbers of different types")]
            (Self::Double(a), b) => a.partial_cmp(&(whole(b)? as f64)),
            #[allow(clippy::cast_precision_loss, reason = "as CEL compares numbers of different types")]
            (a, Self::Double(b)) => (whole(a)? as f64).partial_cmp(b),
            (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
        }
    }

    /// Returns the item or field for a key; `None` if there is none.
    pub(crate) fn find(&self, key: &Self) -> Result<Option<Self>, EvalFault> {
        match self {
            Self::Map(map) => map.find(key),
            Self::Struct(object) => match key {
                Self::Text(name) => Ok(object.fields.get(&**name).cloned()),
                _ => Ok(None),
            },
            Self::List(list) => {
                let Some(Key::Number(index)) = key.key() else {
                    return Err(EvalFault::no_overload("_[_]", &[self, key]));
                };
                usize::try_from(index).ok().and_then(|index| list.get(index)).transpose()
            }
            Self::Optional(Some(inner)) => inner.find(key),
            Self::Optional(None) => Ok(None),
            other => Err(EvalFault::no_overload("_[_]", &[other, key])),
        }
    }
}

// === impl Struct ===

impl Struct<'_> {
    fn equals(&self, other: &Self, meter: &Meter) -> Result<bool, EvalFault> {
        if self.name != other.name || self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        for ((name, ours), (other, theirs)) in self.fields.iter().zip(&other.fields) {
            if name != other || !ours.equals(theirs, meter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

// === impl List ===

impl<'v> List<'v> {
    pub(crate) fn new(items: Vec<Value<'v>>) -> Self {
        Self { items: Items::Owned(Rc::new(items)), kind: &ATOMIC }
    }

    /// Reports whether the list was made by an expression.
    pub(crate) fn is_constructed(&self) -> bool {
        !matches!(self.items, Items::Json(..))
    }

    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items, _) => items.len(),
            Items::Owned(items) => items.len(),
            Items::Sum(_, len) => *len,
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Value<'v>, EvalFault>> {
        let (mut list, mut index) = (self, index);
        loop {
            match &list.items {
                Items::Json(items, schema) => return Some(Value::read(items.get(index)?, schema)),
                Items::Owned(items) => return items.get(index).cloned().map(Ok),
                Items::Sum(parts, _) if index < parts.0.len() => list = &parts.0,
                Items::Sum(parts, _) => (list, index) = (&parts.1, index - parts.0.len()),
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'v>, EvalFault>> + '_ {
        (0..self.len()).map_while(|index| self.get(index))
    }

    pub(crate) fn contains(&self, value: &Value<'v>, meter: &Meter) -> Result<bool, EvalFault> {
        for item in self.iter() {
            if item?.equals(value, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn equals(&self, other: &Self, meter: &Meter) -> Result<bool, EvalFault> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind {
            ListType::Atomic => {
                for (a, b) in self.iter().zip(other.iter()) {
                    if !a?.equals(&b?, meter)? {
                        return Ok(false);
                    }
                }
            }
            ListType::Set => {
                for item in other.iter() {
                    if !self.contains(&item?, meter)? {
                        return Ok(false);
                    }
                }
            }
            ListType::Map(keys) => {
                for item in other.iter() {
                    let item = item?;
                    let Some(index) = self.position(keys, &item, meter)? else { return Ok(false) };
                    let ours = self.get(index).transpose()?;
                    if !ours.map_or(Ok(false), |ours| ours.equals(&item, meter))? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Returns the position of an item with the same key fields.
    fn position(&self, keys: &[String], item: &Value<'v>, meter: &Meter) -> Result<Option<usize>, EvalFault> {
        for (index, other) in self.iter().enumerate() {
            let other = other?;
            let mut same = true;
            for key in keys {
                let key = Value::text(key);
                same &= match (other.find(&key)?, item.find(&key)?) {
                    (Some(a), Some(b)) => a.equals(&b, meter)?,
                    (a, b) => a.is_none() && b.is_none(),
                };
            }
            if same {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Concatenates two lists. For sets and lists with key fields, the result has no duplicates.
    pub(crate) fn plus(mut self, other: Self, meter: &Meter) -> Result<Self, EvalFault> {
        /// The maximum number of items that are appended in place.
        const FEW: usize = 16;
        let kind = self.kind;
        if !matches!(kind, ListType::Atomic) {
            meter.work(self.len() as u64)?;
            let mut items = self.iter().collect::<Result<Vec<_>, _>>()?;
            for item in other.iter() {
                let item = item?;
                let sum = Self { items: Items::Owned(Rc::new(std::mem::take(&mut items))), kind };
                let found = match kind {
                    ListType::Map(keys) => sum.position(keys, &item, meter)?,
                    _ => sum.contains(&item, meter)?.then_some(0),
                };
                if let Items::Owned(all) = sum.items {
                    items = Rc::unwrap_or_clone(all);
                }
                match (found, kind) {
                    (Some(index), ListType::Map(_)) => items[index] = item,
                    (Some(_), _) => {}
                    (None, _) => items.push(item),
                }
            }
            return Ok(Self { items: Items::Owned(Rc::new(items)), kind });
        }
        if other.len() <= FEW
            && let Items::Owned(items) = &mut self.items
            && let Some(items) = Rc::get_mut(items)
        {
            meter.work(other.len() as u64)?;
            for item in other.iter() {
                items.push(item?);
            }
            return Ok(self);
        }
        let len = self.len().checked_add(other.len()).ok_or(EvalFault::Exhausted)?;
        Ok(Self { items: Items::Sum(Rc::new((self, other)), len), kind })
    }
}

// === impl Map ===

impl<'v> Map<'v> {
    pub(crate) fn new(entries: BTreeMap<Key, Value<'v>>) -> Self {
        Self::Owned(Rc::new(entries))
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Json(_, Schema { shape: Shape::Object(_), .. }) => "object",
            _ => "map",
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(entries, _) => entries.len(),
            Self::Owned(entries) => entries.len(),
        }
    }

    /// Returns the value of a JSON field.
    fn named(&self, name: &str) -> Option<Result<Value<'v>, EvalFault>> {
        match self {
            Self::Json(entries, schema) => {
                let json = entries.get(name)?;
                Some(match &schema.shape {
                    Shape::Any => Value::read(json, schema),
                    _ => schema.property(name).map_or(Ok(Value::Unknown(json)), |schema| Value::read(json, schema)),
                })
            }
            Self::Owned(entries) => entries.get(&Key::Text(name.to_owned())).cloned().map(Ok),
        }
    }

    /// Returns the value for a key. For objects, the key is the field's name in expressions.
    fn find(&self, key: &Value<'v>) -> Result<Option<Value<'v>>, EvalFault> {
        match (self, key) {
            (Self::Json(entries, Schema { shape: Shape::Object(object), .. }), Value::Text(name)) => {
                let Some(name) = windlass_api::unescape(name) else { return Ok(None) };
                // A null counts as an absent field, even if the schema allows null.
                let declared = object.named(&name).is_some() && !entries.get(&*name).is_none_or(Json::is_null);
                if declared { self.named(&name).transpose() } else { Ok(None) }
            }
            (_, Value::Text(name)) => self.named(name).transpose(),
            (Self::Owned(entries), key) => Ok(key.key().and_then(|key| entries.get(&key).cloned())),
            (Self::Json(..), _) => Ok(None),
        }
    }

    /// Returns the keys that an expression iterates over. For objects, these are the declared fields by their names in
    /// expressions.
    pub(crate) fn keys(&self) -> Vec<Value<'v>> {
        let Self::Json(entries, Schema { shape: Shape::Object(object), .. }) = self else { return self.names() };
        let declared = entries.keys().filter(|name| object.named(name).is_some());
        declared.map(|name| Value::text(windlass_api::escape(name).as_deref().unwrap_or(name))).collect()
    }

    /// Returns all keys.
    pub(crate) fn names(&self) -> Vec<Value<'v>> {
        match self {
            Self::Json(entries, _) => entries.keys().map(|key| Value::Text(Text::Borrowed(key))).collect(),
            Self::Owned(entries) => entries.keys().map(Key::to_value).collect(),
        }
    }

    fn equals(&self, other: &Self, meter: &Meter) -> Result<bool, EvalFault> {
        if self.len() != other.len() {
            return Ok(false);
        }
        for key in self.names() {
            let (ours, theirs) = match &key {
                Value::Text(name) => (self.named(name).transpose()?, other.named(name).transpose()?),
                key => (self.find(key)?, other.find(key)?),
            };
            let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(false) };
            if !ours.equals(&theirs, meter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds an entry. Returns an error if the key already exists.
    pub(crate) fn insert(self, key: &Value<'v>, value: Value<'v>) -> Result<Self, EvalFault> {
        let as_key = key.key().ok_or_else(|| EvalFault::error(format!("unsupported key type: {}", key.type_name())))?;
        let mut entries = match self {
            Self::Owned(entries) => entries,
            json @ Self::Json(..) => {
                let mut entries = BTreeMap::new();
                for key in json.keys() {
                    if let (Some(name), Some(value)) = (key.key(), json.find(&key)?) {
                        entries.insert(name, value);
                    }
                }
                Rc::new(entries)
            }
        };
        if Rc::make_mut(&mut entries).insert(as_key, value).is_some() {
            return Err(EvalFault::error(format!("insert failed: key {} already exists", shown(key))));
        }
        Ok(Self::Owned(entries))
    }
}

impl Key {
    pub(crate) fn to_value<'v>(&self) -> Value<'v> {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(number) => i64::try_from(*number)
                .map_or_else(|_| u64::try_from(*number).map_or(Value::Null, Value::Uint), Value::Int),
            Self::Text(text) => Value::text(text),
        }
    }
}

/// Formats a value for a message about a missing key.
pub(crate) fn shown<'a>(value: &'a Value<'_>) -> Cow<'a, str> {
    match value {
        Value::Text(text) => Cow::Borrowed(text),
        Value::Int(number) => number.to_string().into(),
        Value::Uint(number) => number.to_string().into(),
        Value::Bool(flag) => flag.to_string().into(),
        Value::Double(number) => number.to_string().into(),
        other => other.type_name().into(),
    }
}

/// Reads an integer as a server with Go's JSON parser does.
fn integer(number: &serde_json::Number) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation, reason = "only whole numbers in range")]
    number.as_i64().or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e18).map(|n| n as i64))
}

/// Parses a duration in Go's syntax (`1h30m`, `-1.5s`) into nanoseconds.
pub(crate) fn go_duration(text: &str) -> Option<i64> {
    i64::try_from(parse_duration(text).ok()?.as_nanos()).ok()
}
