//! The checks of the Pod Security Standards.
//!
//! [`CHECKS`] is a table in the order of messages. Checks of a newer version apply to namespaces that select that
//! version or `latest`. Each check gets the version, because some became more or less strict.

use std::borrow::Cow;

use serde_json::Value;

use super::policy::{Level, Standard};
use crate::object::Tree;

mod baseline;
mod restricted;

/// A pod, or the template of pods in a workload.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodParts<'p> {
    /// The value with the annotations.
    pub(super) metadata: &'p Value,
    pub(super) spec: &'p Value,
}

/// A reason why a pod violates a standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    reason: Cow<'static, str>,
    detail: String,
}

type Run = fn(&PodParts<'_>, u32) -> Option<Violation>;

/// A row of the table.
struct Check {
    level: Level,
    /// The first minor version that has the check.
    since: u32,
    /// The minor version since which the level `restricted` has a stricter check instead of this one.
    replaced_since: Option<u32>,
    run: Run,
}

const fn baseline(run: Run) -> Check {
    Check { level: Level::Baseline, since: 0, replaced_since: None, run }
}

const fn restricted(since: u32, run: Run) -> Check {
    Check { level: Level::Restricted, since, replaced_since: None, run }
}

const CHECKS: [Check; 19] = [
    baseline(baseline::app_armor),
    Check { replaced_since: Some(22), ..baseline(baseline::capabilities) },
    baseline(baseline::host_namespaces),
    Check { replaced_since: Some(0), ..baseline(baseline::host_path_volumes) },
    baseline(baseline::host_ports),
    Check { since: 34, ..baseline(baseline::probe_hosts) },
    baseline(baseline::privileged),
    Check { replaced_since: Some(35), ..baseline(baseline::proc_mount) },
    baseline(baseline::selinux_options),
    Check { replaced_since: Some(19), ..baseline(baseline::seccomp) },
    baseline(baseline::sysctls),
    baseline(baseline::host_process),
    restricted(8, restricted::privilege_escalation),
    restricted(22, restricted::capabilities),
    restricted(35, restricted::proc_mount),
    restricted(0, restricted::volumes),
    restricted(0, restricted::non_root),
    restricted(23, restricted::user),
    restricted(19, restricted::seccomp),
];

/// Returns the violations of a standard by a pod. `latest` is the minor version of the server.
pub(super) fn violations(pod: &PodParts<'_>, standard: Standard, latest: u32) -> Vec<Violation> {
    let minor = standard.version.minor(latest);
    let applies = |check: &&Check| {
        let is_replaced =
            standard.level == Level::Restricted && check.replaced_since.is_some_and(|since| minor >= since);
        check.level <= standard.level && minor >= check.since && !is_replaced
    };
    CHECKS.iter().filter(applies).filter_map(|check| (check.run)(pod, minor)).collect()
}

/// Returns the reasons of violations.
pub(super) fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| &*violation.reason).collect::<Vec<_>>().join(", ")
}

/// Returns the reasons of violations with their details.
pub(super) fn details(violations: &[Violation]) -> String {
    let texts = violations.iter().map(|violation| match &*violation.detail {
        "" => violation.reason.to_string(),
        detail => format!("{} ({detail})", violation.reason),
    });
    texts.collect::<Vec<_>>().join(", ")
}

impl Violation {
    fn new(reason: impl Into<Cow<'static, str>>, detail: String) -> Self {
        Self { reason: reason.into(), detail }
    }
}

impl<'p> PodParts<'p> {
    /// Returns the parts of a pod or a template.
    pub(super) fn of(pod: &'p Value) -> Self {
        let part = |key: &str| pod.at(&[key]).unwrap_or(&Value::Null);
        Self { metadata: part("metadata"), spec: part("spec") }
    }

    /// Returns the containers of all kinds.
    fn containers(&self) -> impl Iterator<Item = &'p Value> + use<'p> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| spec.items(&[list]))
    }

    /// Returns the names of the containers with a property.
    fn names_of(&self, mut has: impl FnMut(&'p Value) -> bool) -> Vec<&'p str> {
        self.containers().filter(|container| has(container)).map(|container| container.text(&["name"])).collect()
    }

    /// Reports whether the pod runs in a user namespace.
    fn is_in_user_namespace(&self) -> bool {
        self.spec.at(&["hostUsers"]).and_then(Value::as_bool) == Some(false)
    }

    fn is_windows(&self) -> bool {
        self.spec.text(&["os", "name"]) == "windows"
    }

    /// Returns the places whose security context has a property: the pod, and the containers by name.
    fn places_of(&self, mut has: impl FnMut(&'p Value) -> bool) -> Vec<String> {
        let mut has = |value: &'p Value| value.at(&["securityContext"]).is_some_and(&mut has);
        let mut places = Vec::new();
        if has(self.spec) {
            places.push("pod".to_owned());
        }
        let containers = self.names_of(has);
        if !containers.is_empty() {
            places.push(listed("container", &containers));
        }
        places
    }
}

/// Returns a noun in singular or plural, for a number of things.
fn plural(noun: &str, count: usize) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

/// Returns a noun with the names of things, as in `containers "a", "b"`.
fn listed(noun: &str, names: &[&str]) -> String {
    format!("{} {}", plural(noun, names.len()), quoted(names))
}

/// Returns texts in quotes. The texts are not escaped.
fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
