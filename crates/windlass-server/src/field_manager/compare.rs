//! The comparison of two values of one type.

use serde_json::{Map, Value};

use super::{
    element::{Element, equal},
    items::{BadItem, Items},
    schema::{Form, ListType, MapType, Type},
    set::Set,
};

/// The fields that differ between two values. Each field is in at most one of the sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
}

/// The change of a field itself, without the fields below it.
#[derive(Clone, Copy, Default)]
struct Own {
    removed: bool,
    modified: bool,
    added: bool,
}

/// Metadata fields that have no owner.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Reports whether a top-level field or a metadata field has no owner.
fn is_unowned(depth: usize, name: &str) -> bool {
    match depth {
        0 => matches!(name, "apiVersion" | "kind"),
        _ => UNOWNED.contains(&name),
    }
}

/// Removes the fields without an owner from a set. For `metadata` only the field itself is removed; fields below it may
/// have owners.
pub(super) fn strip(set: &Set) -> Set {
    let mut unowned = Set::of_fields(&[&["apiVersion"], &["kind"], &["metadata"]]);
    for name in UNOWNED {
        unowned.insert(&[Element::field("metadata"), Element::field(name)]);
    }
    set.difference(&unowned)
}

impl Changes {
    /// Compares two API objects, ignoring fields without an owner.
    pub(super) fn between_objects(old: &Value, new: &Value, ty: &Type) -> Result<Self, BadItem> {
        let mut changes = Self::default();
        let empty = Map::new();
        let Form::Map(map) = ty.form(Some(new)) else { return Ok(changes) };
        let (old, new) = (entries(Some(old), &empty), entries(Some(new), &empty));
        let others = |name: &str| !is_unowned(0, name) && name != "metadata";
        changes.visit_map(map, old, new, others)?;
        if let Form::Map(meta) = map.field_or_deduced("metadata").form(new.get("metadata")) {
            let mut below = Self::default();
            let (old, new) = (entries(old.get("metadata"), &empty), entries(new.get("metadata"), &empty));
            below.visit_map(meta, old, new, |name| !is_unowned(1, name))?;
            changes.push(Element::field("metadata"), Own::default(), below.finished());
        }
        Ok(changes.finished())
    }

    /// Compares two values.
    pub(super) fn between(old: &Value, new: &Value, ty: &Type) -> Result<Self, BadItem> {
        let mut changes = Self::default();
        changes.visit(Some(old), Some(new), ty)?;
        Ok(changes.finished())
    }

    /// Returns the modified and added fields.
    pub(super) fn set_fields(&self) -> Set {
        self.modified.union(&self.added)
    }

