//! Field ownership: `metadata.managedFields`, and server-side apply, which uses it.
//!
//! ```text
//! update, apply   the effect of a write on an object and on the ownership of its fields
//!   └ managers      managedFields, parsed and encoded
//!       └ set         sets of fields, and fieldsV1
//!           └ element   one element of a path
//!   └ compare, fields, merge, validate, items   operations on values of a type
//!       └ schema      types: which lists have keys, which objects are atomic
//!   └ kind          the versions of a kind
//!   └ scale         managers of replicas, through the scale subresource
//! ```
//!
//! This module only works on values. It does not depend on storage or requests.
//!
//! Guaranteed: an update makes its manager the owner of the fields that it adds or changes. All other managers lose
//! these fields and the removed ones. An apply makes its manager the owner of the fields in its configuration. Sets are
//! parsed and encoded only if a write changes them; the text of other sets stays unchanged. If the managedFields of an
//! object have been cleared, updates do not track it until the next apply.
//!
//! Not done: managedFields that make an object too large are not dropped.

use serde_json::{Map, Value};
use windlass_api::Status;

use self::managers::Managers;
use crate::{encoded::Style, object::Tree};

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
    managers::{DetachedFields, attach, clone_without_managed_fields, detach, keep_times},
    merge::merge_into,
    scale::ReplicasPaths,
    schema::{Type, built_in, custom},
    set::Set,
};

/// Returns the set of these dotted paths.
pub(crate) fn set_of(paths: &[&str]) -> Set {
    let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
    Set::of_fields(&paths.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Computes the managedFields of an object that `manager` is about to write. `old` is the replaced object, or `None`
/// for a creation. Both are in the version of the request; `new` may contain managedFields from the client. If the
/// object cannot be converted to the version of one of its managers, `new` gets the managedFields of `old` or none.
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
    let failed = |new: &mut Value| {
        if kind.keeps_managers {
            attach(new, live.cloned(), style);
        }
    };
    if is_foreign && managers.reconcile(kind).is_err() {
        return failed(new);
    }
    // As in the real server, ownership does not change if a custom resource does not fit its schema. Built-in types
    // always fit.
    if matches!(kind.ty, TypeHandle::Custom(_)) && !validate::fits(new, &kind.ty) {
        attach(new, managers.into_value(), style);
        return;
    }
    let old = old.unwrap_or(&kind.empty);
    if managers.check_versions(kind, old).is_err() {
        return failed(new);
    }
    match update::updated(kind, old, new, managers, manager, now) {
        Ok(managers) => attach(new, managers.into_value(), style),
        Err(_) => failed(new),
    }
}

/// Applies `patch` to `old`, or to an empty object if `old` is `None`. Both are in the version of the request. Returns
/// the object, which is not yet in the form of its kind, or `None` if only managedFields change; and the managedFields.
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

/// Returns the managedFields of an object's scale.
pub(crate) fn to_scale(paths: &ReplicasPaths<'_>, managed_fields: Option<&Value>) -> Option<Value> {
    paths.of_scale(&Managers::written(managed_fields)).into_value()
}

/// Returns the managedFields of an object after a write of its scale.
pub(crate) fn from_scale(
    paths: &ReplicasPaths<'_>,
    managed_fields: Option<&Value>,
    of_scale: Option<&Value>,
) -> Option<Value> {
    let mut value = paths.of_object(&Managers::written(managed_fields), Managers::written(of_scale)).into_value();
    // In the real server they pass through an unstructured object, which sorts the keys.
    for entry in value.as_mut().and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = entry.get_mut("fieldsV1") {
            crate::codec::sort_keys(fields);
        }
    }
    value
}

/// Reports whether a client asks to clear managedFields: with an empty list, or with a list of one empty entry.
pub(crate) fn is_reset(managed_fields: &Value) -> bool {
    match managed_fields.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}
