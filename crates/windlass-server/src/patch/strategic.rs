//! Strategic merge patch: a merge patch that merges lists by key, as the tags of the Go structs specify.
//!
//! Directives in the patch: `$patch: replace` and `$patch: delete` on an object or list item, `$retainKeys`,
//! `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`. Merged lists keep, in this order of precedence, the
//! order of `$setElementOrder`, of the patch, and of the current list.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};
use windlass_api::{FieldValidation, Status};

use super::{go_format, go_type, unprocessable};
use crate::codec::{self, Decoded, Field, Struct};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList";
/// The maximum number of items for Go's quadratic sort, which is needed where Go's comparison is not a valid order.
const MAX_UNORDERED: usize = 1_000;

type Entries = Map<String, Value>;

/// The reason why a patch could not be merged.
#[derive(Debug, PartialEq)]
pub(super) enum Error {
    /// The patch is malformed: status 400.
    BadRequest(&'static str),
    /// The patch cannot be applied: status 422, without the reason.
    Unprocessable,
    /// An error that the real server does not classify: status 500 with this message.
    Unclassified(String),
}

impl Error {
    pub(super) fn into_status(self) -> Status {
        match self {
            Self::BadRequest(message) => Status::bad_request(message),
            Self::Unprocessable => unprocessable(),
            Self::Unclassified(message) => Status::unclassified(message),
        }
    }
}

const BAD_RETAIN_KEYS: Error = Error::BadRequest("invalid patch format of retainKeys");
const BAD_ELEMENT_ORDER: Error = Error::BadRequest("invalid patch format of setElementOrder list");
const BAD_PRIMITIVE_LIST: Error = Error::BadRequest("invalid patch format of primitive list");

/// Parses the patch, which must be an object.
pub(super) fn read(body: &[u8], validation: FieldValidation) -> Result<Decoded, Status> {
    let mut patch = codec::decode_untyped(body, validation).map_err(Status::bad_request)?;
    codec::float_large_numbers(&mut patch.value);
    let word = match &patch.value {
        Value::Object(_) => return Ok(patch),
        Value::Null => {
            patch.value = Value::Object(Entries::new());
            return Ok(patch);
        }
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
    };
    Err(Status::bad_request(format!("json: cannot unmarshal {word} into Go value of type map[string]interface {{}}")))
}

pub(super) fn apply(current: &Value, patch: &Value, shape: &'static Struct) -> Result<Value, Error> {
    let entries = |value: &Value| value.as_object().cloned().unwrap_or_default();
    merge(entries(current), entries(patch), Schema::Struct(shape)).map(Value::Object)
}

/// The type of an object, as far as it is known.
#[derive(Clone, Copy)]
enum Schema {
    Struct(&'static Struct),
    /// A map or another type without fields; Go's name of its kind.
    Other(&'static str),
}

/// The type of a field's object or list items, and the merge strategy of its lists.
struct Lookup {
    schema: Schema,
    strategy: &'static str,
    merge_key: &'static str,
}

impl Schema {
    fn field(self, name: &str) -> Result<&'static Field, Error> {
        match self {
            Self::Struct(shape) => shape
                .field(name)
                .or_else(|| shape.fields().iter().find(|field| field.name.eq_ignore_ascii_case(name)))
                .ok_or_else(|| {
                    let name = codec::go_quote(name);
                    Error::Unclassified(format!(
                        "unable to find api field in struct {} for the json field {name}",
                        shape.go_name()
                    ))
                }),
            Self::Other(kind) => Err(Error::Unclassified(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            ))),
        }
    }

    fn object(self, name: &str) -> Result<Lookup, Error> {
        let field = self.field(name)?;
        let schema = field.ty.as_struct().map_or_else(|| Self::Other(field.ty.go_kind()), Self::Struct);
        Ok(Lookup { schema, strategy: strategy(field), merge_key: field.patch_merge_key })
    }

    fn list(self, name: &str) -> Result<Lookup, Error> {
        let field = self.field(name)?;
        let element = field.ty.element().ok_or_else(|| {
            let kind = match self {
                Self::Struct(_) => "struct",
                Self::Other(kind) => kind,
            };
            Error::Unclassified(format!("expected slice or array type, but got: {kind}"))
        })?;
        let schema = element.as_struct().map_or_else(|| Self::Other(element.go_kind()), Self::Struct);
        Ok(Lookup { schema, strategy: strategy(field), merge_key: field.patch_merge_key })
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Struct(_) => "struct",
            Self::Other(kind) => kind,
        }
    }
}

/// Returns the merge strategy of a field. `retainKeys` is ignored, because only clients that create patches use it.
fn strategy(field: &Field) -> &'static str {
    field.patch_strategy.split(',').find(|strategy| *strategy != "retainKeys").unwrap_or_default()
}

