//! The content of points: patterns of names, and changed fields.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::{Map, Value};

use crate::{
    patterns::Patterns,
    plan::Point,
    record::{ChangeVerb, ObjectName, Record},
};

/// The fields of metadata that are not part of a point: they change with every write, or never.
const IGNORED: [&str; 5] = ["resourceVersion", "managedFields", "generation", "creationTimestamp", "uid"];

/// The names of objects and their patterns.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The name and the pattern of each object by its UID.
    known: HashMap<String, (String, String)>,
    /// The patterns of names that the program generates.
    learned: Arc<Patterns>,
}

impl Names {
    pub(super) fn new(learned: Arc<Patterns>) -> Self {
        Self { known: HashMap::new(), learned }
    }

    /// Adds the name of an object.
    pub(super) fn add(&mut self, name: &ObjectName, object: &Value) {
        let uid = text(object, "/metadata/uid");
        if !self.known.contains_key(uid) {
            let pattern = self.pattern(name, object);
            self.known.insert(uid.to_owned(), (name.name.clone(), pattern));
        }
    }

    /// Returns the name of an object with `*` for its generated parts: the suffix that the server generated, the part that
    /// the program generated, and those in a prefix that is the name of an owner.
    pub(super) fn pattern(&self, name: &ObjectName, object: &Value) -> String {
        let prefix = text(object, "/metadata/generateName");
        let (stem, end) = match name.name.strip_prefix(prefix) {
            Some(_) if !prefix.is_empty() => (prefix, "*"),
            _ => match self.learned.apply(name) {
                Some(pattern) => return pattern,
                None => (name.name.as_str(), ""),
            },
        };
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owners = owners.into_iter().flatten().filter_map(|owner| self.known.get(text(owner, "/uid")));
        for (owner, pattern) in owners {
            if let Some(rest) = stem.strip_prefix(owner.as_str()) {
                return format!("{pattern}{rest}{end}");
            }
        }
        format!("{stem}{end}")
    }
}

/// Replaces the names in the points of a run by patterns that were learned after it.
pub(crate) fn generalize(record: &mut Record, learned: &Arc<Patterns>) {
    if learned.is_empty() {
        return;
    }
    let mut names = Names::new(Arc::clone(learned));
    let created = record.changes.iter().filter(|change| change.verb == ChangeVerb::Create);
    let created: BTreeSet<_> = created.map(|change| &change.object).collect();
    for (name, object) in record.end.iter().filter(|(name, _)| !created.contains(name)) {
        names.add(name, object);
    }
    let mut counts: HashMap<Point, usize> = HashMap::new();
    for change in &mut record.changes {
        let Some(state) = change.after.as_ref().or(change.before.as_ref()) else { continue };
        names.add(&change.object, state);
        change.point.name = names.pattern(&change.object, state);
        change.point.occurrence = 0;
        let count = counts.entry(change.point.clone()).or_default();
        *count += 1;
        change.point.occurrence = *count;
    }
}

/// Returns the fields that differ, at most two levels deep, sorted.
pub(crate) fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (fields(Some(before)), fields(Some(after)));
    let mut changed = BTreeSet::new();
    for key in keys(&before, &after) {
        let (old, new) = (before.get(key), after.get(key));
        if old == new || matches!(key.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let is_map = |value: Option<&Value>| value.is_none_or(Value::is_object);
        if !is_map(old) || !is_map(new) {
            changed.insert(key.clone());
            continue;
        }
        let (old, new) = (fields(old), fields(new));
        for field in keys(&old, &new) {
            if old.get(field) != new.get(field) && !(key == "metadata" && IGNORED.contains(&field.as_str())) {
                changed.insert(format!("{key}.{field}"));
            }
        }
    }
    changed.into_iter().collect()
}

/// Returns the text at a JSON pointer, or an empty text.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn keys<'v>(one: &'v Map<String, Value>, other: &'v Map<String, Value>) -> impl Iterator<Item = &'v String> {
    one.keys().chain(other.keys())
}

fn fields(value: Option<&Value>) -> std::borrow::Cow<'_, Map<String, Value>> {
    match value.and_then(Value::as_object) {
        Some(fields) => std::borrow::Cow::Borrowed(fields),
        None => std::borrow::Cow::Owned(Map::new()),
    }
}
