//! Server-side apply: merges the applied configuration into the object, and removes fields that are no longer applied.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::{Cause, Status, StatusDetails, reason};

use super::{
    compare::{Changes, strip},
    element::{Element, equal},
    fields::fields_of,
    items::BadItem,
    kind::{CompareError, Difference, Kind, during, show},
    managers::{Fields, Identity, Manager, Managers, Operation},
    merge::{merge, remove},
    schema::Type,
    set::Set,
    update::updated,
    validate::check,
};
use crate::{
    codec::{go_json, go_quote, sort_keys},
    object::Tree,
};

/// The client and options of an apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applier<'a> {
    pub(crate) manager: &'a str,
    /// `true` takes conflicting fields from their managers.
    pub(crate) force: bool,
    /// The current time, in the format of the API.
    pub(crate) now: &'a str,
}

/// The result of an apply.
#[derive(Debug)]
pub(super) struct Applied {
    /// The changed object; `None` if it stays as it is.
    pub(super) object: Option<Value>,
    pub(super) managers: Managers,
}

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: Identity,
    pub(super) path: Vec<Element>,
}

/// The reason why an apply was rejected.
#[derive(Debug)]
pub(super) enum Refusal {
    Conflicts(Vec<Conflict>),
    Other(Status),
}

/// The manager of the fields that exist before the first apply.
const BEFORE_FIRST: &str = "before-first-apply";
/// The manager that takes over its own fields from client-side apply.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The maximum size of all annotations, keys and values together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Other(status)
    }
}

/// Applies `patch` to the object `live`, which has no managedFields. Both are in the version of the request.
pub(super) fn applied(
    kind: &Kind<'_>,
    live: &Value,
    patch: &Value,
    mut managers: Managers,
    applier: Applier<'_>,
) -> Result<Applied, Status> {
    let (api_version, name) = (patch.text(&["apiVersion"]), patch.text(&["kind"]));
    if api_version != kind.api_version || name != kind.kind {
        return Err(Status::bad_request(format!("invalid object type: {}", show(api_version, name))));
    }
    if managers.is_empty() {
        let owned = updated(kind, &kind.empty, live, managers, BEFORE_FIRST, applier.now);
        managers = owned
            .map_err(|bad| Status::unclassified(format!("failed to create manager for existing fields: {bad}")))?;
    }
    let attempt = |force| merged(kind, live, patch, managers.clone(), Applier { force, ..applier });
    let mut applied = match attempt(applier.force) {
        Err(Refusal::Conflicts(conflicts)) if applier.manager == KUBECTL => {
            let conflicts = match owned_by_last_applied(kind, live) {
                None => conflicts,
                Some(owned) => conflicts.into_iter().filter(|conflict| !owned.has(&conflict.path)).collect(),
            };
            if conflicts.is_empty() { attempt(true) } else { Err(Refusal::Conflicts(conflicts)) }
        }
        outcome => outcome,
    }
    .map_err(Refusal::into_status)?;
    if applier.manager == KUBECTL {
        let shown = applied.object.as_ref().unwrap_or(live);
        if !shown.text(&["metadata", "annotations", LAST_APPLIED]).is_empty() {
            let mut object = applied.object.take().unwrap_or_else(|| live.clone());
            set_last_applied(&mut object, patch);
            applied.object = Some(object).filter(|object| object != live);
        }
    }
    Ok(applied)
}

fn merged(
    kind: &Kind<'_>,
    live: &Value,
    patch: &Value,
    mut managers: Managers,
    applier: Applier<'_>,
) -> Result<Applied, Refusal> {
    // Unlike null, an empty list is not nil in Go.
    if patch.at(&["metadata", "managedFields"]).is_some_and(Value::is_array) {
        return Err(Status::bad_request("metadata.managedFields must be nil").into());
    }
    check(patch, &kind.ty).map_err(|why| {
        let (namespace, name) = (patch.text(&["metadata", "namespace"]), patch.text(&["metadata", "name"]));
        Status::unclassified(format!(
            "failed to create typed patch object ({namespace}/{name}; {}): {why}",
            kind.format_gvk()
        ))
    })?;
    let failed = |what: &'static str| move |bad: BadItem| Status::unclassified(format!("failed to {what}: {bad}"));
    managers.check_versions(kind, live)?;
    if kind.is_evolving {
        managers.reconcile(kind)?;
    }
    let merged = merge(live, patch, &kind.ty).map_err(failed("merge config"))?;
    let identity = Identity::apply(applier.manager, kind.subresource);
    let last = managers.find(&identity).cloned();
    let set = fields_of(patch, &kind.ty).without(&kind.reset);
    managers.put(Manager {
        identity: identity.clone(),
        api_version: kind.api_version.clone(),
        fields: Fields::Set(set),
        time: last.as_ref().and_then(|last| last.time.clone()),
    });
    let new = match &last {
        Some(last) if !last.fields.is_empty() => {
            pruned(kind, merged, &managers, last).map_err(during("failed to prune fields"))?
        }
        _ => merged,
    };
    let difference = Difference::new(kind, live, &new);
    if !applier.force {
        let conflicts = managers.conflicts(&identity, &difference).map_err(CompareError::into_status)?;
        if !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
    }
    managers.remove_changed(&identity, &difference).map_err(CompareError::into_status)?;
    let changed = !equal(live, &new);
    if let Some(own) = managers.find_mut(&identity) {
        own.fields = Fields::Set(strip(&own.fields.to_set()));
        if changed {
            own.time = Some(applier.now.to_owned());
        }
    }
    managers.drop_empty();
    Ok(Applied { object: changed.then_some(new), managers })
}

