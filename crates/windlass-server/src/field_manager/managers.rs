//! managedFields: the managers of an object and their fields, parsed and encoded.

use serde_json::{Map, Value};

use super::{
    element::{BadElement, Element},
    set::Set,
};
use crate::{codec::sort_keys, encoded::Style, object::Tree};

/// All managers of an object. Each identity occurs once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    pub(super) entries: Vec<Manager>,
}

/// A manager and the fields that it owns.
#[derive(Clone, Debug)]
pub(super) struct Manager {
    pub(super) identity: Identity,
    /// The version of the fields.
    pub(super) api_version: String,
    pub(super) fields: Fields,
    /// The time of the manager's last change, in UTC and with second precision; `None` if it never changed anything.
    pub(super) time: Option<String>,
}

/// The identity of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// The apiVersion, for updates only: they are recorded per version.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// The operation by which a manager became an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// The fields of a manager. They are parsed on demand, because most writes change few managers' fields.
#[derive(Clone, Debug)]
pub(super) enum Fields {
    /// The text that the server stored.
    Written(Value),
    Set(Set),
}

/// Invalid managedFields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadManagers;

impl From<BadElement> for BadManagers {
    fn from(BadElement: BadElement) -> Self {
        Self
    }
}

/// The maximum number of managers with updates.
const MAX_UPDATERS: usize = 10;
/// The manager that gets the fields of the oldest managers beyond that number.
const ANCIENT: &str = "ancient-changes";

// === impl Identity ===

impl Identity {
    /// Returns the identity of a manager that updates; an empty name becomes "unknown".
    pub(super) fn update(manager: &str, api_version: &str, subresource: &str) -> Self {
        Self { operation: Operation::Update, api_version: api_version.to_owned(), ..Self::apply(manager, subresource) }
    }

    /// Returns the identity of a manager that applies; an empty name becomes "unknown".
    pub(super) fn apply(manager: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            manager: manager.to_owned(),
            operation: Operation::Apply,
            api_version: String::new(),
            subresource: subresource.to_owned(),
        }
    }

    /// Returns the sort key of conflicts.
    pub(super) fn rank(&self) -> (String, Operation, &str, bool, &str) {
        // The real server sorts by JSON text. There the quotation mark after a name sorts before all letters, and an
        // entry with a subresource sorts before one without.
        let whole = self.subresource.is_empty();
        (format!("{}\"", self.manager), self.operation, &self.api_version, whole, &self.subresource)
    }
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// === impl Fields ===

impl Fields {
    fn read(fields: &Value) -> Self {
        // Writes of scales store the keys in alphabetical order, so these sets have to be sorted again.
        if is_in_order(fields) {
            Self::Written(fields.clone())
        } else {
            Self::Set(Set::parse(fields).unwrap_or_default())
        }
    }

    /// Returns the fields as a set.
    pub(super) fn to_set(&self) -> Set {
        match self {
            // Text that the server stored is always valid.
            Self::Written(fields) => Set::parse(fields).unwrap_or_default(),
            Self::Set(set) => set.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Written(fields) => fields.as_object().is_none_or(Map::is_empty),
            Self::Set(set) => set.is_empty(),
        }
    }

    /// Reports whether any field of `other` is among these fields.
    pub(super) fn intersects(&self, other: &Set) -> bool {
        match self {
            Self::Written(fields) => other.intersects(fields),
            Self::Set(set) => !set.intersection(other).is_empty(),
        }
    }

    /// Reports whether all fields of `other` are among these fields.
    pub(super) fn contains(&self, other: &Set) -> bool {
        match self {
            Self::Written(fields) => other.is_within(fields),
            Self::Set(set) => other.difference(set).is_empty(),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Written(fields) => fields,
            Self::Set(set) => set.to_value(),
        }
    }
}

/// Reports whether stored fields are in the order of sets rather than alphabetical. Only the order of numbers differs.
fn is_in_order(fields: &Value) -> bool {
    let Value::Object(fields) = fields else { return true };
    let has_digits = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    let is_order_sensitive = |text: &&String| match text.as_bytes() {
        [b'i', ..] | [b'v', .., b'0'..=b'9'] => true,
        [b'k', .., b'}'] => has_digits(text),
        _ => false,
    };
    let order_sensitive = fields.keys().filter(is_order_sensitive);
    // A single element is always in order, and most sets have none.
    let in_order = order_sensitive.clone().nth(1).is_none() || {
        let elements = order_sensitive.map(|text| Element::parse(text).ok().flatten());
        let elements: Option<Vec<Element>> = elements.collect();
        elements.is_some_and(|elements| elements.is_sorted_by(|a, b| a < b))
    };
    in_order && fields.values().all(is_in_order)
}

