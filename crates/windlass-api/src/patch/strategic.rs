//! Strategic merge patches of built-in kinds, from two or three states of an object.
//!
//! For lists with keys, a patch contains the new and changed items, and the deleted ones (`$patch: delete`). For lists
//! that are sets, it contains the deleted items (`$deleteFromPrimitiveList`). It contains the order of both
//! (`$setElementOrder`), and for unions the fields to retain (`$retainKeys`). Because servers use the order in
//! `$setElementOrder`, the order of the items in the patch is arbitrary.

use serde_json::{Map, Value, json};

use super::DiffError;
use crate::schema::{Field, Schema, Strategy};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList";

type Fields = Map<String, Value>;
type Result<T> = std::result::Result<T, DiffError>;

/// The treatment of fields that both the user and another writer have changed differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// The user's change overwrites the other.
    Overwrite,
    /// The conflict is an error.
    Fail,
}

/// Returns the strategic merge patch that changes `from` into `to`, both objects of the kind of `schema`.
pub fn strategic_diff(from: &Value, to: &Value, schema: Schema) -> Result<Value> {
    let diff = Diff { keep: Keep::All, order: true };
    diff.objects(fields(from)?, fields(to)?, At { schema, path: String::new() }, Union::No).map(Value::Object)
}

/// Returns the three-way strategic merge patch that brings the user's changes into an object that others have also
/// changed.
///
/// The patch sets the differences between `current` and `modified`. It removes the fields that are in `original`, the
/// user's last desired state, but not in `modified`. All other fields of `current` are retained.
pub fn strategic_three_way(
    original: &Value,
    modified: &Value,
    current: &Value,
    schema: Schema,
    on_conflict: OnConflict,
) -> Result<Value> {
    let (original, modified, current) = (fields(original)?, fields(modified)?, fields(current)?);
    let root = || At { schema, path: String::new() };
    let diff = |keep, order, from, to| Diff { keep, order }.objects(from, to, root(), Union::No);
    let additions = diff(Keep::Additions, true, current, modified)?;
    let mut patch = diff(Keep::Deletions, true, original, modified)?;
    overlay(&mut patch, additions, &root())?;
    if on_conflict == OnConflict::Fail {
        let changed = diff(Keep::All, false, original, current)?;
        objects_agree(&patch, &changed, &root())?;
    }
    Ok(Value::Object(patch))
}

/// The part of a difference to include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    All,
    /// The new and changed values.
    Additions,
    /// The deleted values.
    Deletions,
}

/// Determines whether a patch lists the fields to retain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Union {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug)]
struct Diff {
    keep: Keep,
    /// `true` if the patch contains the order of lists.
    order: bool,
}

/// A position in the object, with its type.
struct At {
    schema: Schema,
    path: String,
}

impl At {
    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn field(&self, name: &str) -> Result<Field> {
        self.schema.field(name).ok_or_else(|| DiffError::UnknownField { path: self.path_of(name) })
    }

    fn within(&self, name: &str, schema: Schema) -> Self {
        Self { schema, path: self.path_of(name) }
    }

    /// Returns the position of an object field.
    fn child(&self, name: &str, field: Field) -> Self {
        self.within(name, field.schema())
    }

    /// Returns the position of a list's items.
    fn items(&self, name: &str, field: Field) -> Result<Self> {
        let element = field.schema().element();
        Ok(self.within(name, element.ok_or_else(|| DiffError::UnknownField { path: self.path_of(name) })?))
    }
}

