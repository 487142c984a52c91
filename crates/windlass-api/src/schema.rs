//! The merge and comparison rules of the built-in kinds, from their Go types: which lists have keys, which fields are
//! replaced as a whole, which texts are quantities.
//!
//! The data is in `data/types.tsv`, which `cargo xtask types` generates by reflection over the Go types. Its format is
//! described in `tools/fields`. Values are looked up in the text on demand; nothing is parsed in advance or cached.

use std::{collections::HashMap, sync::OnceLock};

use serde_json::Value;

use crate::GroupVersionKind;

/// The table: kinds, then structs with one line per field.
pub const TYPES: &str = include_str!("../data/types.tsv");

/// The type of a value, as needed for merging and comparing.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    form: Form,
    /// `true` if an absent value differs from the zero value.
    is_pointer: bool,
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    schema: Schema,
    /// The patch strategy as in the Go tag, for example `merge,retainKeys`.
    strategy: &'static str,
    merge_key: &'static str,
}

/// The way in which a patch changes a field with an object or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Objects are merged, and lists are replaced.
    Default,
    /// Lists are merged by their key, and lists of scalars as sets.
    Merge,
    /// The value is replaced as a whole.
    Replace,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// A struct, with the lines of its fields.
    Struct(&'static str),
    List(&'static str),
    Map(&'static str),
    Quantity,
    Time,
    /// A value without parts, or with parts of unknown types.
    Other,
}

struct Index {
    /// The IDs of structs by group, version and kind.
    kinds: HashMap<(&'static str, &'static str, &'static str), &'static str>,
    /// The lines of the fields, by the ID of their struct.
    structs: HashMap<&'static str, &'static str>,
}

impl Schema {
    /// Returns the schema of a built-in kind; `None` for any other kind.
    #[must_use]
    pub fn of(kind: &GroupVersionKind) -> Option<Self> {
        let id = index().kinds.get(&(&*kind.group, &*kind.version, &*kind.kind))?;
        Some(Self::of_struct(id))
    }

    /// Returns a field, if this is a struct with that field.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Field> {
        let Form::Struct(lines) = self.form else { return None };
        for line in lines.lines() {
            let mut cells = line.split('\t');
            let mut next = || cells.next().unwrap_or_default();
            let (field, flags, _number, ty, strategy, merge_key) = (next(), next(), next(), next(), next(), next());
            let is_embedded = flags.contains('i');
            if is_embedded && let Some(field) = Self::parse(ty).field(name) {
                return Some(field);
            }
            if !is_embedded && field == name {
                return Some(Field { schema: Self::parse(ty), strategy, merge_key });
            }
        }
        None
    }

    /// Returns the schema of the items of a list or the values of a map.
    #[must_use]
    pub fn element(self) -> Option<Self> {
        match self.form {
            Form::List(ty) | Form::Map(ty) => Some(Self::parse(ty)),
            _ => None,
        }
    }

    /// Reports whether the value is a quantity, which has several equal forms.
    #[must_use]
    pub const fn is_quantity(self) -> bool {
        matches!(self.form, Form::Quantity)
    }

    /// Reports whether the value is a time, which has several equal forms.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self.form, Form::Time)
    }

    /// Returns the schema of a field of a struct, or of a value of a map.
    #[must_use]
    pub fn child(self, name: &str) -> Option<Self> {
        self.field(name).map(Field::schema).or_else(|| match self.form {
            Form::Map(ty) => Some(Self::parse(ty)),
            _ => None,
        })
    }

    /// Reports whether a value equals the type's zero value, so that a field with this value is equivalent to an absent
    /// one.
    #[must_use]
    pub fn is_zero(self, value: &Value) -> bool {
        match (self.form, value) {
            (_, Value::Null) => true,
            (Form::List(_), Value::Array(items)) => items.is_empty(),
            (Form::Map(_), Value::Object(entries)) => entries.is_empty(),
            _ if self.is_pointer => false,
            (Form::Struct(_), Value::Object(fields)) => {
                fields.iter().all(|(name, value)| self.child(name).is_some_and(|field| field.is_zero(value)))
            }
            (Form::Other, Value::String(text)) => text.is_empty(),
            (Form::Other, Value::Bool(flag)) => !flag,
            (Form::Other, Value::Number(number)) => number.as_f64() == Some(0.0),
            _ => false,
        }
    }

    fn of_struct(id: &str) -> Self {
        let form = index().structs.get(id).map_or(Form::Other, |lines| Form::Struct(lines));
        Self { form, is_pointer: false }
    }

    /// Parses a type in the table's format.
    fn parse(text: &'static str) -> Self {
        let text = text.trim_start_matches('%');
        // The Go name of a named type.
        let text = match text.strip_prefix('<') {
            Some(named) => named.split_once('>').map_or("", |(_, ty)| ty),
            None => text,
        };
        let form = match text.split_at_checked(1) {
            Some(("*", pointee)) => return Self { is_pointer: true, ..Self::parse(pointee) },
            Some(("@", id)) => return Self::of_struct(id),
            Some(("[", element)) => Form::List(element),
            // The type of the keys follows the brace.
            Some(("{", rest)) => Form::Map(rest.split_once('>').map_or("", |(_, value)| value)),
            Some(("!", "Quantity")) => Form::Quantity,
            Some(("!", "Time" | "MicroTime")) => Form::Time,
            _ => Form::Other,
        };
        Self { form, is_pointer: false }
    }
}

impl Field {
    /// Returns the schema of the field's value.
    #[must_use]
    pub const fn schema(self) -> Schema {
        self.schema
    }

    /// Returns the patch strategy.
    #[must_use]
    pub fn strategy(self) -> Strategy {
        match self.strategies().find(|strategy| *strategy != "retainKeys") {
            Some("merge") => Strategy::Merge,
            Some("replace") => Strategy::Replace,
            _ => Strategy::Default,
        }
    }

    /// Reports whether a patch lists the keys to retain, as for unions.
    #[must_use]
    pub fn retains_keys(self) -> bool {
        self.strategies().any(|strategy| strategy == "retainKeys")
    }

    /// Returns the field that identifies the items of a merged list; empty for lists of scalars.
    #[must_use]
    pub const fn merge_key(self) -> &'static str {
        self.merge_key
    }

    fn strategies(self) -> impl Iterator<Item = &'static str> {
        self.strategy.split(',').filter(|strategy| !strategy.is_empty())
    }
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let (head, mut rest) = TYPES.split_at(TYPES.find("\nS\t").map_or(TYPES.len(), |at| at + 1));
        let kind = |line: &'static str| {
            let mut cells = line.strip_prefix("K\t")?.split('\t');
            Some(((cells.next()?, cells.next()?, cells.next()?), cells.next()?))
        };
        let kinds = head.lines().filter_map(kind).collect();
        let mut structs = HashMap::with_capacity(640);
        while let Some(text) = rest.strip_prefix("S\t") {
            let (block, after) = text.split_at(text.find("\nS\t").map_or(text.len(), |at| at + 1));
            let (id, lines) = block.split_once('\n').unwrap_or((block, ""));
            structs.insert(id, lines);
            rest = after;
        }
        Index { kinds, structs }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Schema {
        Schema::of(&GroupVersionKind::new("", "v1", "Pod")).unwrap()
    }

    #[test]
    fn lists_with_keys_and_unions_are_known() {
        let spec = pod().field("spec").unwrap().schema();
        let containers = spec.field("containers").unwrap();
        assert_eq!((containers.strategy(), containers.merge_key()), (Strategy::Merge, "name"));
        let container = containers.schema().element().unwrap();
        assert_eq!(container.field("command").unwrap().strategy(), Strategy::Default);
        let volumes = spec.field("volumes").unwrap();
        assert!(volumes.retains_keys() && !containers.retains_keys());
        assert!(volumes.schema().element().unwrap().field("hostPath").is_some(), "a field of an embedded struct");
        let finalizers = pod().field("metadata").unwrap().schema().field("finalizers").unwrap();
        assert_eq!((finalizers.strategy(), finalizers.merge_key()), (Strategy::Merge, ""));
    }

    #[test]
    fn quantities_and_times_are_known_behind_maps_and_pointers() {
        let spec = pod().field("spec").unwrap().schema();
        let container = spec.field("containers").unwrap().schema().element().unwrap();
        let limits = container.child("resources").unwrap().child("limits").unwrap();
        assert!(limits.child("cpu").unwrap().is_quantity());
        assert!(pod().child("metadata").unwrap().child("deletionTimestamp").unwrap().is_time());
    }

    #[test]
    fn zero_differs_from_absent_behind_pointers_only() {
        let spec = pod().child("spec").unwrap();
        assert!(spec.child("hostNetwork").unwrap().is_zero(&Value::from(false)));
        assert!(!spec.child("automountServiceAccountToken").unwrap().is_zero(&Value::from(false)));
        let empty = Value::Object(serde_json::Map::new());
        let volume = spec.child("volumes").unwrap().element().unwrap();
        assert!(!volume.child("emptyDir").unwrap().is_zero(&empty));
        assert!(pod().child("status").unwrap().is_zero(&empty));
    }

    #[test]
    fn custom_kinds_have_none() {
        assert!(Schema::of(&GroupVersionKind::new("x.io", "v1", "Foo")).is_none());
        assert!(pod().field("none").is_none());
    }
}
