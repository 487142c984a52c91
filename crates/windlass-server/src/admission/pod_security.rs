//! The plugin `PodSecurity`: checks pods against the Pod Security Standards that their namespace selects by labels.
//!
//! Pods that violate the enforced standard are rejected. Workloads with such pods only cause warnings, because their
//! pods are checked again. Namespaces without labels have the defaults of the configuration: everything is allowed. The
//! annotations of the audit event are those of kube-apiserver.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::{task::yield_now, time::Instant};
use windlass_api::{GroupKind, Status};

use self::checks::{PodParts, Violation, details, reasons, violations};
pub(super) use self::policy::{Level, Policy, Standard, Version};
use crate::{
    codec::go_quote,
    object::{Errors, Tree},
    registry::{Admission, Attributes, Operation, Registry},
    resource::{Item, Target},
};

mod checks;
mod policy;

/// The largest number of pods, and the longest time, that a change of a namespace's labels checks.
const MAX_PODS: usize = 3000;
const MAX_TIME: Duration = Duration::from_secs(1);
/// The number of pods that are read before other tasks run. Exempt pods and replicas count, too.
const PODS_PER_TURN: usize = 50;

/// The kinds whose objects have a template of pods: group, plural, and the path of the template.
const WORKLOADS: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", TEMPLATE),
    ("apps", "daemonsets", TEMPLATE),
    ("apps", "deployments", TEMPLATE),
    ("apps", "replicasets", TEMPLATE),
    ("apps", "statefulsets", TEMPLATE),
    ("batch", "jobs", TEMPLATE),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template"]),
];
const TEMPLATE: &[&str] = &["spec", "template"];

/// Rejects pods that violate the standard of their namespace.
#[derive(Debug, Default)]
pub(crate) struct PodSecurity {
    /// The policy of namespaces without labels.
    defaults: Policy,
    exemptions: Exemptions,
}

/// The pods that are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exemptions {
    pub(crate) usernames: HashSet<String>,
    pub(crate) namespaces: HashSet<String>,
    pub(crate) runtime_classes: HashSet<String>,
}

/// The objects that the plugin checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Namespace,
    Pod,
    /// An object with a template of pods at this path.
    Workload(&'static [&'static str]),
}

impl Subject {
    fn of(write: &Attributes) -> Option<Self> {
        let (group, plural) = (&*write.resource.group, &*write.resource.plural);
        let subresource = write.subresource.as_deref();
        match (group, plural, subresource) {
            ("", "namespaces", None) => Some(Self::Namespace),
            ("", "pods", None | Some("ephemeralcontainers" | "resize")) => Some(Self::Pod),
            (_, _, None) => {
                let workload = WORKLOADS.iter().find(|workload| (workload.0, workload.1) == (group, plural));
                workload.map(|(_, _, path)| Self::Workload(path))
            }
            _ => None,
        }
    }
}

impl Admission for PodSecurity {
    fn handles(&self, write: &Attributes) -> bool {
        matches!(write.operation, Operation::Create | Operation::Update) && Subject::of(write).is_some()
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match Subject::of(write) {
                Some(Subject::Namespace) => self.check_namespace(registry, write).await,
                Some(Subject::Pod) => self.check_pod(registry, write).await,
                Some(Subject::Workload(path)) => self.check_workload(registry, write, path).await,
                None => Ok(()),
            }
        })
    }
}

impl PodSecurity {
    pub(super) const fn new(defaults: Policy, exemptions: Exemptions) -> Self {
        Self { defaults, exemptions }
    }

