//! The checks of the level `baseline`, which the level `restricted` has, too.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{PodParts, Violation, listed, plural, quoted};
use crate::{codec::go_quote, object::Tree};

const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The capabilities that containers have by default, except `NET_RAW`.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The sysctls that affect only the pod, with the first version that allows them.
const SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

/// The SELinux types of containers, with the first version that allows them.
const SELINUX_TYPES: [(&str, u32); 5] =
    [("", 0), ("container_t", 0), ("container_init_t", 0), ("container_kvm_t", 0), ("container_engine_t", 31)];

/// Reports whether the table lists a value for a version.
fn is_listed(table: &[(&str, u32)], value: &str, version: u32) -> bool {
    table.iter().any(|(listed, since)| *listed == value && version >= *since)
}

pub(super) fn app_armor(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut places = pod.places_of(|context| {
        let Some(profile) = context.at(&["appArmorProfile"]) else { return false };
        let kind = profile.text(&["type"]);
        let is_bad = !matches!(kind, "RuntimeDefault" | "Localhost");
        if is_bad {
            values.insert(kind.to_owned());
        }
        is_bad
    });
    let is_allowed = |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations = pod.metadata.entries(&["annotations"]).filter_map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        let is_bad = key.starts_with(APP_ARMOR_PREFIX) && !is_allowed(value);
        is_bad.then(|| format!("{key}={}", go_quote(value)))
    });
    let annotations: BTreeSet<String> = annotations.collect();
    if !annotations.is_empty() {
        places.push(plural("annotation", annotations.len()));
    }
    if places.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    let detail = format!("{} must not set AppArmor profile type to {}", places.join(" and "), quoted(&values));
    Some(Violation::new(plural("forbidden AppArmor profile", values.len()), detail))
}

pub(super) fn capabilities(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    let mut forbidden = BTreeSet::new();
    let containers = pod.names_of(|container| {
        let added = container.items(&["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str);
        let bad: Vec<&str> = added.filter(|name| !CAPABILITIES.contains(name)).collect();
        forbidden.extend(bad.iter().copied());
        !bad.is_empty()
    });
    (!containers.is_empty()).then(|| {
        let (containers, forbidden) = (listed("container", &containers), quoted(forbidden));
        let detail = format!("{containers} must not include {forbidden} in securityContext.capabilities.add");
        Violation::new("non-default capabilities", detail)
    })
}

pub(super) fn host_namespaces(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec.flag(&[field]));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| Violation::new("host namespaces", shared.join(", ")))
}

pub(super) fn host_path_volumes(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    let volumes = pod.spec.items(&["volumes"]).iter().filter(|volume| volume.at(&["hostPath"]).is_some());
    let names: Vec<&str> = volumes.map(|volume| volume.text(&["name"])).collect();
    (!names.is_empty()).then(|| Violation::new("hostPath volumes", listed("volume", &names)))
}

pub(super) fn host_ports(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    // Sorted as texts, like in kube-apiserver.
    let mut ports = BTreeSet::new();
    let containers = pod.names_of(|container| {
        let used = container.items(&["ports"]).iter().filter_map(|port| port.int(&["hostPort"]));
        let used: Vec<String> = used.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let is_bad = !used.is_empty();
        ports.extend(used);
        is_bad
    });
    (!containers.is_empty()).then(|| {
        let verb = if containers.len() == 1 { "uses" } else { "use" };
        let noun = plural("hostPort", ports.len());
        let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
        Violation::new("hostPort", format!("{} {verb} {noun} {ports}", listed("container", &containers)))
    })
}

/// Rejects probes and lifecycle handlers that connect to other hosts.
pub(super) fn probe_hosts(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let mut hosts = BTreeSet::new();
    let containers: BTreeSet<&str> = pod
        .names_of(|container| {
            let handlers = HANDLERS.iter().filter_map(|path| container.at(path));
            let used = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| handler.text(&[kind, "host"])));
            let used: Vec<&str> = used.filter(|host| !host.is_empty()).collect();
            hosts.extend(used.iter().copied());
            !used.is_empty()
        })
        .into_iter()
        .collect();
    (!containers.is_empty()).then(|| {
        let containers: Vec<&str> = containers.into_iter().collect();
        let verb = if containers.len() == 1 { "uses" } else { "use" };
        let noun = plural("probe or lifecycle host", hosts.len());
        let detail = format!("{} {verb} {noun} {}", listed("container", &containers), quoted(hosts));
        Violation::new("probe or lifecycle host", detail)
    })
}

pub(super) fn privileged(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    let containers = pod.names_of(|container| container.flag(&["securityContext", "privileged"]));
    (!containers.is_empty()).then(|| {
        let containers = listed("container", &containers);
        Violation::new("privileged", format!("{containers} must not set securityContext.privileged=true"))
    })
}

