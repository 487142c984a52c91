use serde_json::json;

use super::*;
use crate::admission::pod_security::policy::Version;

const LATEST: u32 = 37;

/// Returns the details of the violations of a level in a minor version.
fn found(level: Level, minor: u64, pod: &Value) -> String {
    let standard = Standard { level, version: Version::Minor(minor) };
    details(&violations(&PodParts::of(pod), standard, LATEST))
}

/// Returns a pod without violations of any level, whose container and spec have these additional fields.
fn pod(container: Value, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "a", "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
            }}],
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        },
    });
    merge(&mut pod["spec"]["containers"][0], container);
    merge(&mut pod["spec"], spec);
    pod
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn context(fields: Value) -> Value {
    json!({"securityContext": fields})
}

#[test]
fn pod_with_all_settings_violates_nothing() {
    for minor in 0..=LATEST {
        assert_eq!(found(Level::Restricted, minor.into(), &pod(json!({}), json!({}))), "", "v1.{minor}");
    }
    let bare = json!({"spec": {"containers": [{"name": "a"}]}});
    assert_eq!(found(Level::Baseline, 36, &bare), "");
    assert_eq!(found(Level::Privileged, 36, &pod(json!({}), json!({"hostNetwork": true}))), "");
    let expected = "allowPrivilegeEscalation != false (container \"a\" must set \
                    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must \
                    set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"a\" must \
                    set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set \
                    securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!(found(Level::Restricted, 36, &bare), expected);
}