fn merge(mut original: Entries, mut patch: Entries, schema: Schema) -> Result<Entries, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.shift_remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Entries::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(&mut original, &mut patch, schema)?;
    for (key, mut value) in patch {
        let from_deletions = key.starts_with(DELETE_PRIMITIVES);
        let key = if from_deletions {
            key.strip_prefix(DELETE_PRIMITIVES)
                .and_then(|rest| rest.strip_prefix('/'))
                .ok_or(BAD_PRIMITIVE_LIST)?
                .to_owned()
        } else {
            key
        };
        if value.is_null() {
            original.shift_remove(&key);
            continue;
        }
        let slot = original.get_mut(&key);
        let merged = match (slot, value) {
            (Some(Value::Object(current)), Value::Object(patch)) => {
                let lookup = schema.object(&key)?;
                let current = std::mem::take(current);
                Value::Object(if lookup.strategy == "replace" { patch } else { merge(current, patch, lookup.schema)? })
            }
            (Some(Value::Array(current)), Value::Array(patch)) => {
                let lookup = schema.list(&key)?;
                let current = std::mem::take(current);
                Value::Array(merge_lists(current, patch, &lookup, from_deletions)?)
            }
            (_, _) if from_deletions => continue,
            (Some(current), scalar) if same_type(current, &scalar) => scalar,
            (_, other) => {
                value = other;
                discard_nulls(&mut value);
                let Some(value) = without_directives(value) else {
                    original.shift_remove(&key);
                    continue;
                };
                value
            }
        };
        original.insert(key, merged);
    }
    Ok(original)
}

/// Removes all keys that are not in `$retainKeys`. The patch may not set other keys.
fn retain_keys(original: &mut Entries, patch: &mut Entries) -> Result<(), Error> {
    let Some(list) = patch.shift_remove(RETAIN_KEYS) else { return Ok(()) };
    let list = list.as_array().ok_or(BAD_RETAIN_KEYS)?;
    let keys: HashSet<&str> = list.iter().filter_map(Value::as_str).collect();
    let of_a_list = |key: &str| key.starts_with(DELETE_PRIMITIVES) || key.starts_with(ELEMENT_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !of_a_list(key) && !keys.contains(key.as_str())) {
        return Err(BAD_RETAIN_KEYS);
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// Merges the lists with a `$setElementOrder` directive, and removes the lists and directives from the patch.
fn order_lists(original: &mut Entries, patch: &mut Entries, schema: Schema) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let order = array(patch.shift_remove(&directive).unwrap_or_default())?;
        let key =
            directive.strip_prefix(ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/')).ok_or(BAD_ELEMENT_ORDER)?;
        let current = original.get(key).cloned().map(array).transpose()?;
        let listed = patch.get(key).cloned().map(array).transpose()?;
        let lookup = schema.list(key)?;
        let by_key = !lookup.merge_key.is_empty();
        check_order(listed.as_deref(), &order, lookup.merge_key)?;
        let live = current.clone().unwrap_or_default();
        let kind = element_kind(&[&live, listed.as_deref().unwrap_or_default()]);
        let merged = match (current, listed) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(listed)) => listed.into_iter().filter_map(without_directives).collect(),
            (Some(current), Some(listed)) => merge_lists(current, listed, &lookup, false)?,
        };
        let (listed, unlisted) = partition(merged, &order, lookup.merge_key)?;
        let is_map =
            kind?.ok_or_else(|| Error::Unclassified("no elements in any of the given slices".into()))? == "map";
        let ordered =
            merge_ordered(listed, unlisted, &order, &live, if is_map && by_key { lookup.merge_key } else { "" })?;
        original.insert(key.to_owned(), Value::Array(ordered));
        patch.shift_remove(key);
    }
    Ok(())
}

/// Checks that the patch's items are in the order of `$setElementOrder`, and that all of them are in that list.
fn check_order(listed: Option<&[Value]>, order: &[Value], merge_key: &str) -> Result<(), Error> {
    // Go treats an absent list like an empty one.
    let listed = listed.unwrap_or_default();
    if order.is_empty() || listed.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::with_capacity(listed.len());
    for item in listed {
        let deleted =
            !merge_key.is_empty() && object(item)?.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
        if !deleted {
            kept.push(item);
        }
    }
    let (mut at, mut place) = (0, 0);
    while at < kept.len() && place < order.len() {
        let item = kept[at];
        if item.is_object() && item.get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        let other = &order[place];
        let same =
            if merge_key.is_empty() { item == other } else { key_of(item, merge_key)? == key_of(other, merge_key)? };
        at += usize::from(same);
        place += 1;
    }
    if at >= kept.len() {
        return Ok(());
    }
    let print = |items: &[Value]| go_format(&Value::Array(items.to_vec()));
    Err(Error::Unclassified(format!(
        "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
        print(listed),
        print(order)
    )))
}