pub(super) fn proc_mount(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    if version >= 35 && pod.is_in_user_namespace() {
        return None;
    }
    unmasked_proc_mount(pod)
}

/// Rejects mounts of `/proc` that hide nothing.
pub(super) fn unmasked_proc_mount(pod: &PodParts<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let containers = pod.names_of(|container| {
        let kind = container.at(&["securityContext", "procMount"]).and_then(Value::as_str);
        let bad = kind.filter(|kind| *kind != "Default");
        kinds.extend(bad);
        bad.is_some()
    });
    (!containers.is_empty()).then(|| {
        let containers = listed("container", &containers);
        Violation::new("procMount", format!("{containers} must not set securityContext.procMount to {}", quoted(kinds)))
    })
}

pub(super) fn selinux_options(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let (mut sets_user, mut sets_role) = (false, false);
    let places = pod.places_of(|context| {
        let Some(options) = context.at(&["seLinuxOptions"]) else { return false };
        let kind = options.text(&["type"]);
        let has_bad_type = !is_listed(&SELINUX_TYPES, kind, version);
        if has_bad_type {
            types.insert(kind);
        }
        let (has_user, has_role) = (!options.text(&["user"]).is_empty(), !options.text(&["role"]).is_empty());
        sets_user |= has_user;
        sets_role |= has_role;
        has_bad_type || has_user || has_role
    });
    if places.is_empty() {
        return None;
    }
    let mut problems = Vec::new();
    if !types.is_empty() {
        problems.push(listed("type", &types.into_iter().collect::<Vec<_>>()));
    }
    for (is_set, field) in [(sets_user, "user"), (sets_role, "role")] {
        if is_set {
            problems.push(format!("{field} may not be set"));
        }
    }
    let (places, problems) = (places.join(" and "), problems.join("; "));
    Some(Violation::new("seLinuxOptions", format!("{places} set forbidden securityContext.seLinuxOptions: {problems}")))
}

pub(super) fn seccomp(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    if version < 19 {
        return seccomp_annotations(pod);
    }
    let mut kinds = BTreeSet::new();
    let places = pod.places_of(|context| has_bad_seccomp(context, &mut kinds));
    (!places.is_empty()).then(|| forbidden_seccomp(&places, kinds))
}

/// Reports whether a security context has a forbidden seccomp profile, and adds its type.
pub(super) fn has_bad_seccomp<'p>(context: &'p Value, kinds: &mut BTreeSet<&'p str>) -> bool {
    let Some(profile) = context.at(&["seccompProfile"]) else { return false };
    let kind = profile.text(&["type"]);
    let is_bad = !matches!(kind, "RuntimeDefault" | "Localhost");
    if is_bad {
        kinds.insert(kind);
    }
    is_bad
}

pub(super) fn forbidden_seccomp(places: &[String], kinds: BTreeSet<&str>) -> Violation {
    let (places, kinds) = (places.join(" and "), quoted(kinds));
    Violation::new("seccompProfile", format!("{places} must not set securityContext.seccompProfile.type to {kinds}"))
}

/// Checks the annotations that selected a profile before there was a field.
fn seccomp_annotations(pod: &PodParts<'_>) -> Option<Violation> {
    let containers = pod.containers().map(|container| format!("{SECCOMP_PREFIX}{}", container.text(&["name"])));
    let keys = std::iter::once(SECCOMP_POD.to_owned()).chain(containers);
    let forbidden: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = pod.metadata.at(&["annotations", &key])?.as_str()?;
            let is_allowed = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!is_allowed).then(|| format!("{key}={}", go_quote(value)))
        })
        .collect();
    (!forbidden.is_empty()).then(|| {
        let noun = plural("annotation", forbidden.len());
        let forbidden = forbidden.into_iter().collect::<Vec<_>>().join(", ");
        Violation::new("seccompProfile", format!("forbidden {noun} {forbidden}"))
    })
}

pub(super) fn sysctls(pod: &PodParts<'_>, version: u32) -> Option<Violation> {
    let names = pod.spec.items(&["securityContext", "sysctls"]).iter().map(|sysctl| sysctl.text(&["name"]));
    let forbidden: Vec<&str> = names.filter(|name| !is_listed(&SYSCTLS, name, version)).collect();
    (!forbidden.is_empty()).then(|| Violation::new("forbidden sysctls", forbidden.join(", ")))
}

/// Rejects privileged containers of Windows.
pub(super) fn host_process(pod: &PodParts<'_>, _version: u32) -> Option<Violation> {
    let places = pod.places_of(|context| context.flag(&["windowsOptions", "hostProcess"]));
    (!places.is_empty()).then(|| {
        let places = places.join(" and ");
        Violation::new("hostProcess", format!("{places} must not set securityContext.windowsOptions.hostProcess=true"))
    })
}
