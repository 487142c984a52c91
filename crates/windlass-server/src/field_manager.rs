//! Who owns which field of an object: `metadata.managedFields`, and server-side apply, which goes by it.
//!
//! ```text
//! update, apply   what a write makes of an object and of the ownership of its fields
//!   └ managers      managedFields, read and written
//!       └ set         sets of fields, and fieldsV1
//!           └ element   one step of a path
//!   └ compare, fields, merge, validate, items   what values of a type have to do with each other
//!       └ schema      types: which lists have keys, which objects are one value
//!   └ kind          the versions of a kind
//!   └ scale         owners of replicas, through the scale subresource
//! ```
//!
//! All of it is about values: nothing here knows of storage or requests.
//!
//! Guaranteed: an update owns the fields that it adds or changes, and takes them and those that it removes from all others; an
//! apply owns what it mentions. Sets are read and written only if a write changes them: what is left alone stays the text
//! that it was. An object that nobody tracks (its managedFields were cleared) stays so until something is applied to it.
//!
//! Not done: managedFields of objects that would be too large with them are not dropped.

use serde_json::{Map, Value};
use windlass_api::Status;

use self::managers::Managers;
use crate::{encoded::Style, registry::Tree};

mod apply;
mod compare;
mod element;
mod fields;
mod items;
mod kind;
mod managers;
mod merge;
mod scale;
mod schema;
mod set;
mod update;
mod validate;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    apply::Applier,
    kind::{Kind, TypeHandle, Version, show as shown_kind},
    managers::{attach, clone_without, detach, keep_times},
    scale::ReplicasPaths,
    schema::{Type, built_in, custom},
    set::Set,
};

/// The fields of these paths, dotted.
pub(crate) fn set_of(paths: &[&str]) -> Set {
    let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
    Set::of_fields(&paths.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Decides the managedFields of an object that `manager` is about to write in the place of `old` (none: to create). Both are of
/// the version of the request; `new` may come with managedFields of the client's own. It is left without any if the object
/// cannot be converted to the version of one of its managers.
pub(crate) fn update(kind: &Kind<'_>, old: Option<&Value>, new: &mut Value, manager: &str, now: &str, style: Style) {
    let given = detach(new);
    let live = old.and_then(|old| old.at(&["metadata", "managedFields"]));
    let mut is_foreign = kind.is_evolving;
    let mut managers = match &given {
        _ if !kind.subresource.is_empty() => Managers::written(live),
        Some(given) if is_reset(given) => Managers::default(),
        Some(given) if Some(given) != live => match Managers::given(given) {
            Ok(managers) if !managers.is_empty() => {
                is_foreign = true;
                managers
            }
            _ => Managers::written(live),
        },
        _ => Managers::written(live),
    };
    let is_tracked = !managers.is_empty() || old.is_none_or(|old| old.text(&["metadata", "uid"]).is_empty());
    if !is_tracked {
        return;
    }
    if is_foreign && managers.reconcile(kind).is_err() {
        return;
    }
    // As there, who owns what stays as it was when the object does not fit its schema; what is decoded into a type of its own
    // always does.
    if matches!(kind.ty, TypeHandle::Custom(_)) && !validate::fits(new, &kind.ty) {
        attach(new, managers.into_value(), style);
        return;
    }
    let old = old.unwrap_or(&kind.empty);
    if managers.check_versions(kind, old).is_err() {
        return;
    }
    if let Ok(managers) = update::updated(kind, old, new, managers, manager, now) {
        attach(new, managers.into_value(), style);
    }
}

/// Applies `patch` to `old` (none: to an object without content), both of the version of the request. The outcome has its
/// managedFields, and is not yet in the form of its kind; none: but for them nothing changes.
pub(crate) fn apply(
    kind: &Kind<'_>,
    old: Option<&Value>,
    patch: &Value,
    applier: Applier<'_>,
) -> Result<(Option<Value>, Option<Value>), Status> {
    let mut live = old.cloned().unwrap_or_else(|| kind.empty.clone());
    let managers = Managers::written(detach(&mut live).as_ref());
    let applied = apply::applied(kind, &live, patch, managers, applier)?;
    Ok((applied.object, applied.managers.into_value()))
}

/// The managedFields of the scale of an object.
pub(crate) fn to_scale(paths: &ReplicasPaths<'_>, managed_fields: Option<&Value>) -> Option<Value> {
    paths.of_scale(&Managers::written(managed_fields)).into_value()
}

/// The managedFields of an object after its scale has been written.
pub(crate) fn from_scale(
    paths: &ReplicasPaths<'_>,
    managed_fields: Option<&Value>,
    of_scale: Option<&Value>,
) -> Option<Value> {
    let mut value = paths.of_object(&Managers::written(managed_fields), Managers::written(of_scale)).into_value();
    // They pass through a tree there, whose keys are in alphabetical order.
    for entry in value.as_mut().and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = entry.get_mut("fieldsV1") {
            crate::codec::sort_keys(fields);
        }
    }
    value
}

/// Whether a client asks for the managedFields to be cleared: by an empty list, or by a list of one empty entry.
pub(crate) fn is_reset(managed_fields: &Value) -> bool {
    match managed_fields.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}