    /// Checks the labels of a namespace. Warns if the namespace is exempt, and of existing pods that violate a new standard.
    async fn check_namespace(&self, registry: &Registry, write: &Attributes) -> Result<(), Status> {
        let latest = registry.resources().kubernetes();
        let mut errors = Errors::of(latest);
        let policy = self.policy_of(&write.object, &mut errors);
        let Some(old) = &write.old else {
            errors.check(&namespace_kind(), &write.name)?;
            if self.exemptions.namespaces.contains(&write.name) {
                write.context.warnings.extend(self.exemption_warning(&policy, write));
            }
            return Ok(());
        };
        let mut old_errors = Errors::of(latest);
        let old = self.policy_of(old, &mut old_errors);
        let errors = errors.into_causes();
        if !errors.is_empty() && errors != old_errors.into_causes() {
            return Err(Status::invalid(&namespace_kind(), &write.name, errors));
        }
        let (new, old) = (policy.enforce, old.enforce);
        let is_relaxed = new.version == old.version && new.level <= old.level;
        if new == old || new.level == Level::Privileged || is_relaxed {
            return Ok(());
        }
        let warnings = if self.exemptions.namespaces.contains(&write.name) {
            self.exemption_warning(&policy, write).into_iter().collect()
        } else {
            self.warnings_of_pods(registry, &write.name, new).await
        };
        write.context.warnings.extend(warnings);
        Ok(())
    }

    /// Reads the policy from the labels of a namespace.
    fn policy_of(&self, namespace: &Value, errors: &mut Errors) -> Policy {
        let label = |name: &str| namespace.at(&["metadata", "labels", name]).and_then(Value::as_str);
        Policy::of(label, self.defaults, errors)
    }

    /// Returns a warning for an exempt namespace whose labels have no effect.
    fn exemption_warning(&self, policy: &Policy, write: &Attributes) -> Option<String> {
        if policy.is_privileged() || policy.is_equivalent(&self.defaults) {
            return None;
        }
        let is_set = |mode: &str| {
            let name = format!("{}{mode}", policy::PREFIX);
            let labels = [name.clone(), format!("{name}-version")];
            labels.iter().any(|label| write.object.at(&["metadata", "labels", label]).is_some())
        };
        let modes = policy.modes().into_iter();
        let modes = modes.filter(|(mode, standard)| standard.level != Level::Privileged && is_set(mode));
        let modes: Vec<String> = modes.map(|(mode, standard)| format!("{mode}={standard}")).collect();
        Some(format!(
            "namespace {} is exempt from Pod Security, and the policy ({}) will be ignored",
            go_quote(&write.name),
            modes.join(", ")
        ))
    }

