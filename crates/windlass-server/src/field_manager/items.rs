//! The items of a list by their path elements.

use std::fmt;

use serde_json::Value;

use super::{
    element::Element,
    schema::{ListKind, ListType},
};

/// The reason why a list item has no valid path element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadItem {
    NullItem,
    NoObject,
    NullValue,
    ObjectValue,
    ListValue,
    /// All key fields are missing.
    NoKey,
    /// The key field with this index is missing, and items may not omit one.
    MissingKey(usize),
}

/// The items of a list with their path elements.
#[derive(Debug)]
pub(super) struct Items<'v> {
    pub(super) items: Vec<(Element, &'v Value)>,
    /// Indices into `items`, sorted by element and then by position.
    sorted: Vec<usize>,
}

/// Returns the path element of a list item.
pub(super) fn element_of(list: &ListType, item: &Value) -> Result<Element, BadItem> {
    match &list.kind {
        ListKind::Map(keys) => {
            let fields = match item {
                Value::Object(fields) => fields,
                Value::Null => return Err(BadItem::NullItem),
                _ => return Err(BadItem::NoObject),
            };
            let ty = list.element.get().map.as_ref();
            let value = |key: &str| fields.get(key).or_else(|| ty.and_then(|ty| ty.default(key)));
            if !list.partial_keys
                && let Some(missing) = keys.iter().position(|key| value(key).is_none())
            {
                return Err(BadItem::MissingKey(missing));
            }
            let found: Vec<_> = keys.iter().filter_map(|key| Some((key.clone(), value(key)?.clone()))).collect();
            if found.is_empty() { Err(BadItem::NoKey) } else { Ok(Element::key(found)) }
        }
        ListKind::Set | ListKind::Atomic => match item {
            Value::Null => Err(BadItem::NullValue),
            Value::Object(_) => Err(BadItem::ObjectValue),
            Value::Array(_) => Err(BadItem::ListValue),
            scalar => Ok(Element::Value(scalar.clone())),
        },
    }
}

impl<'v> Items<'v> {
    pub(super) fn of(list: &ListType, items: &'v [Value]) -> Result<Self, (usize, BadItem)> {
        let item = |(index, item)| element_of(list, item).map(|element| (element, item)).map_err(|bad| (index, bad));
        let items: Vec<_> = items.iter().enumerate().map(item).collect::<Result<_, _>>()?;
        let mut sorted: Vec<usize> = (0..items.len()).collect();
        sorted.sort_by(|a, b| items[*a].0.cmp(&items[*b].0));
        Ok(Self { items, sorted })
    }

    /// Returns the values of each element in the order of elements; duplicates have more than one value.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Element, Vec<&'v Value>)> {
        self.sorted.chunk_by(|a, b| self.items[*a].0 == self.items[*b].0).map(|group| {
            let values = group.iter().map(|at| self.items[*at].1).collect();
            (&self.items[group[0]].0, values)
        })
    }

    /// Returns the values of an element.
    pub(super) fn find(&self, element: &Element) -> Vec<&'v Value> {
        let start = self.sorted.partition_point(|at| self.items[*at].0 < *element);
        let same = self.sorted[start..].iter().take_while(|at| self.items[**at].0 == *element);
        same.map(|at| self.items[*at].1).collect()
    }
}

/// Describes the error in the wording of the real server.
impl BadItem {
    pub(super) fn describe(self, list: &ListType) -> String {
        match (self, &list.kind) {
            (Self::MissingKey(index), ListKind::Map(keys)) => {
                format!(
                    "associative list with keys has an element that omits key field {:?} (and doesn't have default value)",
                    keys[index]
                )
            }
            (Self::NoKey, ListKind::Map(keys)) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
                     for any key fields)",
                    keys.join(" ")
                )
            }
            (bad, _) => bad.to_string(),
        }
    }
}

impl fmt::Display for BadItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NullItem => "associative list with keys may not have a null element",
            Self::NoObject => "associative list with keys may not have non-map elements",
            Self::NullValue => "associative list without keys has an element that's an explicit null",
            Self::ObjectValue => "associative list without keys has an element that's a map type",
            Self::ListValue => "not supported: associative list with lists as elements",
            Self::NoKey => "associative list with keys has an element that omits all key fields",
            Self::MissingKey(_) => "associative list with keys has an element that omits a key field",
        })
    }
}