fn merge_lists(original: Vec<Value>, patch: Vec<Value>, lookup: &Lookup, deletions: bool) -> Result<Vec<Value>, Error> {
    if lookup.strategy != "merge" && !deletions {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let is_map = element_kind(&[&original, &patch])? == Some("map");
    if !is_map {
        if deletions {
            let deleted_items: HashSet<String> = patch.iter().map(Value::to_string).collect();
            return Ok(original.into_iter().filter(|item| !deleted_items.contains(&item.to_string())).collect());
        }
        let live = original.clone();
        let merged = deduplicate(original.into_iter().chain(patch.iter().cloned()).collect());
        let (listed, unlisted) = partition(merged, &patch, "")?;
        return merge_ordered(listed, unlisted, &patch, &live, "");
    }
    let merge_key = lookup.merge_key;
    if merge_key.is_empty() {
        let kind = lookup.schema.kind();
        return Err(Error::Unclassified(format!("cannot merge lists without merge key for {kind}")));
    }
    let (original, patch) = apply_item_directives(original, patch, merge_key)?;
    let live = original.clone();
    let mut merged = original;
    let mut places: HashMap<Value, usize> = HashMap::with_capacity(merged.len());
    for (index, item) in merged.iter().enumerate() {
        if let Some(key) = item.get(merge_key) {
            places.entry(key.clone()).or_insert(index);
        }
    }
    for item in &patch {
        let key = key_of(item, merge_key)?;
        if let Some(index) = places.get(key) {
            let current = object(&merged[*index])?.clone();
            merged[*index] = Value::Object(merge(current, object(item)?.clone(), lookup.schema)?);
        } else {
            places.insert(key.clone(), merged.len());
            merged.push(item.clone());
        }
    }
    let (listed, unlisted) = partition(merged, &patch, merge_key)?;
    merge_ordered(listed, unlisted, &patch, &live, merge_key)
}

/// Applies the `$patch` directives of list items. Returns the original items and the patch's remaining items.
fn apply_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted: HashSet<Value> = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                deleted.insert(key_of(&item, merge_key)?.clone());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Error::Unclassified("merging lists cannot yet be specified in the patch".into()));
            }
            _ => return Err(bad_directive(directive, object(&item)?)),
        }
    }
    if !deleted.is_empty() {
        original.retain(|current| current.get(merge_key).is_none_or(|key| !deleted.contains(key)));
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

/// Removes duplicates as Go does: the last item of the list moves to the place of each duplicate.
fn deduplicate(mut items: Vec<Value>) -> Vec<Value> {
    let mut places: HashMap<Value, BTreeSet<usize>> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        places.entry(item.clone()).or_default().insert(index);
    }
    if places.len() == items.len() {
        return items;
    }
    let mut at = 0;
    while at < items.len() {
        let item = items[at].clone();
        while let Some(again) = places.get(&item).and_then(|places| places.range(at + 1..).next()).copied() {
            places.entry(item.clone()).or_default().remove(&again);
            let last = items.len() - 1;
            items.swap_remove(again);
            if again < last {
                let moved = places.entry(items[again].clone()).or_default();
                moved.remove(&last);
                moved.insert(again);
            }
        }
        at += 1;
    }
    items
}

/// Splits items into those that are also in `by` and those that are not.
fn partition(items: Vec<Value>, by: &[Value], merge_key: &str) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let known: HashSet<String> = by.iter().filter_map(|item| identity(item, merge_key)).collect();
    let (mut listed, mut unlisted) = (Vec::new(), Vec::new());
    for item in items {
        if !merge_key.is_empty() {
            key_of(&item, merge_key)?;
        }
        let is_listed = identity(&item, merge_key).is_some_and(|identity| known.contains(&identity));
        if is_listed { listed.push(item) } else { unlisted.push(item) }
    }
    Ok((listed, unlisted))
}

