//! What the Go types of the built-in kinds say about merging and comparing: which lists have keys, which fields are
//! replaced as one, which texts are quantities.
//!
//! The facts are those of `data/types.tsv`, which `cargo xtask types` derives by reflection over the Go types; its format is
//! described in `tools/fields`. They are looked up in the text when asked for: nothing is parsed ahead, nothing is kept.

use std::{collections::HashMap, sync::OnceLock};

use serde_json::Value;

use crate::GroupVersionKind;

/// The table: kinds, then structs with one line per field.
pub const TYPES: &str = include_str!("../data/types.tsv");

/// The type of a value, as far as merging and comparing go.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    form: Form,
    /// Absent is another thing than zero.
    is_pointer: bool,
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    schema: Schema,
    /// As in the tag, `merge,retainKeys`.
    strategy: &'static str,
    merge_key: &'static str,
}

/// How a patch changes a field that holds an object or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Objects are merged, lists are replaced.
    Default,
    /// Lists are merged by their key; lists of scalars as sets.
    Merge,
    /// The value is replaced as one.
    Replace,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// The lines of its fields.
    Struct(&'static str),
    List(&'static str),
    Map(&'static str),
    Quantity,
    Time,
    /// A value without parts, or one of which the types say no more.
    Other,
}

struct Index {
    /// Ids of structs, by group, version and kind.
    kinds: HashMap<(&'static str, &'static str, &'static str), &'static str>,
    /// The lines of the fields, by the id of their struct.
    structs: HashMap<&'static str, &'static str>,
}

impl Schema {
    /// Of a built-in kind; `None` for any other.
    #[must_use]
    pub fn of(kind: &GroupVersionKind) -> Option<Self> {
        let id = index().kinds.get(&(&*kind.group, &*kind.version, &*kind.kind))?;
        Some(Self::of_struct(id))
    }

    /// A field, if this is a struct that has it.
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

    /// What the items of a list or the values of a map are.
    #[must_use]
    pub fn element(self) -> Option<Self> {
        match self.form {
            Form::List(ty) | Form::Map(ty) => Some(Self::parse(ty)),
            _ => None,
        }
    }

    /// Whether it is an amount, which has several forms.
    #[must_use]
    pub const fn is_quantity(self) -> bool {
        matches!(self.form, Form::Quantity)
    }

    /// Whether it is a time, which has several forms.
    #[must_use]
    pub const fn is_time(self) -> bool {
        matches!(self.form, Form::Time)
    }

    /// What a value is that stands in a field, an item or under a key; of a struct or a map.
    #[must_use]
    pub fn child(self, name: &str) -> Option<Self> {
        self.field(name).map(Field::schema).or_else(|| match self.form {
            Form::Map(ty) => Some(Self::parse(ty)),
            _ => None,
        })
    }

    /// Whether a value is what the type has when nothing is set: to be there with it, or not to be there, is the same.
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

    /// Reads a type as the table writes it.
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
            // Behind the brace stands the type of the keys.
            Some(("{", rest)) => Form::Map(rest.split_once('>').map_or("", |(_, value)| value)),
            Some(("!", "Quantity")) => Form::Quantity,
            Some(("!", "Time" | "MicroTime")) => Form::Time,
            _ => Form::Other,
        };
        Self { form, is_pointer: false }
    }
}

impl Field {
    /// The type of its value.
    #[must_use]
    pub const fn schema(self) -> Schema {
        self.schema
    }

    /// How a strategic merge patch changes it.
    #[must_use]
    pub fn strategy(self) -> Strategy {
        match self.strategies().find(|strategy| *strategy != "retainKeys") {
            Some("merge") => Strategy::Merge,
            Some("replace") => Strategy::Replace,
            _ => Strategy::Default,
        }
    }

    /// Whether a patch names the keys that are to stay, as of unions.
    #[must_use]
    pub fn retains_keys(self) -> bool {
        self.strategies().any(|strategy| strategy == "retainKeys")
    }

    /// The field by which items of a merged list are told apart; empty for lists of scalars.
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
    fn zero_is_another_thing_than_nothing_behind_pointers_only() {
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
