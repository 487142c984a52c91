//! Changes of pods through subresources: ephemeral containers and resizing.

use crate::kinds::{pod_spec::defaults::quality_of_service, prelude::*};

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

/// Validates the changes of a part.
pub(super) fn validate(part: Part, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let is_static = old.child("metadata.annotations").key(MIRROR).is_set();
    match part {
        Part::EphemeralContainers if is_static => {
            new.forbidden("static pods do not support ephemeral containers", errors);
        }
        Part::EphemeralContainers => validate_containers(new, old, errors),
        Part::Resize if is_static => new.forbidden("static pods cannot be resized", errors),
        Part::Resize if old.child("spec.os.name").text() == "windows" => {
            new.forbidden("windows pods cannot be resized", errors);
        }
        Part::Resize => validate_resize(new, old, errors),
        Part::Approval => {}
    }
}

/// Validates that ephemeral containers are only added.
fn validate_containers(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let list = new.child("spec.ephemeralContainers");
    let by_name = first_by(new.json().items(&["spec", "ephemeralContainers"]), |container| container.text(&["name"]));
    for before in old.json().items(&["spec", "ephemeralContainers"]) {
        let name = before.text(&["name"]);
        match by_name.get(name).copied() {
            None => list.forbidden(&format!("existing ephemeral containers {name:?} may not be removed\n"), errors),
            Some(after) if !same(Some(after), Some(before)) => {
                list.forbidden(&format!("existing ephemeral containers {name:?} may not be changed\n"), errors);
            }
            Some(_) => {}
        }
    }
}

fn validate_resize(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    if quality_of_service(old.json()) != quality_of_service(new.json()) {
        let class = new.child("status.qosClass");
        spec.invalid_as(class.text(), "Pod QOS Class may not change as a result of resizing", errors);
    }
    let statuses = old.child("status.containerStatuses");
    let without_support = |status: Field<'_>| !status.child("resources").is_set();
    if statuses.items().find(|status| status.child("state.running").is_set()).is_some_and(without_support) {
        spec.forbidden("Pod running on node without support for resize", errors);
    }
    let before = errors.len();
    for name in ["containers", "initContainers"] {
        validate_order(name, &spec.child(name), &old_spec.child(name), errors);
    }
    if errors.len() > before {
        return;
    }
    for container in spec.child("initContainers").items().zip(old_spec.child("initContainers").items()) {
        validate_resized_init_container(&container.0, &container.1, errors);
    }
    for (after, before) in spec.child("containers").items().zip(old_spec.child("containers").items()) {
        if !validate_resources(&after, &before, errors) {
            spec.forbidden("only cpu and memory resources are mutable", errors);
        }
    }
}

/// Validates that a resize does not add, remove, rename or reorder containers.
fn validate_order(name: &str, containers: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    if containers.len() != old.len() {
        return containers.forbidden(&format!("{name} may not be added or removed on resize"), errors);
    }
    for (after, before) in containers.items().zip(old.items()) {
        if after.child("name").text() != before.child("name").text() {
            after.child("name").forbidden(&format!("{name} may not be renamed or reordered on resize"), errors);
        }
    }
}

fn validate_resized_init_container(after: &Field<'_>, before: &Field<'_>, errors: &mut Errors) {
    if !validate_resources(after, before, errors) {
        after.forbidden("only cpu and memory resources for init or sidecar containers are mutable", errors);
    }
    let is_sidecar = after.child("restartPolicy").text() == "Always";
    let policies = after.child("resizePolicy");
    let mut restarts = policies.items().map(|policy| policy.child("restartPolicy").text() == "RestartContainer");
    if after.value() != before.value() && !is_sidecar && restarts.any(|restarts| restarts) {
        let text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        after.forbidden(text, errors);
    }
}

/// Validates that no request or limit is removed. Reports whether only resources changed that can be resized.
fn validate_resources(after: &Field<'_>, before: &Field<'_>, errors: &mut Errors) -> bool {
    let (resources, old_resources) = (after.child("resources"), before.child("resources"));
    for name in ["requests", "limits"] {
        let amounts = resources.child(name);
        if old_resources.child(name).entries().any(|(resource, _)| !amounts.key(resource).is_set()) {
            amounts.forbidden(&format!("resource {name} cannot be removed"), errors);
        }
    }
    let fixed = |amounts: &Field<'_>| -> Map<String, Value> {
        let entries = amounts.entries().filter(|(resource, _)| !MUTABLE.contains(resource));
        entries.map(|(resource, amount)| (resource.to_owned(), amount.json().clone())).collect()
    };
    ["requests", "limits"].iter().all(|name| fixed(&resources.child(name)) == fixed(&old_resources.child(name)))
}
