//! Object metadata: the fields that the server sets, and their validation.

use serde_json::{Map, Value};
use windlass_api::{Clock, Entropy, Status, format_time};

use crate::{
    kubernetes::KubernetesVersion,
    object::{DuplicateCheck, Errors, NameRule, Path, Tree, copy_key, metadata_mut, qualified_name},
    object::{validate_annotations, validate_labels},
    resource::{MetadataRule, Target},
};

/// The number of characters that the server adds to a `generateName`.
const SUFFIX: usize = 5;
/// The maximum number of characters of a `generateName` that are used.
const MAX_GENERATED_PREFIX: usize = 63 - SUFFIX;

const METADATA: Path<'static> = Path::new("metadata");

/// Removes fields that only the server may set.
pub(super) fn clear_system_fields(object: &mut Value) {
    let metadata = metadata_mut(object);
    for key in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.shift_remove(key);
    }
}

/// Sets uid and creationTimestamp.
pub(super) fn set_system_fields(object: &mut Value, clock: &Clock, entropy: &Entropy) {
    let metadata = metadata_mut(object);
    metadata.insert("uid".to_owned(), entropy.uuid().into());
    metadata.insert("creationTimestamp".to_owned(), format_time(clock.now()).into());
}

/// Generates a name for an object with `generateName`.
pub(super) fn generate_name(prefix: &str, entropy: &Entropy) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &prefix[..end], entropy.name_suffix(SUFFIX))
}

/// Sets the object's namespace to that of the request. Returns an error if the object has another one.
pub(crate) fn set_namespace(target: &Target, object: &mut Value) -> Result<(), Status> {
    let requested = target.namespace();
    let given = object.text(&["metadata", "namespace"]);
    if given == requested {
        return Ok(());
    }
    if !given.is_empty() && !requested.is_empty() {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(text));
    }
    let metadata = metadata_mut(object);
    if requested.is_empty() {
        metadata.shift_remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), requested.into());
    }
    Ok(())
}

/// Checks that the object's name matches the request.
pub(super) fn check_name(target: &Target, object: &Value) -> Result<(), Status> {
    match (object.text(&["metadata", "name"]), target.name()) {
        (given, requested) if given == requested => Ok(()),
        ("", requested) => Err(Status::bad_request(format!(
            "the name of the object ({requested} based on URL) was undeterminable: name must be provided"
        ))),
        (given, requested) => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({requested})"
        ))),
    }
}