impl Diff {
    fn objects(self, from: &Fields, to: &Fields, at: At, union: Union) -> Result<Fields> {
        let mut patch = Fields::new();
        for (key, after) in to {
            match (from.get(key), after) {
                (Some(before), after) if before == after => {
                    // Order and unions are included only if there is a difference.
                }
                (Some(Value::Object(before)), Value::Object(after)) => {
                    let field = at.field(key)?;
                    if field.strategy() == Strategy::Replace {
                        self.set(&mut patch, key, &Value::Object(after.clone()));
                        continue;
                    }
                    let inner = self.objects(before, after, at.child(key, field), union_of(field))?;
                    if !inner.is_empty() {
                        patch.insert(key.clone(), Value::Object(inner));
                    }
                }
                (Some(Value::Array(before)), Value::Array(after)) => {
                    let field = at.field(key)?;
                    if field.strategy() == Strategy::Merge {
                        self.lists(&mut patch, key, (before, after), field, &at)?;
                    } else {
                        self.set(&mut patch, key, &Value::Array(after.clone()));
                    }
                }
                _ => self.set(&mut patch, key, after),
            }
        }
        if self.keep != Keep::Additions {
            let gone = from.keys().filter(|key| !to.contains_key(*key));
            patch.extend(gone.map(|key| (key.clone(), Value::Null)));
        }
        let leaves = || from.iter().any(|(key, value)| !value.is_null() && !to.contains_key(key));
        let mut kept: Vec<&String> = to.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key).collect();
        if union == Union::Yes && !kept.is_empty() && (!patch.is_empty() || leaves()) {
            kept.sort();
            patch.insert(RETAIN_KEYS.to_owned(), json!(kept));
        }
        Ok(patch)
    }

    fn set(self, patch: &mut Fields, key: &str, value: &Value) {
        if self.keep != Keep::Deletions {
            patch.insert(key.to_owned(), value.clone());
        }
    }

    fn lists(
        self,
        patch: &mut Fields,
        key: &str,
        (before, after): (&Vec<Value>, &Vec<Value>),
        field: Field,
        at: &At,
    ) -> Result<()> {
        if before.is_empty() {
            self.set(patch, key, &Value::Array(after.clone()));
            return Ok(());
        }
        let (items, gone, order) = if field.merge_key().is_empty() {
            self.sets(before, after)
        } else {
            let items = self.keyed(before, after, field, &at.items(key, field)?)?;
            (items.0, Vec::new(), items.1)
        };
        for (name, list) in [
            (key.to_owned(), items),
            (format!("{DELETE_PRIMITIVES}/{key}"), gone),
            (format!("{ELEMENT_ORDER}/{key}"), order),
        ] {
            if !list.is_empty() {
                patch.insert(name, Value::Array(list));
            }
        }
        Ok(())
    }

    /// Compares lists that are sets. Returns the new items, the deleted items, and the order.
    fn sets(self, before: &[Value], after: &[Value]) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
        let missing = |from: &[Value], other: &[Value]| {
            let mut found: Vec<Value> = Vec::new();
            for item in from.iter().filter(|item| !other.contains(item)) {
                if !found.contains(item) {
                    found.push(item.clone());
                }
            }
            found
        };
        let new = if self.keep == Keep::Deletions { Vec::new() } else { missing(after, before) };
        let gone = if self.keep == Keep::Additions { Vec::new() } else { missing(before, after) };
        // This is called only for lists that differ.
        let has_order = self.order && (self.keep != Keep::Deletions || !gone.is_empty());
        (new, gone, if has_order { after.to_vec() } else { Vec::new() })
    }

    /// Compares lists with keys. Returns the items of the patch, and the order.
    fn keyed(self, before: &[Value], after: &[Value], field: Field, at: &At) -> Result<(Vec<Value>, Vec<Value>)> {
        let key = field.merge_key();
        let (before, after) = (by_key(before, key, at)?, by_key(after, key, at)?);
        let mut patch = Vec::new();
        for (id, item) in &after {
            match before.iter().find(|(other, _)| other == id) {
                Some((_, old)) => {
                    let here = At { schema: at.schema, path: at.path.clone() };
                    let mut changed = self.objects(old, item, here, union_of(field))?;
                    if !changed.is_empty() {
                        changed.insert(key.to_owned(), (*id).clone());
                        patch.push(Value::Object(changed));
                    }
                }
                None if self.keep == Keep::Deletions => {}
                None => patch.push(Value::Object((*item).clone())),
            }
        }
        if self.keep != Keep::Additions {
            let gone = before.iter().filter(|(id, _)| !after.iter().any(|(other, _)| other == id));
            patch.extend(gone.map(|(id, _)| json!({ key: id, DIRECTIVE: "delete" })));
        }
        let is_same_order = before.iter().map(|(id, _)| id).eq(after.iter().map(|(id, _)| id));
        let has_order = self.order && (!patch.is_empty() || self.keep != Keep::Deletions && !is_same_order);
        let order = if has_order { after.iter().map(|(id, _)| json!({ key: id })).collect() } else { Vec::new() };
        Ok((patch, order))
    }
}

