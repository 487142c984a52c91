//! The security context of a pod and its containers, and the settings that depend on the operating system.
//!
//! Privileged containers are allowed, as in a real server with `--allow-privileged`, which test environments set.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kinds::pod_spec::{ContainerKind, one_of, windows};
use crate::object::{Errors, Path, Tree};

const ID: &str = "must be between 0 and 2147483647, inclusive";
const SYSCTL: &str = "must have at most 253 characters and match regex \
                      ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const WINDOWS: &str = "cannot be set for a windows pod";
const LINUX: &str = "windows options cannot be set for a linux pod";

/// The fields that Windows pods must not have, in the order of the errors.
const NOT_OF_WINDOWS_PODS: [&[&str]; 15] = [
    &["securityContext", "appArmorProfile"],
    &["securityContext", "seLinuxOptions"],
    &["hostUsers"],
    &["hostPID"],
    &["hostIPC"],
    &["securityContext", "seccompProfile"],
    &["securityContext", "fsGroup"],
    &["securityContext", "fsGroupChangePolicy"],
    &["securityContext", "sysctls"],
    &["shareProcessNamespace"],
    &["securityContext", "runAsUser"],
    &["securityContext", "runAsGroup"],
    &["securityContext", "supplementalGroups"],
    &["securityContext", "supplementalGroupsPolicy"],
    &["securityContext", "seLinuxChangePolicy"],
];
/// The security context fields that containers of Windows pods must not have.
const NOT_OF_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates the security context of a pod.
pub(super) fn validate_pod_security(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(context) = spec.at(&["securityContext"]) else { return };
    let path = path.child("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(context.at(&[field]), &path.child(field), errors);
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in context.items(&["supplementalGroups"]).iter().enumerate() {
        validate_id(Some(group), &groups.index(index), errors);
    }
    if spec.flag(&["shareProcessNamespace"]) && spec.flag(&["hostPID"]) {
        let text = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), &Value::Bool(true), text);
    }
    validate_sysctls(context, &path.child("sysctls"), errors);
    one_of(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], &path, errors);
    validate_profile(context, "seccompProfile", "seccomp", &path, errors);
    windows::validate_options(context, &path, errors);
    validate_profile(context, "appArmorProfile", "AppArmor", &path, errors);
    one_of(context, "supplementalGroupsPolicy", &["Merge", "Strict"], &path, errors);
    one_of(context, "seLinuxChangePolicy", &["Recursive"], &path, errors);
}

/// Validates the security context of a container.
pub(super) fn validate_container_security(container: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(context) = container.at(&["securityContext"]) else { return };
    let path = path.child("securityContext");
    for field in ["runAsUser", "runAsGroup"] {
        validate_id(context.at(&[field]), &path.child(field), errors);
    }
    one_of(context, "procMount", &["Default", "Unmasked"], &path, errors);
    let own_users = spec.at(&["hostUsers"]) == Some(&Value::Bool(false));
    if !own_users && context.text(&["procMount"]) == "Unmasked" {
        errors.invalid(&path.child("procMount"), "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
    validate_profile(context, "seccompProfile", "seccomp", &path, errors);
    if context.at(&["allowPrivilegeEscalation"]) == Some(&Value::Bool(false)) {
        let but = "cannot set `allowPrivilegeEscalation` to false and";
        let shown = shown(context);
        if context.flag(&["privileged"]) {
            errors.invalid(&path, &shown, &format!("{but} `privileged` to true"));
        }
        for _ in context.items(&["capabilities", "add"]).iter().filter(|capability| *capability == "CAP_SYS_ADMIN") {
            errors.invalid(&path, &shown, &format!("{but} `capabilities.Add` CAP_SYS_ADMIN"));
        }
    }
    windows::validate_options(context, &path, errors);
    validate_profile(context, "appArmorProfile", "AppArmor", &path, errors);
}

/// Formats a context with Go's internal field names.
fn shown(context: &Value) -> Value {
    const FIELDS: [(&str, &str); 12] = [
        ("Capabilities", "capabilities"),
        ("Privileged", "privileged"),
        ("SELinuxOptions", "seLinuxOptions"),
        ("WindowsOptions", "windowsOptions"),
        ("RunAsUser", "runAsUser"),
        ("RunAsGroup", "runAsGroup"),
        ("RunAsNonRoot", "runAsNonRoot"),
        ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
        ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
        ("ProcMount", "procMount"),
        ("SeccompProfile", "seccompProfile"),
        ("AppArmorProfile", "appArmorProfile"),
    ];
    let list = |field: &str| context.at(&["capabilities", field]).cloned().unwrap_or_default();
    let shown = FIELDS.iter().map(|(shown, field)| {
        let value = match (*field, context.at(&[field])) {
            ("capabilities", Some(_)) => json!({"Add": list("add"), "Drop": list("drop")}),
            (_, value) => value.cloned().unwrap_or_default(),
        };
        ((*shown).to_owned(), value)
    });
    Value::Object(shown.collect())
}

/// Validates that the id of a user or group is not negative.
fn validate_id(id: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let id = id.and_then(Value::as_i64);
    if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.invalid(path, &id, ID);
    }
}

fn validate_sysctls(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, sysctl) in context.items(&["sysctls"]).iter().enumerate() {
        let place = path.index(index);
        let (name, known) = (sysctl.text(&["name"]), !names.insert(sysctl.text(&["name"])));
        if name.is_empty() {
            errors.required(&place.child("name"), "");
        } else if !is_sysctl(name) {
            errors.invalid(&place.child("name"), name, SYSCTL);
        } else if known {
            errors.duplicate(&place.child("name"), name);
        }
    }
}

