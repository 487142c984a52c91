//! The rules that differ between kinds.

use std::{borrow::Cow, fmt, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use windlass_api::{Clock, Status};

use crate::identity::User;

use crate::{
    kubernetes::KubernetesVersion,
    object::{DeclaredRule, Errors, Field, NameRule, Tree},
    resource::{Resets, pod_gates},
};

/// A field of a feature that the kube-apiserver of a version enables by default. Older versions drop the field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatedField {
    /// `*` stands for each element of a list or a map. `name!` stays when it becomes empty.
    path: &'static str,
    /// The first version that drops the field.
    from: KubernetesVersion,
    /// The first version that no longer drops it. `None` for a feature that no version enables.
    since: Option<KubernetesVersion>,
}

/// The rules of one kind. The registry calls the methods in the order of this trait.
pub(crate) trait Strategy: fmt::Debug + Send + Sync + 'static {
    /// Returns the constant rules.
    fn rules(&self) -> &Rules;

    /// Returns the fields behind the scale subresource; `None` if the kind has none.
    fn scale(&self) -> Option<&ScaleRule> {
        None
    }

    /// Marks an object whose deletion begins. Called with [`Deletion::Finalized`].
    fn begin_deletion(&self, _object: &mut Value, _now: &str) {}

    /// Applies defaults. Runs on every object that a client sends, and on patched objects.
    fn default(&self, _object: &mut Value) {}

    /// Prepares an object for creation. The status has been reset, the metadata is complete, and the fields of disabled
    /// features are removed.
    fn prepare_create(&self, _object: &mut Value, _write: &WriteContext<'_>) {}

    /// Prepares an object that replaces `old`. The status is that of `old`, and the fields of disabled features are
    /// removed; the generation is incremented afterwards.
    fn prepare_update(&self, _new: &mut Value, _old: &Value) {}

    /// Prepares a status update. Everything but the status is that of `old`.
    fn prepare_status(&self, _new: &mut Value, _old: &Value, _write: &WriteContext<'_>) {}

    /// Prepares an update of one part. `new` is still entirely the client's object, so this restores the other parts.
    fn prepare_part(&self, _part: Part, _new: &mut Value, _old: &Value, _write: &WriteContext<'_>) {}

    /// Allocates resources outside of the object, such as addresses and ports, and writes them into the object. Runs
    /// before validation, for creations (`old` is `None`) and updates, including dry runs. `None` if the kind has none.
    fn allocate<'a>(
        &'a self,
        _new: &'a mut Value,
        _old: Option<&'a Value>,
        _mode: AllocationMode,
    ) -> Option<BoxFuture<'a, Result<Box<dyn Allocation>, Status>>> {
        None
    }

    /// Validates an object that is about to be stored. The registry validates the metadata.
    fn validate(&self, _object: &Field<'_>, _errors: &mut Errors) {}

    /// Validates a new object. [`Self::validate`] runs as well.
    fn validate_create(&self, _object: &Field<'_>, _errors: &mut Errors) {}

    /// Validates the changes of an update. [`Self::validate`] runs as well.
    fn validate_update(&self, _new: &Field<'_>, _old: &Field<'_>, _errors: &mut Errors) {}

    /// Validates a new status.
    fn validate_status(&self, _new: &Field<'_>, _old: &Field<'_>, _errors: &mut Errors) {}

    /// Validates a new state of a part.
    fn validate_part(&self, _part: Part, _new: &Field<'_>, _old: &Field<'_>, _errors: &mut Errors) {}

    /// Returns the warnings for the client's object.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Returns the objects of a read-only kind that is not stored.
    fn fixed(&self) -> Option<Vec<Value>> {
        None
    }

    /// Returns the value of a field for field selectors. The field must satisfy [`Self::knows_field`].
    fn field<'v>(&self, object: &'v Value, label: &str) -> Cow<'v, str> {
        self.rules().field_text(object, label)
    }

    /// Reports whether field selectors support this field (besides metadata.name and metadata.namespace).
    fn knows_field(&self, label: &str) -> bool {
        self.rules().fields.iter().any(|field| field.label == label)
    }

    /// Reports whether writes claim or release something, which is more than the object itself.
    fn has_claims(&self) -> bool {
        false
    }

    /// Receives an object that this server has stored, or that was stored before it started; called if
    /// [`Rules::restores`].
    fn stored(&self, _object: &Value) {}

    /// Receives an object that this server has deleted, and releases what was allocated for it.
    fn deleted<'a>(&'a self, _object: &'a Value) -> Option<BoxFuture<'a, ()>> {
        None
    }

    /// Follows a change of a stored object by any server, for kinds with [`Rules::restores`]. Runs only with a storage that
    /// other servers may use.
    fn follow(&self, _previous: Option<&Value>, _current: Option<&Value>) {}

    /// Receives all stored objects instead of the changes that [`Self::follow`] has missed. Objects that are not among them
    /// were deleted.
    fn follow_all(&self, _objects: &[Value]) {}
}