    async fn check_pod(&self, registry: &Registry, write: &Attributes) -> Result<(), Status> {
        if self.exempts(write) {
            return Ok(());
        }
        let NamespacePolicy { policy, error } = match self.policy_for(registry, write).await {
            Ok(found) => found,
            Err(error) => {
                let status = Status::internal(lookup_failed(write));
                annotate(write, "error", || format!("{}: {error}", status.message));
                return Err(status);
            }
        };
        if error.is_none() && policy.is_privileged() {
            annotate(write, "enforce-policy", || Standard::default().to_string());
            return Ok(());
        }
        if write.old.as_ref().is_some_and(|old| !is_significant(&write.object, old)) {
            return Ok(());
        }
        let pod = PodParts::of(&write.object);
        if self.exempts_class(pod.spec) {
            annotate(write, "exempt", || "runtimeClass".to_owned());
            return Ok(());
        }
        let latest = registry.resources().kubernetes().minor();
        annotate_error(write, error);
        annotate(write, "enforce-policy", || policy.enforce.to_string());
        audit(write, &pod, policy.audit, latest);
        let found = violations(&pod, policy.enforce, latest);
        if !found.is_empty() {
            return Err(write.forbidden(format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&found))));
        }
        warn(write, &pod, policy.warn, latest);
        Ok(())
    }

    /// Warns of violations by the pods of a workload.
    async fn check_workload(&self, registry: &Registry, write: &Attributes, path: &[&str]) -> Result<(), Status> {
        if self.exempts(write) {
            return Ok(());
        }
        let NamespacePolicy { policy, error } = match self.policy_for(registry, write).await {
            Ok(found) => found,
            Err(error) => {
                annotate(write, "error", || format!("{}: {error}", lookup_failed(write)));
                return Ok(());
            }
        };
        if error.is_none() && [policy.audit, policy.warn].iter().all(|standard| standard.level == Level::Privileged) {
            return Ok(());
        }
        // The template of a replication controller is optional.
        let Some(template) = write.object.at(path) else { return Ok(()) };
        let pod = PodParts::of(template);
        if self.exempts_class(pod.spec) {
            annotate(write, "exempt", || "runtimeClass".to_owned());
            return Ok(());
        }
        let latest = registry.resources().kubernetes().minor();
        annotate_error(write, error);
        audit(write, &pod, policy.audit, latest);
        warn(write, &pod, policy.warn, latest);
        Ok(())
    }

    /// Returns the policy of the namespace of a write, or the reason why the namespace cannot be read. Invalid labels were
    /// valid when they were set, or the plugin was disabled then.
    async fn policy_for(&self, registry: &Registry, write: &Attributes) -> Result<NamespacePolicy, String> {
        let not_found = || format!("namespaces {} not found", go_quote(&write.namespace));
        let resources = registry.resources();
        let namespaces = resources.get("", "v1", "namespaces").ok_or_else(not_found)?;
        let namespace = registry.peek_recent(&Target::object(namespaces, None, &write.namespace)).await;
        let namespace = namespace.map_err(|status| status.message)?.ok_or_else(not_found)?;
        let mut errors = Errors::default();
        let policy = if let Some(labels) = namespace.encoded.labels() {
            let label = |name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            Policy::of(label, self.defaults, &mut errors)
        } else {
            let meta = namespace.encoded.meta().map_err(|error| error.to_string())?;
            Policy::of(|name| meta.label(name), self.defaults, &mut errors)
        };
        let errors = errors.into_causes().into_iter().map(|cause| format!("{}: {}", cause.field, cause.message));
        let errors: Vec<String> = errors.collect();
        let error = match errors.as_slice() {
            [] => None,
            [error] => Some(error.clone()),
            _ => Some(format!("[{}]", errors.join(", "))),
        };
        Ok(NamespacePolicy { policy, error })
    }

    fn exempts(&self, write: &Attributes) -> bool {
        let reason = if self.exemptions.namespaces.contains(&write.namespace) {
            "namespace"
        } else if self.exemptions.usernames.contains(&write.context.user.name) {
            "user"
        } else {
            return false;
        };
        annotate(write, "exempt", || reason.to_owned());
        true
    }

    fn exempts_class(&self, spec: &Value) -> bool {
        self.exemptions.runtime_classes.contains(spec.text(&["runtimeClassName"]))
    }

    /// Returns warnings about the existing pods that violate a standard.
    async fn warnings_of_pods(&self, registry: &Registry, namespace: &str, standard: Standard) -> Vec<String> {
        let resources = registry.resources();
        let Some(pods) = resources.get("", "v1", "pods") else { return Vec::new() };
        let Ok(pods) = registry.peek_all(&Target::collection(pods, Some(namespace))).await else {
            return vec!["failed to list pods while checking new PodSecurity enforce level".to_owned()];
        };
        let latest = resources.kubernetes().minor();
        let summary = self.summarize(pods, |pod| violations(pod, standard, latest)).await;
        summary.warnings(namespace, standard)
    }

    /// Checks the pods of a namespace within [`MAX_PODS`] and [`MAX_TIME`]. Pods of different controllers come first.
    async fn summarize(&self, pods: Vec<Item>, check: impl Fn(&PodParts<'_>) -> Vec<Violation>) -> Summary {
        let end = Instant::now() + MAX_TIME;
        let mut summary = Summary { total: pods.len(), ..Summary::default() };
        let mut controllers = HashSet::new();
        let mut replicas = Vec::new();
        for item in pods {
            if summary.is_over(end).await {
                return summary;
            }
            let pod = item.value();
            if pod.at(&["spec"]).is_some_and(|spec| self.exempts_class(spec)) {
                summary.total -= 1;
            } else if controller_of(&pod).is_some_and(|controller| !controllers.insert(controller.to_owned())) {
                replicas.push(item);
            } else {
                summary.add(&pod, &check);
            }
        }
        for item in replicas {
            if summary.is_over(end).await {
                break;
            }
            summary.add(&item.value(), &check);
        }
        summary
    }
}

/// The policy of a namespace, and the errors in its labels.
struct NamespacePolicy {
    policy: Policy,
    error: Option<String>,
}

/// The violations of a standard by the pods of a namespace.
#[derive(Debug, Default)]
struct Summary {
    /// The number of pods in the namespace.
    total: usize,
    checked: usize,
    /// The number of calls of [`Self::is_over`].
    turns: usize,
    /// The number of pods with the same reasons, and the first of their names.
    found: BTreeMap<String, (usize, String)>,
}