/// Removes duplicate owner references and returns the warning for the client.
pub(super) fn deduplicate_owners(object: &mut Value) -> Option<String> {
    let owners = metadata_mut(object).get_mut("ownerReferences")?.as_array_mut()?;
    let (mut seen, mut uids, mut repeated) = (DuplicateCheck::default(), DuplicateCheck::default(), Vec::new());
    owners.retain(|owner| {
        if !seen.repeats(owner.clone()) {
            return true;
        }
        let uid = owner.text(&["uid"]).to_owned();
        if !uids.repeats(uid.clone()) {
            repeated.push(uid);
        }
        false
    });
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject \
             such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// Restores the fields that an update cannot change.
pub(super) fn keep_system_fields(new: &mut Value, old: &Value) {
    let Some(old) = old.get("metadata") else { return };
    let metadata = metadata_mut(new);
    if metadata.text(&["uid"]).is_empty() {
        copy_key(metadata, old, "uid");
    }
    copy_key(metadata, old, "creationTimestamp");
    if old.at(&["deletionTimestamp"]).is_some() {
        copy_key(metadata, old, "deletionTimestamp");
    }
    if metadata.at(&["deletionGracePeriodSeconds"]).is_none() {
        copy_key(metadata, old, "deletionGracePeriodSeconds");
    }
    metadata.shift_remove("selfLink");
}

/// Validates the metadata of a new object.
pub(super) fn validate(target: &Target, object: &Value, rule: NameRule, errors: &mut Errors) {
    let empty = Value::Object(Map::new());
    let metadata = object.at(&["metadata"]).unwrap_or(&empty);
    let generate_name = metadata.text(&["generateName"]);
    if !generate_name.is_empty() {
        errors.invalid_each(&METADATA.child("generateName"), generate_name, rule.check_prefix(generate_name));
    }
    let name = metadata.text(&["name"]);
    if name.is_empty() {
        errors.required(&METADATA.child("name"), "name or generateName is required");
    } else {
        errors.invalid_each(&METADATA.child("name"), name, rule.check(name));
    }
    if target.resource.is_namespaced() {
        let namespace = metadata.text(&["namespace"]);
        if namespace.is_empty() {
            errors.required(&METADATA.child("namespace"), "");
        }
    }
    errors.not_negative(&METADATA.child("generation"), metadata.int(&["generation"]));
    validate_common(metadata, errors);
    let finalizers = metadata.items(&["finalizers"]);
    validate_finalizers(finalizers, errors);
    validate_known_finalizers(target, finalizers, errors);
}

/// The rule that names of all kinds follow; kinds with a stricter rule have already checked it.
pub(super) const ANY_NAME: NameRule = NameRule::PathSegment;

/// Validates the metadata of a changed object: first the checks of all kinds, then those that the kind repeats. Since
/// 1.37, kinds do not repeat them.
pub(super) fn validate_update(target: &Target, new: &Value, old: &Value, rule: MetadataRule, errors: &mut Errors) {
    let mut found = Errors::of(errors.kubernetes());
    validate_changes(new, old, &mut found);
    errors.append(found.clone());
    let metadata = new.at(&["metadata"]).unwrap_or(&Value::Null);
    let finalizers = metadata.items(&["finalizers"]);
    if errors.kubernetes() >= KubernetesVersion::V1_37 {
        validate_finalizers(finalizers, errors);
        if rule.changes {
            validate_known_finalizers(target, finalizers, errors);
        }
        return;
    }
    // The first pass is that of all kinds; the kind may repeat it.
    for turn in 0..=rule.changed {
        validate_common(metadata, errors);
        validate_finalizers(finalizers, errors);
        if turn > 0 {
            validate_known_finalizers(target, finalizers, errors);
        }
    }
    if rule.changes {
        errors.append(found);
        validate_known_finalizers(target, finalizers, errors);
    }
}

fn validate_changes(new: &Value, old: &Value, errors: &mut Errors) {
    let empty = Value::Object(Map::new());
    let (new, old) = (new.at(&["metadata"]).unwrap_or(&empty), old.at(&["metadata"]).unwrap_or(&empty));
    if old.at(&["deletionTimestamp"]).is_some() {
        let mut added: Vec<String> = new
            .items(&["finalizers"])
            .iter()
            .filter(|finalizer| !old.items(&["finalizers"]).contains(finalizer))
            .map(ToString::to_string)
            .collect();
        added.sort();
        if !added.is_empty() {
            let text = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.forbidden(&METADATA.child("finalizers"), &text);
        }
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.immutable(&METADATA.child(key), new.at(&[key]), old.at(&[key]));
    }
    validate_common(new, errors);
}

pub(super) fn validate_common(metadata: &Value, errors: &mut Errors) {
    validate_labels(metadata.at(&["labels"]), &METADATA.child("labels"), errors);
    validate_annotations(metadata, &METADATA.child("annotations"), errors);
    let path = METADATA.child("ownerReferences");
    let mut controller: Option<String> = None;
    for (index, owner) in metadata.items(&["ownerReferences"]).iter().enumerate() {
        if errors.kubernetes() < KubernetesVersion::V1_37 {
            validate_owner(owner, &path, errors);
        } else {
            validate_owner_1_37(owner, &path.index(index), errors);
        }
        if owner.flag(&["controller"]) {
            let name = format!("{}/{}", owner.text(&["kind"]), owner.text(&["name"]));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let text = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    errors.invalid(&path, metadata.at(&["ownerReferences"]).unwrap_or(&Value::Null), &text);
                }
            }
        }
    }
}

/// Validates an owner by the rules since 1.37.
fn validate_owner_1_37(owner: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["apiVersion", "kind", "name", "uid"] {
        if owner.text(&[key]).is_empty() {
            errors.required(&path.child(key), "must not be empty");
        } else if key == "apiVersion" {
            let text = owner.text(&[key]);
            if text.ends_with('/') || text.matches('/').count() > 1 {
                errors.invalid(&path.child(key), text, "must be <group>/<version> or <version>");
            }
        }
    }
    validate_owner_kind(owner, path, errors);
}

fn validate_owner(owner: &Value, path: &Path<'_>, errors: &mut Errors) {
    let api_version = owner.text(&["apiVersion"]);
    if api_version.rsplit('/').next().unwrap_or_default().is_empty() {
        errors.invalid(&path.child("apiVersion"), api_version, "version must not be empty");
    }
    for key in ["kind", "name", "uid"] {
        if owner.text(&[key]).is_empty() {
            errors.invalid(&path.child(key), "", "must not be empty");
        }
    }
    validate_owner_kind(owner, path, errors);
}

fn validate_owner_kind(owner: &Value, path: &Path<'_>, errors: &mut Errors) {
    if (owner.text(&["apiVersion"]), owner.text(&["kind"])) == ("v1", "Event") {
        errors.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner");
    }
}

/// Validates that finalizers have a domain or are standard ones, for the built-in kinds that require it.
fn validate_known_finalizers(target: &Target, finalizers: &[Value], errors: &mut Errors) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let built_in = matches!(target.resource.shape, crate::resource::Shape::BuiltIn(_));
    if !built_in || !target.resource.strategy.rules().metadata.finalizers {
        return;
    }
    let path = METADATA.child("finalizers");
    for (index, finalizer) in finalizers.iter().enumerate() {
        let text = finalizer.as_str().unwrap_or_default();
        if !text.contains('/') && !STANDARD.contains(&text) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&path.index(index), text, why);
        }
    }
}

fn validate_finalizers(finalizers: &[Value], errors: &mut Errors) {
    let path = METADATA.child("finalizers");
    for finalizer in finalizers {
        let text = finalizer.as_str().unwrap_or_default();
        errors.invalid_each(&path, text, qualified_name(text));
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let all = Value::Array(finalizers.to_vec());
        errors.invalid(&path, &all, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}