/// Combines additions and deletions, which are both patches.
fn overlay(deletions: &mut Fields, additions: Fields, at: &At) -> Result<()> {
    for (key, value) in additions {
        let merged = match (deletions.get_mut(&key), value) {
            // Both contain the same directives: the retained fields and the order of the desired state.
            (_, value) if key.starts_with('$') => value,
            (Some(Value::Object(inner)), Value::Object(value)) => {
                let field = at.field(&key)?;
                if field.strategy() != Strategy::Replace {
                    overlay(inner, value, &at.child(&key, field))?;
                    continue;
                }
                Value::Object(value)
            }
            (Some(Value::Array(removed)), Value::Array(set)) => {
                let field = at.field(&key)?;
                let items = at.items(&key, field)?;
                Value::Array(overlay_lists(std::mem::take(removed), set, field.merge_key(), &items)?)
            }
            (_, value) => value,
        };
        deletions.insert(key, merged);
    }
    Ok(())
}

fn overlay_lists(mut removed: Vec<Value>, set: Vec<Value>, merge_key: &str, at: &At) -> Result<Vec<Value>> {
    let mut merged = Vec::new();
    for item in set {
        let same =
            removed.iter().position(|other| !merge_key.is_empty() && other.get(merge_key) == item.get(merge_key));
        match (same.map(|at| removed.remove(at)), item) {
            (Some(Value::Object(mut base)), Value::Object(item)) => {
                overlay(&mut base, item, at)?;
                merged.push(Value::Object(base));
            }
            (_, item) => merged.push(item),
        }
    }
    merged.extend(removed);
    Ok(merged)
}

// === Conflicts ===

/// Returns an error at the first field that both patches change differently.
fn objects_agree(ours: &Fields, theirs: &Fields, at: &At) -> Result<()> {
    let conflict = |path: String| Err(DiffError::Conflict { path });
    if ours.get(DIRECTIVE) != theirs.get(DIRECTIVE) {
        return conflict(at.path.clone());
    }
    for (key, our) in ours.iter().filter(|(key, _)| !key.starts_with('$')) {
        match (our, theirs.get(key)) {
            (_, None) => {}
            (Value::Object(ours), Some(Value::Object(theirs))) => {
                let field = at.field(key)?;
                if field.strategy() != Strategy::Replace {
                    objects_agree(ours, theirs, &at.child(key, field))?;
                }
            }
            (Value::Array(ours), Some(Value::Array(theirs))) => {
                let field = at.field(key)?;
                let is_merged = field.strategy() == Strategy::Merge;
                if !is_merged && ours != theirs {
                    return conflict(at.path_of(key));
                }
                // Sets cannot conflict.
                if is_merged && !field.merge_key().is_empty() {
                    let items = at.items(key, field)?;
                    let theirs = by_key(theirs, field.merge_key(), &items)?;
                    for (id, our) in by_key(ours, field.merge_key(), &items)? {
                        if let Some((_, their)) = theirs.iter().find(|(other, _)| *other == id) {
                            objects_agree(our, their, &items)?;
                        }
                    }
                }
            }
            (our, Some(their)) if our == their => {}
            _ => return conflict(at.path_of(key)),
        }
    }
    Ok(())
}

// === Helpers ===

fn fields(value: &Value) -> Result<&Fields> {
    value.as_object().ok_or(DiffError::NoObject)
}

fn union_of(field: Field) -> Union {
    if field.retains_keys() { Union::Yes } else { Union::No }
}

/// Returns the items of a list with their keys.
fn by_key<'v>(list: &'v [Value], key: &str, at: &At) -> Result<Vec<(&'v Value, &'v Fields)>> {
    let keyed = |item: &'v Value| {
        let fields = item.as_object()?;
        Some((fields.get(key)?, fields))
    };
    let missing = || DiffError::NoMergeKey { path: at.path.clone(), key: key.to_owned() };
    list.iter().map(|item| keyed(item).ok_or_else(missing)).collect()
}

#[cfg(test)]
mod tests;