    /// Returns the changes without the fields in `reset`.
    pub(super) fn without(self, reset: &Set) -> Self {
        if reset.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.without(reset),
            modified: self.modified.without(reset),
            added: self.added.without(reset),
        }
    }

    fn finished(mut self) -> Self {
        self.removed.finish();
        self.modified.finish();
        self.added.finish();
        self
    }

    fn push(&mut self, element: Element, own: Own, below: Self) {
        if below.removed.is_empty() && below.modified.is_empty() && !own.removed && !own.modified {
            self.added.push(element, own.added, below.added);
            return;
        }
        self.removed.push(element.clone(), own.removed, below.removed);
        self.modified.push(element.clone(), own.modified, below.modified);
        self.added.push(element, own.added, below.added);
    }

    /// Compares two values, of which at least one is present. Adds the changes below to `self`, and returns the change
    /// of the value itself.
    fn visit(&mut self, old: Option<&Value>, new: Option<&Value>, ty: &Type) -> Result<Own, BadItem> {
        let (before, after) = (ty.form(old), ty.form(new));
        let (mut own, is_leaf) = if new.is_none() {
            self.visit_form(old, new, before)?
        } else {
            let mut first = Own::default();
            // A change of form counts as a removal and an addition.
            if old.is_some() && !before.is_same_kind(&after) {
                first = self.visit_form(old, new, before)?.0;
            }
            let (own, is_leaf) = self.visit_form(old, new, after)?;
            (own.or(first), is_leaf)
        };
        if !is_leaf {
            own.added |= old.is_none();
            own.removed |= new.is_none();
        }
        Ok(own)
    }

    fn visit_form(&mut self, old: Option<&Value>, new: Option<&Value>, form: Form<'_>) -> Result<(Own, bool), BadItem> {
        match form {
            Form::Scalar(_) => Ok((leaf(old, new), true)),
            Form::Map(map) => {
                let empty = Map::new();
                let (before, after) = (entries(old, &empty), entries(new, &empty));
                if map.atomic || (before.is_empty() && after.is_empty()) {
                    return Ok((leaf(old, new), true));
                }
                self.visit_map(map, before, after, |_| true)?;
                Ok((Own::default(), false))
            }
            Form::List(list) => {
                let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let after = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if list.is_atomic() || (before.is_empty() && after.is_empty()) {
                    return Ok((leaf(old, new), true));
                }
                if before != after {
                    self.visit_list(list, before, after)?;
                }
                Ok((Own::default(), false))
            }
        }
    }

    fn visit_map(
        &mut self,
        map: &MapType,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        counts: impl Fn(&str) -> bool,
    ) -> Result<(), BadItem> {
        for (name, value) in new.iter().filter(|(name, _)| counts(name)) {
            let before = old.get(name);
            if before == Some(value) {
                continue;
            }
            let mut below = Self::default();
            let own = below.visit(before, Some(value), map.field_or_deduced(name))?;
            self.push_if_changed(|| Element::field(name), own, below);
        }
        for (name, value) in old.iter().filter(|(name, _)| counts(name) && !new.contains_key(*name)) {
            let mut below = Self::default();
            let own = below.visit(Some(value), None, map.field_or_deduced(name))?;
            self.push_if_changed(|| Element::field(name), own, below);
        }
        Ok(())
    }

    fn visit_list(&mut self, list: &ListType, old: &[Value], new: &[Value]) -> Result<(), BadItem> {
        let (old, new) = (items(list, old)?, items(list, new)?);
        let ty = list.element.get();
        for (element, after) in new.groups() {
            self.visit_items(element, &old.find(element), &after, ty)?;
        }
        for (element, before) in old.groups() {
            if new.find(element).is_empty() {
                self.visit_items(element, &before, &[], ty)?;
            }
        }
        Ok(())
    }

    /// Compares the list items of one element. Duplicates count as one value.
    fn visit_items(&mut self, element: &Element, old: &[&Value], new: &[&Value], ty: &Type) -> Result<(), BadItem> {
        let mut below = Self::default();
        let mut own = Own::default();
        match (old, new) {
            ([_, _, ..], [_, _, ..]) => {
                own.modified = old.len() != new.len() || !old.iter().zip(new).all(|(old, new)| equal(old, new));
            }
            ([_, _, ..], _) => {
                if let [new] = new {
                    own = below.visit(None, Some(new), ty)?;
                }
                own.removed = true;
            }
            (_, [_, _, ..]) => {
                if let [old] = old {
                    own = below.visit(Some(old), None, ty)?;
                }
                own.added = true;
            }
            (old, new) => own = below.visit(old.first().copied(), new.first().copied(), ty)?,
        }
        self.push_if_changed(|| element.clone(), own, below);
        Ok(())
    }

    fn push_if_changed(&mut self, element: impl FnOnce() -> Element, own: Own, below: Self) {
        let untouched = below.removed.is_empty() && below.modified.is_empty() && below.added.is_empty();
        if !untouched || own.removed || own.modified || own.added {
            self.push(element(), own, below.finished());
        }
    }
}

impl Own {
    fn or(self, other: Self) -> Self {
        Self {
            removed: self.removed || other.removed,
            modified: self.modified || other.modified,
            added: self.added || other.added,
        }
    }
}

fn entries<'v>(value: Option<&'v Value>, empty: &'v Map<String, Value>) -> &'v Map<String, Value> {
    value.and_then(Value::as_object).unwrap_or(empty)
}

/// Compares two values without looking inside.
fn leaf(old: Option<&Value>, new: Option<&Value>) -> Own {
    match (old, new) {
        (None, _) => Own { added: true, ..Own::default() },
        (_, None) => Own { removed: true, ..Own::default() },
        (Some(old), Some(new)) => Own { modified: !equal(old, new), ..Own::default() },
    }
}

fn items<'v>(list: &ListType, items: &'v [Value]) -> Result<Items<'v>, BadItem> {
    Items::of(list, items).map_err(|(_, bad)| bad)
}