#[test]
fn baseline_checks_report_the_place_and_the_value() {
    let rows = [
        (
            json!({}),
            json!({"hostNetwork": true, "hostPID": true, "hostIPC": true}),
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            json!({}),
            json!({"volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}]}),
            r#"hostPath volumes (volumes "v", "w")"#,
        ),
        (
            json!({"ports": [{"hostPort": 9}, {"hostPort": 80}, {"hostPort": 0}]}),
            json!({}),
            r#"hostPort (container "a" uses hostPorts 80, 9)"#,
        ),
        (
            context(json!({"privileged": true})),
            json!({}),
            r#"privileged (container "a" must not set securityContext.privileged=true)"#,
        ),
        (
            context(json!({"procMount": "Unmasked"})),
            json!({}),
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            context(json!({"capabilities": {"add": ["NET_RAW", "KILL", "BPF"]}})),
            json!({}),
            r#"non-default capabilities (container "a" must not include "BPF", "NET_RAW" in securityContext.capabilities.add)"#,
        ),
        (
            context(json!({"appArmorProfile": {"type": "Unconfined"}})),
            context(json!({"appArmorProfile": {"type": "Odd"}})),
            r#"forbidden AppArmor profiles (pod and container "a" must not set AppArmor profile type to "Odd", "Unconfined")"#,
        ),
        (
            context(json!({"seLinuxOptions": {"type": "x", "user": "u"}})),
            context(json!({"seLinuxOptions": {"role": "r"}})),
            r#"seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "x"; user may not be set; role may not be set)"#,
        ),
        (
            context(json!({"seccompProfile": {"type": "Unconfined"}})),
            json!({}),
            r#"seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            json!({}),
            context(json!({"sysctls": [{"name": "b"}, {"name": "kernel.shm_rmid_forced"}, {"name": "a"}]})),
            "forbidden sysctls (b, a)",
        ),
        (
            json!({}),
            context(json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            json!({"livenessProbe": {"httpGet": {"host": "h"}}, "lifecycle": {"preStop": {"tcpSocket": {"host": "g"}}}}),
            json!({}),
            r#"probe or lifecycle host (container "a" uses probe or lifecycle hosts "g", "h")"#,
        ),
    ];
    for (container, spec, expected) in rows {
        assert_eq!(found(Level::Baseline, 36, &pod(container, spec)), expected);
    }
}

#[test]
fn restricted_checks_report_the_place_and_the_value() {
    let rows = [
        (
            context(json!({"capabilities": {"add": ["KILL", "NET_BIND_SERVICE"], "drop": []}})),
            json!({}),
            "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]; container \
          \"a\" must not include \"KILL\" in securityContext.capabilities.add)",
        ),
        (
            json!({}),
            json!({"volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}, {"name": "x", "odd": {}}, {"name": "y", "secret": {}}]}),
            r#"restricted volume types (volumes "v", "w", "x" use restricted volume types "hostPath", "nfs", "unknown")"#,
        ),
        (
            context(json!({"runAsNonRoot": false})),
            context(json!({"runAsNonRoot": false})),
            r#"runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)"#,
        ),
        (
            context(json!({"runAsUser": 0})),
            context(json!({"runAsUser": 0})),
            r#"runAsUser=0 (pod and container "a" must not set runAsUser=0)"#,
        ),
        (
            json!({}),
            context(json!({"seccompProfile": {"type": "Unconfined"}})),
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (
            context(json!({"procMount": "Unmasked"})),
            json!({"hostUsers": false}),
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        ),
    ];
    for (container, spec, expected) in rows {
        assert_eq!(found(Level::Restricted, 36, &pod(container, spec)), expected);
    }
}

#[test]
fn checks_apply_from_their_version_on() {
    let escalation = context(json!({"allowPrivilegeEscalation": true}));
    let capabilities = context(json!({"capabilities": {"drop": []}}));
    let user = context(json!({"runAsUser": 0}));
    let hosts = json!({"livenessProbe": {"tcpSocket": {"host": "h"}}});
    for (container, level, since) in [
        (escalation, Level::Restricted, 8),
        (capabilities, Level::Restricted, 22),
        (user, Level::Restricted, 23),
        (hosts, Level::Baseline, 34),
    ] {
        let pod = pod(container, json!({}));
        assert_eq!(found(level, since - 1, &pod), "");
        assert_ne!(found(level, since, &pod), "");
    }
    for (name, since) in [
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_notsent_lowat", 37),
    ] {
        let pod = pod(json!({}), context(json!({"sysctls": [{"name": name}]})));
        assert_eq!(found(Level::Baseline, since - 1, &pod), format!("forbidden sysctls ({name})"));
        assert_eq!(found(Level::Baseline, since, &pod), "");
    }
    let engine = pod(context(json!({"seLinuxOptions": {"type": "container_engine_t"}})), json!({}));
    assert!(found(Level::Baseline, 30, &engine).contains(r#"type "container_engine_t""#));
    assert_eq!(found(Level::Baseline, 31, &engine), "");
}

#[test]
fn seccomp_is_an_annotation_before_1_19() {
    let mut pod = pod(json!({}), context(json!({"seccompProfile": null})));
    pod["metadata"]["annotations"] = json!({
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "localhost/x",
        "container.seccomp.security.alpha.kubernetes.io/other": "unconfined",
    });
    let expected = r#"seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")"#;
    assert_eq!(found(Level::Restricted, 18, &pod), expected);
    assert_eq!(found(Level::Baseline, 19, &pod), "");
    assert!(found(Level::Restricted, 19, &pod).starts_with("seccompProfile (pod or container"));
}

#[test]
fn app_armor_annotation_is_checked_in_all_versions() {
    let mut pod = pod(json!({}), json!({}));
    let key = "container.apparmor.security.beta.kubernetes.io/a";
    pod["metadata"]["annotations"] = json!({key: "unconfined"});
    let expected = format!(
        r#"forbidden AppArmor profile (annotation must not set AppArmor profile type to "{key}="unconfined"")"#
    );
    assert_eq!(found(Level::Baseline, 0, &pod), expected);
    pod["metadata"]["annotations"] = json!({key: "localhost/x"});
    assert_eq!(found(Level::Baseline, 0, &pod), "");
}

#[test]
fn windows_pods_need_no_settings_of_linux_since_1_25() {
    let windows = json!({"spec": {"os": {"name": "windows"}, "containers": [{"name": "a", "securityContext": {"runAsNonRoot": true}}]}});
    assert_eq!(found(Level::Restricted, 25, &windows), "");
    let reasons = found(Level::Restricted, 24, &windows);
    for reason in ["allowPrivilegeEscalation", "unrestricted capabilities", "seccompProfile"] {
        assert!(reasons.contains(reason), "{reasons}");
    }
}

#[test]
fn pods_in_user_namespaces_may_be_root_since_1_35() {
    let root = pod(
        context(json!({"runAsUser": 0, "procMount": "Unmasked"})),
        json!({"hostUsers": false, "securityContext": {"runAsNonRoot": false}}),
    );
    assert_eq!(found(Level::Baseline, 35, &root), "");
    assert!(found(Level::Baseline, 34, &root).starts_with("procMount"));
    assert_eq!(reasons_of(34, &root), "procMount, runAsNonRoot != true, runAsUser=0");
    assert_eq!(reasons_of(35, &root), "procMount");
}

fn reasons_of(minor: u64, pod: &Value) -> String {
    let standard = Standard { level: Level::Restricted, version: Version::Minor(minor) };
    reasons(&violations(&PodParts::of(pod), standard, LATEST))
}

#[test]
fn containers_of_all_kinds_are_checked() {
    let privileged = |name: &str| json!({"name": name, "securityContext": {"privileged": true}});
    let pod = json!({"spec": {
        "containers": [privileged("c")],
        "initContainers": [privileged("i")],
        "ephemeralContainers": [privileged("e")],
    }});
    let expected = r#"privileged (containers "i", "c", "e" must not set securityContext.privileged=true)"#;
    assert_eq!(found(Level::Baseline, 36, &pod), expected);
}