/// Reports whether a name is a valid sysctl: letters, digits, dashes and underscores, separated by dots or slashes.
fn is_sysctl(name: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let is_word = |word: &str| edge(word.bytes().next()) && edge(word.bytes().last()) && word.bytes().all(inner);
    name.len() <= 253 && name.split(['.', '/']).all(is_word)
}

/// Validates a seccomp or AppArmor profile: the runtime's, one of the node, or none.
fn validate_profile(context: &Value, field: &str, name: &str, path: &Path<'_>, errors: &mut Errors) {
    const PLAIN: [&str; 2] = ["RuntimeDefault", "Unconfined"];
    let Some(profile) = context.at(&[field]) else { return };
    let place = path.child(field);
    match profile.text(&["type"]) {
        "" => errors.required(&place.child("type"), &format!("type is required when {field} is set")),
        "Localhost" if profile.text(&["localhostProfile"]).is_empty() => {
            let text = format!("must be set when {name} type is Localhost");
            errors.required(&place.child("localhostProfile"), &text);
        }
        kind => {
            if let Some(given) =
                profile.at(&["localhostProfile"]).filter(|_| name == "AppArmor" && PLAIN.contains(&kind))
            {
                let text = "can only be set when AppArmor type is Localhost";
                errors.invalid(&place.child("localhostProfile"), given, text);
            }
            one_of(profile, "type", &["Localhost", "RuntimeDefault", "Unconfined"], &place, errors);
        }
    }
}

/// Validates that a pod in a user namespace does not share other namespaces and devices with its node.
pub(super) fn validate_host_users(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const WHY: &str = "when `hostUsers` is false";
    if spec.at(&["hostUsers"]) != Some(&Value::Bool(false)) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(&[field]) {
            errors.forbidden(&path.child(shown), WHY);
        }
    }
    for kind in ContainerKind::START_ORDER {
        let list_path = path.child(kind.list());
        for (index, container) in spec.items(&[kind.list()]).iter().enumerate() {
            if !container.items(&["volumeDevices"]).is_empty() {
                errors.forbidden(&list_path.index(index).child("volumeDevices"), WHY);
            }
        }
    }
}

/// Validates the operating system of a pod, and rejects fields that the system does not support.
pub(super) fn validate_system(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const SYSTEMS: [&str; 2] = ["linux", "windows"];
    if spec.at(&["os"]).is_none() {
        return;
    }
    let place = path.child("os");
    let each = |errors: &mut Errors, check: &dyn Fn(&Value, &Path<'_>, &mut Errors)| {
        for kind in ContainerKind::START_ORDER {
            let place = path.child(kind.list());
            for (index, container) in spec.items(&[kind.list()]).iter().enumerate() {
                if let Some(context) = container.at(&["securityContext"]) {
                    check(context, &place.index(index).child("securityContext"), errors);
                }
            }
        }
    };
    match spec.text(&["os", "name"]) {
        "" => errors.required(&place.child("name"), ""),
        "linux" => {
            if spec.at(&["securityContext", "windowsOptions"]).is_some() {
                errors.forbidden(&path.child("securityContext.windowsOptions"), LINUX);
            }
            each(errors, &|context, path, errors| {
                if context.at(&["windowsOptions"]).is_some() {
                    errors.forbidden(&path.child("windowsOptions"), LINUX);
                }
            });
        }
        "windows" => {
            let is_set = |field: &&&[&str]| spec.at(field).is_some_and(|value| *value != Value::Bool(false));
            for field in NOT_OF_WINDOWS_PODS.iter().filter(is_set) {
                errors.forbidden(&path.child(&field.join(".")), WINDOWS);
            }
            each(errors, &|context, path, errors| {
                for field in NOT_OF_WINDOWS_CONTAINERS.iter().filter(|field| context.at(&[field]).is_some()) {
                    errors.forbidden(&path.child(field), WINDOWS);
                }
            });
        }
        other => errors.unsupported(&place, other, &SYSTEMS),
    }
}
