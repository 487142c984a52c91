//! Changes of pods through subresources: ephemeral containers and resizing.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::kinds::pod_spec::{defaults::quality_of_service, validate_pod};
use crate::{
    object::{Errors, Path, Tree, as_object, copy_key, first_by, object_mut, same},
    resource::Part,
};

const SPEC: Path<'static> = Path::new("spec");
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The resources that can be resized.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// Takes the part from the new object and everything else from the old one.
pub(super) fn prepare(part: Part, new: &mut Value, old: &Value) {
    let mut changed = old.clone();
    let nothing = Value::Object(Map::new());
    let proposed = new.at(&["spec"]).unwrap_or(&nothing);
    match part {
        Part::EphemeralContainers => copy_key(object_mut(&mut changed, "spec"), proposed, "ephemeralContainers"),
        Part::Resize => {
            let same_number = |list: &str| proposed.items(&[list]).len() == old.items(&["spec", list]).len();
            // Validation reports added and removed containers.
            if !same_number("containers") || !same_number("initContainers") {
                return;
            }
            let spec = object_mut(&mut changed, "spec");
            copy_key(spec, proposed, "resources");
            for list in ["containers", "initContainers"] {
                let of_old = spec.items(&[list]).to_vec();
                let of_new = proposed.items(&[list]);
                if of_new.is_empty() {
                    continue;
                }
                spec.insert(list.to_owned(), resized(of_new, of_old).into());
            }
        }
        Part::Approval => {}
    }
    *new = changed;
}

fn resized(new: &[Value], old: Vec<Value>) -> Vec<Value> {
    let renamed = new.iter().zip(&old).any(|(new, old)| new.text(&["name"]) != old.text(&["name"]));
    if renamed {
        return new.to_vec();
    }
    let mut all = old;
    for (old, new) in all.iter_mut().zip(new) {
        for field in ["resources", "resizePolicy"] {
            copy_key(as_object(old), new, field);
        }
    }
    all
}

/// Validates a new state of a part.
pub(super) fn validate(part: Part, new: &Value, old: &Value, errors: &mut Errors) {
    validate_pod(new, errors);
    let is_static = old.at(&["metadata", "annotations", MIRROR]).is_some();
    match part {
        Part::EphemeralContainers if is_static => {
            errors.forbidden(&Path::new(""), "static pods do not support ephemeral containers");
        }
        Part::EphemeralContainers => validate_containers(new, old, errors),
        Part::Resize if is_static => errors.forbidden(&Path::new(""), "static pods cannot be resized"),
        Part::Resize if old.text(&["spec", "os", "name"]) == "windows" => {
            errors.forbidden(&Path::new(""), "windows pods cannot be resized");
        }
        Part::Resize => validate_resize(new, old, errors),
        Part::Approval => {}
    }
}

/// Rejects fields that an ephemeral container must not have; `targets` are the other containers of its pod.
pub(super) fn validate_ephemeral(container: &Value, targets: &HashSet<&str>, place: &Path<'_>, errors: &mut Errors) {
    const ALLOWED: [&str; 17] = [
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "envFrom",
        "env",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    ];
    const TEXT: &str = "cannot be set for an Ephemeral Container";
    let target = container.text(&["targetContainerName"]);
    if !target.is_empty() && !targets.contains(target) {
        errors.not_found(&place.child("targetContainerName"), target);
    }
    for (field, value) in container.entries(&[]) {
        if !ALLOWED.contains(&field.as_str()) && !same(Some(value), None) {
            errors.forbidden(&place.child(field), TEXT);
        }
    }
    let mounts = place.child("volumeMounts");
    for (index, mount) in container.items(&["volumeMounts"]).iter().enumerate() {
        for field in ["subPath", "subPathExpr"] {
            if !mount.text(&[field]).is_empty() {
                errors.forbidden(&mounts.index(index).child(field), TEXT);
            }
        }
    }
}

fn validate_containers(new: &Value, old: &Value, errors: &mut Errors) {
    let list = SPEC.child("ephemeralContainers");
    let containers = new.items(&["spec", "ephemeralContainers"]);
    let by_name = first_by(containers, |container| container.text(&["name"]));
    for before in old.items(&["spec", "ephemeralContainers"]) {
        let name = before.text(&["name"]);
        match by_name.get(name).copied() {
            None => errors.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(after) if !same(Some(after), Some(before)) => {
                errors.forbidden(&list, &format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
}

fn validate_resize(new: &Value, old: &Value, errors: &mut Errors) {
    const ONLY: &str = "only cpu and memory resources are mutable";
    if quality_of_service(old) != quality_of_service(new) {
        let class = new.text(&["status", "qosClass"]);
        errors.invalid(&SPEC, class, "Pod QOS Class may not change as a result of resizing");
    }
    let running =
        old.items(&["status", "containerStatuses"]).iter().find(|status| status.at(&["state", "running"]).is_some());
    if running.is_some_and(|status| status.at(&["resources"]).is_none()) {
        errors.forbidden(&SPEC, "Pod running on node without support for resize");
    }
    let mut in_order = true;
    for list in ["containers", "initContainers"] {
        let (after, before) = (new.items(&["spec", list]), old.items(&["spec", list]));
        let path = SPEC.child(list);
        if after.len() != before.len() {
            errors.forbidden(&path, &format!("{list} may not be added or removed on resize"));
            in_order = false;
        }
        let number = if after.len() == before.len() { after.len() } else { 0 };
        for (index, (after, before)) in after.iter().zip(before).take(number).enumerate() {
            if after.text(&["name"]) != before.text(&["name"]) {
                let place = path.index(index);
                errors.forbidden(&place.child("name"), &format!("{list} may not be renamed or reordered on resize"));
                in_order = false;
            }
        }
    }
    if !in_order {
        return;
    }
    for list in ["initContainers", "containers"] {
        let path = SPEC.child(list);
        for (index, (after, before)) in new.items(&["spec", list]).iter().zip(old.items(&["spec", list])).enumerate() {
            let place = path.index(index);
            let resources = place.child("resources");
            for field in ["requests", "limits"] {
                let removed = |(name, _): (&String, &Value)| after.at(&["resources", field, name]).is_none();
                if before.entries(&["resources", field]).any(removed) {
                    let text = format!("resource {field} cannot be removed");
                    errors.forbidden(&resources.child(field), &text);
                }
            }
            let changes = ["requests", "limits"].iter().any(|field| {
                let rest = |container: &Value| -> Map<String, Value> {
                    let entries = container.at(&["resources", field]).and_then(Value::as_object).into_iter().flatten();
                    let entries = entries.filter(|(name, _)| !MUTABLE.contains(&name.as_str()));
                    entries.map(|(name, value)| (name.clone(), value.clone())).collect()
                };
                rest(after) != rest(before)
            });
            if list == "containers" {
                if changes {
                    errors.forbidden(&SPEC, ONLY);
                }
                continue;
            }
            if changes {
                let text = "only cpu and memory resources for init or sidecar containers are mutable";
                errors.forbidden(&place, text);
            }
            let restarts = |policy: &Value| policy.text(&["restartPolicy"]) == "RestartContainer";
            let is_sidecar = after.text(&["restartPolicy"]) == "Always";
            if after != before && !is_sidecar && after.items(&["resizePolicy"]).iter().any(restarts) {
                let text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.forbidden(&place, text);
            }
        }
    }
}
