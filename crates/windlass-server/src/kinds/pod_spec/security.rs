//! The security context of a pod and its containers, and the settings that depend on the operating system.
//!
//! Privileged containers are allowed, as in a real server with `--allow-privileged`, which test environments set.

use crate::kinds::{
    pod_spec::{ContainerKind, windows},
    prelude::*,
};

/// The maximum ID of a user or group.
const MAX_ID: i64 = 2_147_483_647;
const ID: Rule = Rule::Range(0, MAX_ID);
const SYSCTL: &str = "must have at most 253 characters and match regex \
                      ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const WINDOWS: &str = "cannot be set for a windows pod";
const LINUX: &str = "windows options cannot be set for a linux pod";
const USER_NAMESPACE: &str = "when `hostUsers` is false";

/// The fields that Windows pods must not have, in the order of the errors before 1.37.
const LINUX_POD_FIELDS: [&str; 15] = [
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];
/// The security context fields that containers of Windows pods must not have.
const LINUX_CONTAINER_FIELDS: [&str; 10] = [
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
pub(super) fn validate_pod_security(spec: &Field<'_>, errors: &mut Errors) {
    let context = spec.child("securityContext");
    validate_context(&context, spec, errors);
    if !errors.before(V1_37) {
        validate_shared_processes(spec, spec, errors);
    }
}

fn validate_context(context: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    context.check(&[("fsGroup", ID), ("runAsUser", ID), ("runAsGroup", ID)], errors);
    context.child("supplementalGroups").each(|group, errors| group.in_range(0, MAX_ID, errors), errors);
    if errors.before(V1_37) {
        // The field belongs to the spec, but the real server reports another path.
        validate_shared_processes(spec, context, errors);
    }
    validate_sysctls(&context.child("sysctls"), errors);
    context.child("fsGroupChangePolicy").one_of(&["Always", "OnRootMismatch"], errors);
    validate_profile(context, "seccompProfile", "seccomp", errors);
    windows::validate_options(context, errors);
    validate_profile(context, "appArmorProfile", "AppArmor", errors);
    // The feature SELinuxMount.
    let policies: &[&str] = if errors.before(V1_37) { &["Recursive"] } else { &["MountOption", "Recursive"] };
    let rules = [
        ("supplementalGroupsPolicy", Rule::OneOf(&["Merge", "Strict"])),
        ("seLinuxChangePolicy", Rule::OneOf(policies)),
    ];
    context.check(&rules, errors);
}

/// Validates that a pod does not share its own processes and those of the node. `reported` is the owner of the path in
/// the error.
fn validate_shared_processes(spec: &Field<'_>, reported: &Field<'_>, errors: &mut Errors) {
    if spec.child("shareProcessNamespace").flag() && spec.child("hostPID").flag() {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        reported.child("shareProcessNamespace").invalid_as(&Value::Bool(true), detail, errors);
    }
}

/// Validates the security context of a container.
pub(super) fn validate_container_security(container: &Field<'_>, spec: &Value, errors: &mut Errors) {
    let context = container.child("securityContext");
    if !context.is_set() {
        return;
    }
    let proc_mounts = Rule::OneOf(&["Default", "Unmasked"]);
    context.check(&[("runAsUser", ID), ("runAsGroup", ID), ("procMount", proc_mounts)], errors);
    let proc_mount = context.child("procMount");
    if proc_mount.text() == "Unmasked" && !has_user_namespace(spec) {
        proc_mount.invalid("`hostUsers` must be false to use `Unmasked`", errors);
    }
    validate_profile(&context, "seccompProfile", "seccomp", errors);
    if context.child("allowPrivilegeEscalation").value() == Some(&Value::Bool(false)) {
        let conflict = "cannot set `allowPrivilegeEscalation` to false and";
        let value = with_go_names(context.json());
        if context.child("privileged").flag() {
            context.invalid_as(&value, &format!("{conflict} `privileged` to true"), errors);
        }
        let added = context.child("capabilities.add");
        for _ in added.items().filter(|capability| capability.text() == "CAP_SYS_ADMIN") {
            context.invalid_as(&value, &format!("{conflict} `capabilities.Add` CAP_SYS_ADMIN"), errors);
        }
    }
    windows::validate_options(&context, errors);
    validate_profile(&context, "appArmorProfile", "AppArmor", errors);
}

fn has_user_namespace(spec: &Value) -> bool {
    spec.at(&["hostUsers"]) == Some(&Value::Bool(false))
}

/// Returns a container's security context with Go's internal field names.
fn with_go_names(context: &Value) -> Value {
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
    let capabilities = |list: &str| context.at(&["capabilities", list]).cloned().unwrap_or_default();
    let fields = FIELDS.iter().map(|(go_name, name)| {
        let value = match (*name, context.at(&[name])) {
            ("capabilities", Some(_)) => json!({"Add": capabilities("add"), "Drop": capabilities("drop")}),
            (_, value) => value.cloned().unwrap_or_default(),
        };
        ((*go_name).to_owned(), value)
    });
    Value::Object(fields.collect())
}

fn validate_sysctls(sysctls: &Field<'_>, errors: &mut Errors) {
    let mut names = DuplicateCheck::default();
    for sysctl in sysctls.items() {
        let (field, name) = (sysctl.child("name"), sysctl.json().text(&["name"]));
        let is_repeated = names.repeats(name);
        if name.is_empty() {
            field.required("", errors);
        } else if !is_sysctl(name) {
            field.invalid(SYSCTL, errors);
        } else if is_repeated {
            field.duplicate(errors);
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
fn validate_profile(context: &Field<'_>, name: &str, system: &str, errors: &mut Errors) {
    let profile = context.child(name);
    if !profile.is_set() {
        return;
    }
    let (kind, file) = (profile.child("type"), profile.child("localhostProfile"));
    match kind.text() {
        "" => kind.required(&format!("type is required when {name} is set"), errors),
        "Localhost" if file.is_empty() => {
            file.required(&format!("must be set when {system} type is Localhost"), errors);
        }
        text => {
            if file.is_set() && system == "AppArmor" && matches!(text, "RuntimeDefault" | "Unconfined") {
                file.invalid("can only be set when AppArmor type is Localhost", errors);
            }
            kind.one_of(&["Localhost", "RuntimeDefault", "Unconfined"], errors);
        }
    }
}

/// Validates that a pod in a user namespace does not share other namespaces and devices with its node.
pub(super) fn validate_host_users(spec: &Field<'_>, errors: &mut Errors) {
    if !has_user_namespace(spec.json()) {
        return;
    }
    for (name, reported_name) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.child(name).flag() {
            spec.child(reported_name).forbidden(USER_NAMESPACE, errors);
        }
    }
    let kinds = if errors.before(V1_34) { &[][..] } else { &ContainerKind::START_ORDER[..] };
    for kind in kinds {
        for container in spec.child(kind.list()).items() {
            container.child("volumeDevices").check_empty(USER_NAMESPACE, errors);
        }
    }
}

/// Validates the operating system of a pod, and rejects fields that the system does not support.
pub(super) fn validate_system(spec: &Field<'_>, errors: &mut Errors) {
    let system = spec.child("os");
    if !system.is_set() {
        return;
    }
    let name = system.child("name");
    match name.text() {
        "" => name.required("", errors),
        "linux" => {
            spec.child("securityContext.windowsOptions").check_unset(LINUX, errors);
            forbid_in_containers(spec, &["windowsOptions"], LINUX, errors);
        }
        "windows" => {
            let mut names = LINUX_POD_FIELDS;
            if !errors.before(V1_37) {
                // The fields of the security context are reported first.
                names.sort_by_key(|name| !name.starts_with("securityContext."));
            }
            for name in names {
                let field = spec.child(name);
                if field.is_set() && *field.json() != Value::Bool(false) {
                    field.forbidden(WINDOWS, errors);
                }
            }
            forbid_in_containers(spec, &LINUX_CONTAINER_FIELDS, WINDOWS, errors);
        }
        other => errors.unsupported(system.path(), other, &["linux", "windows"]),
    }
}

/// Rejects fields in the security contexts of all containers.
fn forbid_in_containers(spec: &Field<'_>, names: &[&str], detail: &str, errors: &mut Errors) {
    for kind in ContainerKind::START_ORDER {
        for container in spec.child(kind.list()).items() {
            let context = container.child("securityContext");
            for field in names.iter().map(|name| context.child(name)).filter(Field::is_set) {
                field.forbidden(detail, errors);
            }
        }
    }
}