/// The user and the time of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteContext<'w> {
    pub(crate) user: &'w User,
    pub(crate) clock: &'w Clock,
    pub(crate) kubernetes: KubernetesVersion,
}

/// The options of a write that an allocation depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationMode {
    pub(crate) is_dry_run: bool,
    /// `false` for writes that no webhook may reject.
    pub(crate) calls_webhooks: bool,
}

/// An allocation outside of the object that a write holds.
pub(crate) trait Allocation: Send {
    /// Marks the begin of the write to the storage. From here on, its result can be unknown.
    fn storing(&mut self);

    /// Marks that the storage has rejected the write.
    fn rejected(&mut self);

    /// Confirms the allocation after the write, and releases what the object no longer needs.
    fn committed(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// Releases the allocation after a failed write.
    fn revert(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// The constant rules of a kind: the columns of the table of kinds.
#[allow(clippy::struct_excessive_bools, reason = "columns of a table, set by name and read one at a time")]
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The syntax of the names.
    pub(crate) name: NameRule,
    /// The metadata validation that the kind adds to the common validation.
    pub(crate) metadata: MetadataRule,
    /// The handling of the status in writes of other parts.
    pub(crate) status: StatusRule,
    /// The fields that each kind of write resets.
    pub(crate) resets: Resets,
    /// The changes that increment `metadata.generation`.
    pub(crate) generation: Generation,
    /// `true` if an update may omit the resourceVersion.
    pub(crate) unconditional_update: bool,
    /// `true` if an update of a missing object creates it.
    pub(crate) create_on_update: bool,
    /// `true` if a deletion returns the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// The default propagation policy for dependents.
    pub(crate) dependents: Dependents,
    /// The deletion procedure.
    pub(crate) deletion: Deletion,
    /// The paths of fields of disabled features, which writes drop. `*` stands for each element of a list.
    pub(crate) disabled_fields: &'static [&'static str],
    /// The fields of features that are disabled in older Kubernetes versions, and fields of disabled features that also
    /// status updates drop.
    pub(crate) gated_fields: &'static [GatedField],
    /// The same for pod specs.
    pub(crate) gated_pod_fields: &'static [GatedField],
    /// The paths of fields of disabled features in the pod spec.
    pub(crate) disabled_pod_fields: &'static [&'static str],
    /// The rules that the Kubernetes version declares with the kind's type.
    pub(crate) declared: &'static [DeclaredRule],
    /// `true` if an error that several checks find is reported once.
    pub(crate) reports_once: bool,
    /// The Kubernetes version that the kind belongs to.
    pub(crate) kubernetes: KubernetesVersion,
    /// The location of the pod spec, as a JSON pointer.
    pub(crate) pod_spec: Option<&'static str>,
    /// The selectable fields besides name and namespace.
    pub(crate) fields: &'static [FieldRule],
    /// The selectable field by whose value lists and watches are indexed.
    pub(crate) indexed_field: Option<&'static str>,
    /// `true` if field selectors support the namespace.
    pub(crate) selects_namespace: bool,
    /// The error for other fields in field selectors.
    pub(crate) unknown_field: UnknownField,
    /// `true` if the real server serves reads from its watch cache. This decides the error for an invalid
    /// resourceVersion.
    pub(crate) cached: bool,
    /// `true` if an update is validated for its changes first, and for its resulting state second.
    pub(crate) changes_first: bool,
    /// `true` if an update is validated twice for its resulting state. Errors are then reported as for
    /// [`MetadataRule`].
    pub(crate) validated_twice: bool,
    /// Returns `true` if the first update of this new object is written even without changes. The real server stores
    /// such an object without the defaults that it applies on reads.
    pub(crate) rewrites_new: fn(&Value) -> bool,
    /// The time for which an object is stored after its last write; `None` until it is deleted.
    pub(crate) lifetime: Option<Duration>,
    /// `true` if the strategy keeps state of the stored objects, and receives them at server start and after each write.
    pub(crate) restores: bool,
}

