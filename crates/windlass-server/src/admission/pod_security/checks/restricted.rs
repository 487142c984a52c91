//! The checks of the level `restricted`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    PodParts, Violation,
    baseline::{forbidden_seccomp, has_bad_seccomp, unmasked_proc_mount},
    listed, plural, quoted,
};
use crate::object::Tree;

/// The kinds of volumes that pods may have.
const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The other kinds of volumes, in the order in which kube-apiserver searches for them.
const RESTRICTED_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// The version since which pods for Windows need no settings that only exist on Linux.
const WINDOWS: u32 = 25;
/// The version since which pods in a user namespace may run as root.
const USER_NAMESPACES: u32 = 35;

pub(super) fn privilege_escalation(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    if version >= WINDOWS && pod.is_windows() {
        return None;
    }
    let allows = |container: &Value| {
        container.at(&["securityContext", "allowPrivilegeEscalation"]).and_then(Value::as_bool).unwrap_or(true)
    };
    let containers = pod.names_of(allows);
    (!containers.is_empty()).then(|| {
        let containers = listed("container", &containers);
        let detail = format!("{containers} must set securityContext.allowPrivilegeEscalation=false");
        Violation::new("allowPrivilegeEscalation != false", detail)
    })
}

pub(super) fn capabilities(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    if version >= WINDOWS && pod.is_windows() {
        return None;
    }
    let keeps_some = |container: &Value| {
        let dropped = container.items(&["securityContext", "capabilities", "drop"]);
        !dropped.iter().any(|name| name.as_str() == Some("ALL"))
    };
    let keeping = pod.names_of(keeps_some);
    let mut forbidden = BTreeSet::new();
    let adding = pod.names_of(|container| {
        let added = container.items(&["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str);
        let bad: Vec<&str> = added.filter(|name| *name != "NET_BIND_SERVICE").collect();
        forbidden.extend(bad.iter().copied());
        !bad.is_empty()
    });
    let mut problems = Vec::new();
    if !keeping.is_empty() {
        let keeping = listed("container", &keeping);
        problems.push(format!(r#"{keeping} must set securityContext.capabilities.drop=["ALL"]"#));
    }
    if !adding.is_empty() {
        let (adding, forbidden) = (listed("container", &adding), quoted(forbidden));
        problems.push(format!("{adding} must not include {forbidden} in securityContext.capabilities.add"));
    }
    (!problems.is_empty()).then(|| Violation::new("unrestricted capabilities", problems.join("; ")))
}

pub(super) fn proc_mount(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    unmasked_proc_mount(pod)
}

pub(super) fn volumes(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    let has = |volume: &Value, kind: &&str| volume.at(&[kind]).is_some();
    let mut kinds = BTreeSet::new();
    let mut names = Vec::new();
    for volume in pod.spec.items(&["volumes"]) {
        if !ALLOWED_VOLUMES.iter().any(|kind| has(volume, kind)) {
            names.push(volume.text(&["name"]));
            kinds.insert(RESTRICTED_VOLUMES.iter().find(|kind| has(volume, kind)).copied().unwrap_or("unknown"));
        }
    }
    (!names.is_empty()).then(|| {
        let verb = if names.len() == 1 { "uses" } else { "use" };
        let noun = plural("restricted volume type", kinds.len());
        let detail = format!("{} {verb} {noun} {}", listed("volume", &names), quoted(kinds));
        Violation::new("restricted volume types", detail)
    })
}

pub(super) fn non_root(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if version >= USER_NAMESPACES && pod.is_in_user_namespace() {
        return None;
    }
    let setting = |value: &Value| value.at(&["securityContext", "runAsNonRoot"]).and_then(Value::as_bool);
    let places = pod.places_of(|context| context.at(&["runAsNonRoot"]) == Some(&Value::Bool(false)));
    if !places.is_empty() {
        let detail = format!("{} must not set securityContext.runAsNonRoot=false", places.join(" and "));
        return Some(Violation::new(REASON, detail));
    }
    if setting(pod.spec).is_some() {
        return None;
    }
    let unset = pod.names_of(|container| setting(container).is_none());
    (!unset.is_empty()).then(|| {
        let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", listed("container", &unset));
        Violation::new(REASON, detail)
    })
}

pub(super) fn user(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    if version >= USER_NAMESPACES && pod.is_in_user_namespace() {
        return None;
    }
    let places = pod.places_of(|context| context.int(&["runAsUser"]) == Some(0));
    (!places.is_empty())
        .then(|| Violation::new("runAsUser=0", format!("{} must not set runAsUser=0", places.join(" and "))))
}

pub(super) fn seccomp(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    if version >= WINDOWS && pod.is_windows() {
        return None;
    }
    let mut kinds = BTreeSet::new();
    let places = pod.places_of(|context| has_bad_seccomp(context, &mut kinds));
    if !places.is_empty() {
        return Some(forbidden_seccomp(&places, kinds));
    }
    let is_unset = |value: &Value| value.at(&["securityContext", "seccompProfile"]).is_none();
    let unset = if is_unset(pod.spec) { pod.names_of(is_unset) } else { Vec::new() };
    (!unset.is_empty()).then(|| {
        let containers = listed("container", &unset);
        let detail = format!(
            r#"pod or {containers} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#
        );
        Violation::new("seccompProfile", detail)
    })
}