// === impl Managers ===

impl Managers {
    /// Parses managedFields that the server stored.
    pub(super) fn written(managed_fields: Option<&Value>) -> Self {
        let entries = managed_fields.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut managers = Self::default();
        for entry in entries {
            let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
            managers.put(Manager::read(entry, Fields::read(fields)));
        }
        managers
    }

    /// Parses managedFields that a client sent.
    pub(super) fn given(managed_fields: &Value) -> Result<Self, BadManagers> {
        let mut managers = Self::default();
        for entry in managed_fields.as_array().ok_or(BadManagers)? {
            let known = matches!(entry.text(&["operation"]), "Apply" | "Update");
            if !known || entry.text(&["apiVersion"]).is_empty() || entry.text(&["fieldsType"]) != "FieldsV1" {
                return Err(BadManagers);
            }
            let set = Set::parse(entry.get("fieldsV1").unwrap_or(&Value::Null))?;
            managers.put(Manager::read(entry, Fields::Set(set)));
        }
        Ok(managers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn find(&self, identity: &Identity) -> Option<&Manager> {
        self.entries.iter().find(|manager| manager.identity == *identity)
    }

    pub(super) fn find_mut(&mut self, identity: &Identity) -> Option<&mut Manager> {
        self.entries.iter_mut().find(|manager| manager.identity == *identity)
    }

    /// Adds a manager, or replaces the one with the same identity.
    pub(super) fn put(&mut self, manager: Manager) {
        match self.find_mut(&manager.identity) {
            Some(known) => *known = manager,
            None => self.entries.push(manager),
        }
    }

    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|manager| !manager.fields.is_empty());
    }

    /// Moves the fields of the oldest updaters to one manager if there are too many updaters.
    pub(super) fn merge_oldest_updaters(&mut self) {
        let is_updater = |manager: &&Manager| manager.identity.operation == Operation::Update;
        let mut left = self.entries.iter().filter(is_updater).count();
        if left <= MAX_UPDATERS {
            return;
        }
        let mut updaters: Vec<(Option<String>, Identity)> = self
            .entries
            .iter()
            .filter(is_updater)
            .map(|manager| (manager.time.clone(), manager.identity.clone()))
            .collect();
        updaters.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.rank().cmp(&b.1.rank())));
        // The first updater of each version moves only if there is a second one of that version.
        let mut first_updaters: Vec<Identity> = Vec::new();
        for (time, identity) in updaters {
            if left <= MAX_UPDATERS {
                break;
            }
            let Some(first) = first_updaters.iter().find(|first| first.api_version == identity.api_version).cloned()
            else {
                first_updaters.push(identity);
                continue;
            };
            let ancient_identity = Identity::update(ANCIENT, &identity.api_version, "");
            if self.find(&ancient_identity).is_none()
                && let Some(first) = self.find_mut(&first)
            {
                first.identity = ancient_identity.clone();
            }
            if ancient_identity == identity {
                continue;
            }
            let Some(at) = self.entries.iter().position(|manager| manager.identity == identity) else { continue };
            let old = self.entries.swap_remove(at);
            if let Some(ancient) = self.find_mut(&ancient_identity) {
                ancient.fields = Fields::Set(ancient.fields.to_set().union(&old.fields.to_set()));
                ancient.time = time;
            }
            left -= 1;
        }
    }

    /// Encodes the managedFields for an object; `None` if there are no managers.
    pub(super) fn into_value(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.sort_by(|a, b| a.order().cmp(&b.order()));
        Some(self.entries.into_iter().map(Manager::into_value).collect())
    }
}

// === impl Manager ===

impl Manager {
    fn read(entry: &Value, fields: Fields) -> Self {
        let api_version = entry.text(&["apiVersion"]);
        let (manager, subresource) = (entry.text(&["manager"]).to_owned(), entry.text(&["subresource"]).to_owned());
        let (operation, of_identity) = match entry.text(&["operation"]) {
            "Apply" => (Operation::Apply, ""),
            _ => (Operation::Update, api_version),
        };
        Self {
            identity: Identity { manager, operation, api_version: of_identity.to_owned(), subresource },
            api_version: api_version.to_owned(),
            fields,
            time: entry.at(&["time"]).and_then(Value::as_str).map(str::to_owned),
        }
    }