/// The metadata validation that a kind adds to the common validation. Errors that both find are reported twice: the
/// message names them once, the causes list them each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataRule {
    /// `true` if new objects are validated.
    pub(crate) new: bool,
    /// `true` if finalizers must have a domain or be standard ones.
    pub(crate) finalizers: bool,
    /// `true` if the kind validates the changes of an update again.
    pub(crate) changes: bool,
    /// The number of times that the kind validates the metadata of a changed object.
    pub(crate) changed: usize,
}

impl MetadataRule {
    pub(crate) const FULL: Self = Self { new: true, finalizers: true, changes: true, changed: 1 };
    pub(crate) const CHANGES: Self = Self { changed: 0, ..Self::FULL };
    pub(crate) const OBJECT: Self = Self { changes: false, ..Self::FULL };
    pub(crate) const NONE: Self = Self { new: false, finalizers: false, changes: false, changed: 0 };
    /// The rule for the API server's own groups.
    pub(crate) const GENERIC: Self = Self { finalizers: false, ..Self::OBJECT };
}

/// The error for a field selector that names an unknown field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownField {
    /// A short text for a kind with its own selectable fields; a list of the supported fields for other kinds.
    Listed,
    /// A text with the name of the kind.
    OfKind,
    /// A text with the name of the kind and its version.
    OfVersion,
}

/// A part of an object, other than its status, that a subresource covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The ephemeral containers that are added to a running pod.
    EphemeralContainers,
    /// The CPU and memory resources of a pod's containers.
    Resize,
    /// The approval of a certificate signing request.
    Approval,
}

impl Part {
    /// Returns the part that a subresource covers.
    pub(crate) fn of(subresource: &str) -> Option<Self> {
        Some(match subresource {
            "ephemeralcontainers" => Self::EphemeralContainers,
            "resize" => Self::Resize,
            "approval" => Self::Approval,
            _ => return None,
        })
    }
}

/// The handling of the status in writes of other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusRule {
    /// The status is an ordinary field, or the kind has none.
    Plain,
    /// Creations drop the status; updates keep the old one.
    Reset,
    /// Creations accept the status; updates keep the old one.
    Initial,
}

/// The changes that increment `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The generation is not maintained.
    None,
    /// Changes of the spec.
    Spec,
    /// Changes of the spec or the annotations.
    SpecOrAnnotations,
    /// Changes of anything but metadata and status.
    Content,
    /// Changes of anything but metadata, or of the labels.
    ContentOrLabels,
}

/// The default handling of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// The garbage collector deletes the dependents afterwards.
    Background,
    /// The dependents are orphaned.
    Orphan,
    /// The dependents are orphaned, and the client receives a warning.
    OrphanWithWarning,
    /// Garbage collection is not supported for this kind.
    Unsupported,
}

/// The deletion procedure of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// Immediate, unless the object has finalizers.
    Plain,
    /// Pods: the kubelet gets a grace period to stop them.
    Graceful,
    /// Namespaces: removed once their content is deleted.
    Namespace,
    /// CustomResourceDefinitions: removed by their controller once their custom resources are deleted.
    Finalized,
}

/// The paths of the fields behind the scale subresource.
#[derive(Clone, Debug)]
pub(crate) struct ScaleRule {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// The path of a label selector or its text; `None` if the scale has no selector.
    pub(crate) selector: Option<Vec<String>>,
}

/// A field that field selectors support.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRule {
    pub(crate) label: &'static str,
    /// The dotted path in the object.
    pub(crate) path: &'static str,
}

impl Rules {
    /// The rules of most kinds.
    pub(crate) const COMMON: Self = Self {
        name: NameRule::Subdomain,
        metadata: MetadataRule::FULL,
        status: StatusRule::Plain,
        resets: Resets::NONE,
        generation: Generation::None,
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        dependents: Dependents::Background,
        deletion: Deletion::Plain,
        disabled_fields: &[],
        gated_fields: &[],
        gated_pod_fields: &[],
        disabled_pod_fields: &[],
        declared: &[],
        reports_once: false,
        kubernetes: KubernetesVersion::V1_36,
        pod_spec: None,
        fields: &[],
        indexed_field: None,
        selects_namespace: true,
        unknown_field: UnknownField::Listed,
        cached: true,
        changes_first: false,
        validated_twice: false,
        rewrites_new: |_| false,
        lifetime: None,
        restores: false,
    };