/// Sorts both lists and merges them. An unlisted item comes before the first listed item that it precedes in the live
/// list; otherwise it comes at the end.
fn merge_ordered(
    listed: Vec<Value>,
    unlisted: Vec<Value>,
    order: &[Value],
    live: &[Value],
    merge_key: &str,
) -> Result<Vec<Value>, Error> {
    let positions = |items: &[Value]| -> Result<HashMap<String, usize>, Error> {
        let mut positions = HashMap::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if !merge_key.is_empty() {
                key_of(item, merge_key)?;
            }
            if let Some(identity) = identity(item, merge_key) {
                positions.entry(identity).or_insert(index);
            }
        }
        Ok(positions)
    };
    let live = positions(live)?;
    let listed = sorted(listed, &positions(order)?, merge_key);
    let unlisted = sorted(unlisted, &live, merge_key);
    let place = |item: &Value| identity(item, merge_key).and_then(|identity| live.get(&identity).copied());
    let mut merged = Vec::with_capacity(listed.len() + unlisted.len());
    let mut unlisted = unlisted.into_iter().peekable();
    for item in listed {
        let here = place(&item);
        while let (Some(before), Some(here)) = (unlisted.peek().and_then(place), here) {
            if before >= here {
                break;
            }
            merged.extend(unlisted.next());
        }
        merged.push(item);
    }
    merged.extend(unlisted);
    Ok(merged)
}

/// Sorts items by position. In Go's comparison an item without a position is smaller than any item before it.
fn sorted(mut items: Vec<Value>, order: &HashMap<String, usize>, merge_key: &str) -> Vec<Value> {
    let place = |item: &Value| identity(item, merge_key).and_then(|identity| order.get(&identity).copied());
    let mut places: Vec<Option<usize>> = items.iter().map(place).collect();
    if places.is_sorted_by(|left, right| left.is_some() && right.is_some() && left <= right) {
        return items;
    }
    // If all items have a position, Go's comparison is a valid order.
    if places.iter().all(Option::is_some) || items.len() > MAX_UNORDERED {
        let mut sorted: Vec<_> = places.into_iter().zip(items).collect();
        sorted.sort_by_key(|(place, _)| *place);
        return sorted.into_iter().map(|(_, item)| item).collect();
    }
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && places[at].zip(places[at - 1]).is_none_or(|(this, before)| this < before) {
            items.swap(at, at - 1);
            places.swap(at, at - 1);
            at -= 1;
        }
    }
    items
}

/// Returns the identity of an item: the value of its merge key, or the item itself.
fn identity(item: &Value, merge_key: &str) -> Option<String> {
    if merge_key.is_empty() { Some(item.to_string()) } else { item.get(merge_key).map(Value::to_string) }
}

fn key_of<'a>(item: &'a Value, merge_key: &str) -> Result<&'a Value, Error> {
    object(item)?.get(merge_key).ok_or_else(|| {
        Error::Unclassified(format!("map: {} does not contain declared merge key: {merge_key}", go_format(item)))
    })
}

fn object(item: &Value) -> Result<&Entries, Error> {
    item.as_object().ok_or_else(|| {
        Error::Unclassified(format!("expected a map[string]interface {{}}, but received a {}", printed_type(item)))
    })
}

fn array(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(items) => Ok(items),
        other => {
            Err(Error::Unclassified(format!("expected a []interface {{}}, but received a {}", printed_type(&other))))
        }
    }
}

/// Returns the kind of all items; `None` if there are no items. Returns an error if the kinds differ.
fn element_kind(lists: &[&[Value]]) -> Result<Option<&'static str>, Error> {
    let mut found = None;
    for item in lists.iter().copied().flatten() {
        let kind = match item {
            Value::Object(_) => "map",
            Value::Array(_) if found.is_none() => return Err(Error::Unprocessable),
            other => printed_type(other),
        };
        if found.is_some_and(|found| found != kind) {
            let lists: Vec<Value> = lists.iter().map(|items| Value::Array(items.to_vec())).collect();
            let lists = go_format(&Value::Array(lists));
            return Err(Error::Unclassified(format!("list element types are not identical: {lists}")));
        }
        found = Some(kind);
    }
    Ok(found)
}

fn same_type(left: &Value, right: &Value) -> bool {
    go_type(left) == go_type(right)
}

/// Returns Go's `%s` of a value's type; nil has no type.
fn printed_type(value: &Value) -> &'static str {
    if value.is_null() { "%!s(<nil>)" } else { go_type(value) }
}

fn bad_directive(directive: &Value, patch: &Entries) -> Error {
    let patch = go_format(&Value::Object(patch.clone()));
    Error::Unclassified(format!("unknown patch type: {} in map: {patch}", go_text(directive)))
}

/// Formats a value that should be a string like Go's `%s`.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", go_type(value), go_format(value)),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let item = |item: &Value| if item.is_null() { "<nil>".to_owned() } else { go_text(item) };
            format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(" "))
        }
        Value::Object(_) => go_format(value),
    }
}

/// Removes all objects with a directive from a value; returns `None` if the value is such an object.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(entries) if entries.contains_key(DIRECTIVE) => None,
        Value::Object(entries) => Some(Value::Object(
            entries.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(discard_nulls);
        }
        _ => {}
    }
}
