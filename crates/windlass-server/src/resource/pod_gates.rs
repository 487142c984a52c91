//! The parts of pod specs that older Kubernetes versions drop, but that are not single fields.

use serde_json::Value;

use crate::{
    kubernetes::KubernetesVersion::{self, V1_34, V1_35},
    object::{Tree, change_each, same},
};

/// Removes the parts that belong to disabled features.
pub(super) fn drop_disabled(kubernetes: KubernetesVersion, pod: &mut Value) {
    // The features ContainerRestartRules, EnvFiles and ImageVolume.
    if kubernetes < V1_35 {
        drop_file_references(pod);
        drop_image_volumes(pod);
    }
    // 1.33 rejects these policies in the validation; since 1.35 they are enabled.
    if kubernetes == V1_34 {
        drop_restart_policies(pod);
    }
}

/// The lists of containers.
const CONTAINERS: [&str; 3] = ["containers.*", "initContainers.*", "ephemeralContainers.*"];

/// Removes references of variables to files. The source of the variable stays, and is reported as empty.
fn drop_file_references(pod: &mut Value) {
    for path in CONTAINERS {
        change_each(pod, &format!("{path}.env.*.valueFrom"), |source| drop(source.shift_remove("fileKeyRef")));
    }
}

/// Removes the restart policies of init containers that do not make them sidecars.
fn drop_restart_policies(pod: &mut Value) {
    change_each(pod, "initContainers.*", |container| {
        if container.text(&["restartPolicy"]) != "Always" {
            container.shift_remove("restartPolicy");
        }
    });
}

/// Removes the volumes with the content of an image, and their mounts.
fn drop_image_volumes(pod: &mut Value) {
    let Some(volumes) = pod.get_mut("volumes").and_then(Value::as_array_mut) else { return };
    let of_images: Vec<Value> = volumes.extract_if(.., |volume| volume.get("image").is_some()).collect();
    if of_images.is_empty() {
        return;
    }
    let is_removed = |mount: &Value| of_images.iter().any(|volume| same(volume.get("name"), mount.get("name")));
    for path in CONTAINERS {
        change_each(pod, path, |container| {
            if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                mounts.retain(|mount| !is_removed(mount));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn image_volumes_are_dropped_with_their_mounts_before_1_35() {
        let pod = json!({
            "volumes": [{"name": "a", "image": {"reference": "i"}}, {"name": "b", "emptyDir": {}}],
            "containers": [{"volumeMounts": [{"name": "a"}, {"name": "b"}]}],
            "initContainers": [{"restartPolicy": "Always"}, {"restartPolicy": "Never"}],
        });
        let dropped = |kubernetes| {
            let mut pod = pod.clone();
            drop_disabled(kubernetes, &mut pod);
            pod
        };
        assert_eq!(dropped(V1_35), pod);
        let expected = json!({
            "volumes": [{"name": "b", "emptyDir": {}}],
            "containers": [{"volumeMounts": [{"name": "b"}]}],
            "initContainers": [{"restartPolicy": "Always"}, {}],
        });
        assert_eq!(dropped(V1_34), expected);
    }
}