impl Summary {
    /// Reports whether no more pods are checked. Lets other tasks run from time to time.
    async fn is_over(&mut self, end: Instant) -> bool {
        self.turns += 1;
        if self.turns.is_multiple_of(PODS_PER_TURN) {
            yield_now().await;
        }
        self.checked >= MAX_PODS || Instant::now() >= end
    }

    fn add(&mut self, pod: &Value, check: impl Fn(&PodParts<'_>) -> Vec<Violation>) {
        self.checked += 1;
        let found = check(&PodParts::of(pod));
        if found.is_empty() {
            return;
        }
        let name = pod.text(&["metadata", "name"]);
        let (count, first) = self.found.entry(reasons(&found)).or_insert_with(|| (0, name.to_owned()));
        *count += 1;
        if name < first.as_str() {
            name.clone_into(first);
        }
    }

    fn warnings(self, namespace: &str, standard: Standard) -> Vec<String> {
        let mut warnings = Vec::new();
        let Self { total, checked, found, .. } = self;
        if checked < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            ));
        }
        if !found.is_empty() {
            let namespace = go_quote(namespace);
            warnings.push(format!(
                "existing pods in namespace {namespace} violate the new PodSecurity enforce level \"{standard}\""
            ));
        }
        let lines = found.into_iter().map(|(reasons, (count, name))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort_unstable();
        warnings.extend(lines);
        warnings
    }
}

fn lookup_failed(write: &Attributes) -> String {
    format!("failed to lookup namespace {}", go_quote(&write.namespace))
}

/// Adds an annotation to the audit event, if there is one.
fn annotate(write: &Attributes, key: &str, value: impl FnOnce() -> String) {
    if write.context.audit.is_enabled() {
        write.context.audit.annotate_admission(format!("{}{key}", policy::PREFIX), value());
    }
}

/// Adds the errors in the labels of the namespace to the audit event.
fn annotate_error(write: &Attributes, error: Option<String>) {
    if let Some(error) = error {
        annotate(write, "error", || format!("Failed to parse policy: {error}"));
    }
}

/// Adds violations of a standard to the audit event.
fn audit(write: &Attributes, pod: &PodParts<'_>, standard: Standard, latest: u32) {
    if !write.context.audit.is_enabled() {
        return;
    }
    let found = violations(pod, standard, latest);
    if !found.is_empty() {
        let text = || format!("would violate PodSecurity \"{standard}\": {}", details(&found));
        annotate(write, "audit-violations", text);
    }
}

/// Warns of violations of a standard.
fn warn(write: &Attributes, pod: &PodParts<'_>, standard: Standard, latest: u32) {
    let found = violations(pod, standard, latest);
    if !found.is_empty() {
        write.context.warnings.add(format!("would violate PodSecurity \"{standard}\": {}", details(&found)));
    }
}

/// Reports whether an update of a pod can change the result of the checks. Otherwise updates are allowed: the pod was
/// checked when it was created, and its namespace may have become stricter since.
fn is_significant(new: &Value, old: &Value) -> bool {
    let lists = |pod: &'static str| (new.items(&["spec", pod]), old.items(&["spec", pod]));
    let has_new_image = |(new, old): (&Value, &Value)| new.text(&["image"]) != old.text(&["image"]);
    let is_changed = ["containers", "initContainers"].into_iter().any(|list| {
        let (new, old) = lists(list);
        new.len() != old.len() || new.iter().zip(old).any(has_new_image)
    });
    let (new, old) = lists("ephemeralContainers");
    let old: HashMap<&str, &Value> = old.iter().rev().map(|old| (old.text(&["name"]), old)).collect();
    is_changed || new.iter().any(|new| old.get(new.text(&["name"])).is_none_or(|old| has_new_image((new, old))))
}

/// Returns the UID of a pod's controller.
fn controller_of(pod: &Value) -> Option<&str> {
    let owners = pod.items(&["metadata", "ownerReferences"]);
    owners.iter().find(|owner| owner.flag(&["controller"])).map(|owner| owner.text(&["uid"]))
}

fn namespace_kind() -> GroupKind {
    GroupKind::new("", "Namespace")
}

#[cfg(test)]
mod tests;