    /// The rules of most kinds with a status.
    pub(crate) const WITH_STATUS: Self = Self { status: StatusRule::Reset, resets: Resets::STATUS, ..Self::COMMON };

    /// Returns the dotted path of the indexed field with this label.
    pub(crate) fn indexed_path(&self, label: &str) -> Option<&'static str> {
        if self.indexed_field == Some(label) { self.path_of(label) } else { None }
    }

    fn path_of(&self, label: &str) -> Option<&'static str> {
        self.fields.iter().find(|field| field.label == label).map(|field| field.path)
    }

    /// Returns the value of a selectable field: the text at its path.
    pub(crate) fn field_text<'v>(&self, object: &'v Value, label: &str) -> Cow<'v, str> {
        self.path_of(label).map_or(Cow::Borrowed(""), |path| text_at(object, path))
    }

    /// Brings the errors of an object into the form in which the Kubernetes version reports them.
    pub(crate) fn arrange(&self, errors: &mut Errors) {
        if self.reports_once {
            errors.remove_repeated();
        }
        errors.move_declared(self.declared);
    }

    /// Removes the fields of disabled features.
    pub(crate) fn drop_disabled_fields(&self, object: &mut Value) {
        for path in self.disabled_fields {
            drop_at(object, path);
        }
        if let Some(pod) = self.pod_spec.and_then(|pointer| object.pointer_mut(pointer)) {
            for path in self.disabled_pod_fields {
                drop_at(pod, path);
            }
            drop_gated(pod, self.gated_pod_fields, self.kubernetes);
            pod_gates::drop_disabled(self.kubernetes, pod);
        }
        self.drop_gated_fields(object);
    }

    /// Removes the gated fields of features that are disabled in this Kubernetes version.
    pub(crate) fn drop_gated_fields(&self, object: &mut Value) {
        drop_gated(object, self.gated_fields, self.kubernetes);
    }
}

impl GatedField {
    /// Returns a field that the versions from `from` to that before `since` drop.
    pub(crate) const fn new(path: &'static str, from: KubernetesVersion, since: KubernetesVersion) -> Self {
        Self { path, from, since: Some(since) }
    }

    /// Returns a field that every version drops.
    pub(crate) const fn disabled(path: &'static str) -> Self {
        Self { path, from: KubernetesVersion::ALL[0], since: None }
    }
}

impl WriteContext<'_> {
    /// Returns the time of the write, as Kubernetes writes times.
    pub(crate) fn now(&self) -> String {
        windlass_api::format_time(self.clock.now())
    }
}

impl ScaleRule {
    /// The rule of the built-in workloads.
    pub(crate) fn of_workloads() -> Self {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        Self {
            spec_replicas: path("spec.replicas"),
            status_replicas: path("status.replicas"),
            selector: Some(path("spec.selector")),
        }
    }
}

/// Returns the text that a field selector compares with.
fn text_at<'v>(object: &'v Value, path: &str) -> Cow<'v, str> {
    let path: Vec<&str> = path.split('.').collect();
    match object.at(&path) {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(Value::Number(number)) => Cow::Owned(number.to_string()),
        Some(Value::Bool(flag)) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        _ => Cow::Borrowed(""),
    }
}

fn drop_gated(value: &mut Value, fields: &[GatedField], kubernetes: KubernetesVersion) {
    let is_dropped =
        |field: &&GatedField| kubernetes >= field.from && field.since.is_none_or(|since| kubernetes < since);
    for field in fields.iter().filter(is_dropped) {
        drop_at(value, field.path);
    }
}

/// Removes the field at a path, in which `*` stands for each element of a list or a map. Also removes an object that
/// becomes empty, unless its name ends with `!`.
fn drop_at(value: &mut Value, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let (first, stays) = first.strip_suffix('!').map_or((first, false), |name| (name, true));
    match (value, rest) {
        (Value::Array(items), Some(rest)) if first == "*" => items.iter_mut().for_each(|item| drop_at(item, rest)),
        (Value::Object(entries), Some(rest)) if first == "*" => {
            entries.values_mut().for_each(|entry| drop_at(entry, rest));
        }
        (Value::Object(fields), None) => drop(fields.shift_remove(first)),
        (Value::Object(fields), Some(rest)) => {
            let Some(inner) = fields.get_mut(first) else { return };
            let held = inner.as_object().is_some_and(|inner| !inner.is_empty());
            drop_at(inner, rest);
            if held && !stays && inner.as_object().is_some_and(Map::is_empty) {
                fields.shift_remove(first);
            }
        }
        _ => {}
    }
}