    fn order(&self) -> (Operation, Option<&str>, &str, &str, &str) {
        let identity = &self.identity;
        (identity.operation, self.time.as_deref(), &identity.manager, &self.api_version, &identity.subresource)
    }

    fn into_value(self) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
        if !self.identity.manager.is_empty() {
            put("manager", self.identity.manager.into());
        }
        put("operation", self.identity.operation.text().into());
        put("apiVersion", self.api_version.into());
        if let Some(time) = self.time {
            put("time", time.into());
        }
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.fields.into_value());
        if !self.identity.subresource.is_empty() {
            put("subresource", self.identity.subresource.into());
        }
        Value::Object(entry)
    }
}

// === managedFields in objects ===

/// Removes managedFields from an object and returns them.
pub(crate) fn detach(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.shift_remove("managedFields")
}

/// The managedFields of an object, and their position in its metadata.
#[derive(Debug)]
pub(crate) struct DetachedFields(Option<(usize, Value)>);

impl DetachedFields {
    /// Takes the managedFields out of an object.
    pub(crate) fn take(object: &mut Value) -> Self {
        let take = |metadata: &mut Map<String, Value>| {
            let index = metadata.keys().position(|key| key == "managedFields")?;
            Some((index, metadata.shift_remove("managedFields")?))
        };
        Self(object.get_mut("metadata").and_then(Value::as_object_mut).and_then(take))
    }

    /// Puts the managedFields back. The metadata must not have changed since.
    pub(crate) fn restore(self, object: &mut Value) {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        if let (Some((index, managed_fields)), Some(metadata)) = (self.0, metadata) {
            metadata.shift_insert(index, "managedFields".to_owned(), managed_fields);
        }
    }
}

/// Copies an object without its managedFields, which may be the larger part of it.
pub(crate) fn clone_without_managed_fields(object: &Value) -> Value {
    let Some(fields) = object.as_object() else { return object.clone() };
    let copy = |(key, value): (&String, &Value)| match value {
        Value::Object(metadata) if key == "metadata" => {
            let rest = metadata.iter().filter(|(key, _)| *key != "managedFields");
            (key.clone(), Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect()))
        }
        value => (key.clone(), value.clone()),
    };
    Value::Object(fields.iter().map(copy).collect())
}

/// Adds managedFields to an object without any, at their position in the metadata.
pub(crate) fn attach(object: &mut Value, managed_fields: Option<Value>, style: Style) {
    let Some(mut managed_fields) = managed_fields else { return };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match style {
        // managedFields is the last field of the Go struct.
        Style::BuiltIn => drop(metadata.insert("managedFields".to_owned(), managed_fields)),
        Style::Custom => {
            sort_keys(&mut managed_fields);
            metadata.insert("managedFields".to_owned(), managed_fields);
            metadata.sort_keys();
        }
    }
}

/// Restores the old times of the managers if only the times have changed, so that the write counts as unchanged.
pub(crate) fn keep_times(new: &mut Value, old: &Value) {
    let fields = |object: &Value| object.items(&["metadata", "managedFields"]).len();
    if fields(new) == 0 || fields(new) != fields(old) {
        return;
    }
    let (after, before) = (new.items(&["metadata", "managedFields"]), old.items(&["metadata", "managedFields"]));
    if after == before || !after.iter().zip(before).all(|(after, before)| equal_except(after, before, &["time"])) {
        return;
    }
    let metadata = |object: &Value| object.get("metadata").cloned().unwrap_or_default();
    if equal_except(new, old, &["metadata"])
        && equal_except(&metadata(new), &metadata(old), &["managedFields", "resourceVersion"])
        && let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("managedFields".to_owned(), Value::Array(before.to_vec()));
    }
}

/// Reports whether two objects are equal except for these fields.
fn equal_except(a: &Value, b: &Value, but: &[&str]) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let counts = |map: &Map<String, Value>| map.keys().filter(|key| !but.contains(&key.as_str())).count();
    counts(a) == counts(b)
        && a.iter().all(|(key, value)| but.contains(&key.as_str()) || b.get(key).is_some_and(|other| other == value))
}