/// Removes the fields that the manager applied before but no longer applies, unless another manager owns them.
fn pruned(kind: &Kind<'_>, merged: Value, managers: &Managers, last: &Manager) -> Result<Value, Status> {
    let (own, version) = (kind.api_version.as_str(), last.api_version.as_str());
    let then = kind.convert(&merged, own, version);
    // If the version of the last apply is no longer available, its fields stay.
    let (Some(ty), Some(mut merged_then)) =
        (kind.type_in(version)?, then.map_err(during("failed to convert merged object to last applied version"))?)
    else {
        return Ok(merged);
    };
    let last_set = last.fields.to_set().with_named_fields(Some(&ty));
    let mut pruned = remove_or_all(&merged_then, &last_set, &ty);
    // The version of the last apply comes first, because other conversions may need the fields that it adds back.
    let mut owned: BTreeMap<(bool, &str), Set> = BTreeMap::new();
    for manager in &managers.entries {
        let fields = owned.entry((manager.api_version != version, &manager.api_version)).or_default();
        *fields = fields.union(&manager.fields.to_set());
    }
    let mut current = version;
    for ((_, owner), fields) in &owned {
        let failed =
            |which| format!("failed add back owned items: failed to convert {which} object at version {owner}");
        let (whole, rest) = (kind.convert(&merged_then, current, owner), kind.convert(&pruned, current, owner));
        let whole = whole.map_err(during(failed("merged")))?;
        let rest = rest.map_err(during(failed("pruned")))?;
        let (Some(ty), Some(whole), Some(rest)) = (kind.type_in(owner)?, whole, rest) else { continue };
        let named = |set: &Set| set.with_named_fields(Some(&ty));
        let kept = named(&fields_of(&rest, &ty)).union(&named(fields));
        pruned = remove_or_all(&whole, &named(&fields_of(&whole, &ty)).difference(&kept), &ty);
        (merged_then, current) = (whole, owner);
    }
    // Of the fields that are now missing, only those that the manager had applied are removed.
    let failed = "failed add back dangling items: failed to convert pruned object to last applied version";
    let (whole, rest) = (kind.convert(&merged_then, current, version), kind.convert(&pruned, current, version));
    let (Some(whole), Some(rest)) = (whole?, rest.map_err(during(failed))?) else {
        return Ok(merged);
    };
    let named = |value: &Value| fields_of(value, &ty).with_named_fields(Some(&ty));
    let removed = named(&whole).difference(&named(&rest)).intersection(&last_set);
    Ok(kind.convert(&remove_or_all(&whole, &removed, &ty), version, own)?.unwrap_or(merged))
}

fn remove_or_all(value: &Value, fields: &Set, ty: &Type) -> Value {
    if fields.is_empty() { value.clone() } else { remove(value, fields, ty) }
}

/// Returns the fields of the last client-side apply that are unchanged since then.
fn owned_by_last_applied(kind: &Kind<'_>, live: &Value) -> Option<Set> {
    let text = live.text(&["metadata", "annotations", LAST_APPLIED]);
    let last: Value = serde_json::from_str(text).ok()?;
    if last.text(&["apiVersion"]) != kind.api_version || check(&last, &kind.ty).is_err() {
        return None;
    }
    let changes = Changes::between(&last, live, &kind.ty).ok()?;
    let changed = changes.removed.union(&changes.set_fields());
    Some(fields_of(&last, &kind.ty).difference(&changed))
}

/// Updates the annotation that records the last client-side apply.
fn set_last_applied(object: &mut Value, patch: &Value) {
    let mut patch = patch.clone();
    if let Some(annotations) = patch.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations")) {
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.shift_remove(LAST_APPLIED);
        }
        // Go removes the map with its last key.
        if annotations.as_object().is_some_and(serde_json::Map::is_empty)
            && let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.shift_remove("annotations");
        }
    }
    sort_keys(&mut patch);
    let text = format!("{}\n", go_json(&patch));
    let metadata = object.get_mut("metadata");
    let Some(annotations) =
        metadata.and_then(|metadata| metadata.get_mut("annotations")).and_then(Value::as_object_mut)
    else {
        return;
    };
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT {
        annotations.shift_remove(LAST_APPLIED);
    }
}

// === conflicts ===

impl Refusal {
    fn into_status(self) -> Status {
        match self {
            Self::Other(status) => status,
            Self::Conflicts(conflicts) => conflict_status(&conflicts),
        }
    }
}

fn conflict_status(conflicts: &[Conflict]) -> Status {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", format_manager(&conflict.manager)),
        field: conflict.field(),
    });
    let details = StatusDetails { causes: causes.collect(), ..StatusDetails::default() };
    let message = match conflicts {
        [only] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", format_manager(&only.manager), only.field())
        }
        many => {
            let groups = many.chunk_by(|a, b| a.manager == b.manager).map(|group| {
                let fields: String = group.iter().map(|conflict| format!("\n- {}", conflict.field())).collect();
                format!("conflicts with {}:{fields}", format_manager(&group[0].manager))
            });
            let groups: Vec<String> = groups.collect();
            format!("Apply failed with {} conflicts: {}", many.len(), groups.join("\n"))
        }
    };
    Status::failure(409, reason::CONFLICT, message).with_details(details)
}

impl Conflict {
    fn field(&self) -> String {
        self.path.iter().map(ToString::to_string).collect()
    }
}

fn format_manager(manager: &Identity) -> String {
    let mut text = go_quote(&manager.manager);
    if !manager.subresource.is_empty() {
        text.push_str(" with subresource ");
        text.push_str(&go_quote(&manager.subresource));
    }
    if manager.operation == Operation::Update {
        text.push_str(" using ");
        text.push_str(&manager.api_version);
    }
    text
}
