//! What differs between kinds.

use std::{borrow::Cow, fmt};

use serde_json::Value;
use windlass_api::Status;

use crate::authn::User;

use super::{Errors, Item, NameRule, Resets, Tree};

/// The rules of one kind. The registry calls them in the order in which they stand here.
pub(crate) trait Strategy: fmt::Debug + Send + Sync + 'static {
    /// The rules that are mere facts.
    fn rules(&self) -> &Rules;

    /// Fills in what the client left out. Runs on every object that a client sends, and on patched ones.
    fn default(&self, _object: &mut Value) {}

    /// Changes an object that is about to be created. The status has been reset, metadata is complete.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Writes into a new object who makes it.
    fn sign(&self, _object: &mut Value, _user: &User) {}

    /// Changes an object that is about to replace `old`. The status is that of `old`, generation is counted afterwards.
    fn prepare_update(&self, _new: &mut Value, _old: &Value) {}

    /// Changes an object whose status is about to be updated. All but the status is that of `old`.
    fn prepare_status(&self, _new: &mut Value, _old: &Value) {}

    /// Changes an object of which a client may change only this part; everything in it is the client's so far.
    fn prepare_part(&self, _part: Part, _new: &mut Value, _old: &Value) {}

    /// Complains about an object that is about to be stored. Metadata is checked by the registry.
    fn validate(&self, _object: &Value, _errors: &mut Errors) {}

    /// Complains about a new object. [`Self::validate`] runs as well.
    fn validate_create(&self, _object: &Value, _errors: &mut Errors) {}

    /// Complains about changes. [`Self::validate`] runs as well.
    fn validate_update(&self, _new: &Value, _old: &Value, _errors: &mut Errors) {}

    /// Complains about a new status.
    fn validate_status(&self, _new: &Value, _old: &Value, _errors: &mut Errors) {}

    /// Complains about a new state of a part.
    fn validate_part(&self, _part: Part, _new: &Value, _old: &Value, _errors: &mut Errors) {}

    /// What the client should be told about what it sends.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Takes what the object needs beside itself (addresses, names) and writes it into the object. Runs before validation,
    /// for creations (`old` is none) and updates, dry runs as well; what is given back is dropped unless the write happens.
    fn begin(&self, _new: &mut Value, _old: Option<&Value>) -> Result<Option<Box<dyn Effect>>, Status> {
        Ok(None)
    }

    /// The objects of a kind that is not stored, and can only be read.
    fn fixed(&self) -> Option<Vec<Value>> {
        None
    }

    /// The value of a field for field selectors, given that [`Self::knows_field`].
    fn field<'v>(&self, object: &'v Value, label: &str) -> Cow<'v, str> {
        let path = self.rules().fields.iter().find(|field| field.label == label).map(|field| field.path);
        path.map_or(Cow::Borrowed(""), |path| field_text(object, path))
    }

    /// Whether field selectors may name this field (beside metadata.name and metadata.namespace).
    fn knows_field(&self, label: &str) -> bool {
        self.rules().fields.iter().any(|field| field.label == label)
    }

    /// Sees an object that was stored before the server started; called if [`Rules::restores`].
    fn restore(&self, _object: &Value) {}

    /// Sees an object that has been deleted; called if [`Rules::restores`].
    fn deleted(&self, _object: &Value) {}
}

/// Something outside of the object that a write has taken. Dropped without [`Self::committed`], it is given back.
pub(crate) trait Effect: Send {
    /// The write has happened.
    fn committed(self: Box<Self>, item: &Item);
}

/// The rules of a kind that are mere facts: the columns of the table of kinds.
#[allow(clippy::struct_excessive_bools, reason = "columns of a table, set by name and read one at a time")]
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// What its names look like.
    pub(crate) name: NameRule,
    /// What it checks of metadata beside what is checked of every kind.
    pub(crate) metadata: MetadataRule,
    /// What becomes of the status in writes that are not about it.
    pub(crate) status: StatusRule,
    /// What each sort of write leaves as it was.
    pub(crate) resets: Resets,
    /// When `metadata.generation` grows.
    pub(crate) generation: Generation,
    /// Whether an update may leave out the resourceVersion.
    pub(crate) unconditional_update: bool,
    /// Whether an update of an object that is not there creates it.
    pub(crate) create_on_update: bool,
    /// Whether a deletion is answered with the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// What becomes of dependents when the client does not say.
    pub(crate) dependents: Dependents,
    /// How deletions go.
    pub(crate) deletion: Deletion,
    /// The paths of the scale subresource's three fields.
    pub(crate) scale: Option<ScaleRule>,
    /// What field selectors may name beside name and namespace.
    pub(crate) fields: &'static [FieldRule],
    /// Whether field selectors may name the namespace.
    pub(crate) selects_namespace: bool,
    /// How it refuses other fields.
    pub(crate) unknown_field: UnknownField,
    /// Whether reads are served from memory by the real server, which decides how it refuses a version that is none.
    pub(crate) cached: bool,
    /// Whether the changes of an update are complained about before what it makes of the object.
    pub(crate) changes_first: bool,
    /// Whether the first update of this new object is written even if it changes nothing: the real server stores a new one
    /// without what defaulting adds to it when it is read.
    pub(crate) rewrites_new: fn(&Value) -> bool,
    /// Whether the strategy wants to see objects at the start of the server and after their deletion.
    pub(crate) restores: bool,
}

/// What the validation of a kind says of metadata, beside that of all kinds. What both find is told by both: a message
/// names it once, the causes each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataRule {
    /// Whether it looks at new objects.
    pub(crate) new: bool,
    /// Whether finalizers need a domain, or to be known.
    pub(crate) finalizers: bool,
    /// Whether an update may change what it changes.
    pub(crate) changes: bool,
    /// How often it looks at the whole of a changed object.
    pub(crate) changed: usize,
}

impl MetadataRule {
    pub(crate) const FULL: Self = Self { new: true, finalizers: true, changes: true, changed: 1 };
    pub(crate) const CHANGES: Self = Self { changed: 0, ..Self::FULL };
    pub(crate) const OBJECT: Self = Self { changes: false, ..Self::FULL };
    pub(crate) const NONE: Self = Self { new: false, finalizers: false, changes: false, changed: 0 };
    /// Of the API server's own groups.
    pub(crate) const GENERIC: Self = Self { finalizers: false, ..Self::OBJECT };
}

/// How a field selector that names an unknown field is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownField {
    /// By a kind with fields of its own in a few words, by another with a list of what there is.
    Listed,
    /// With the name of the kind.
    OfKind,
    /// With the name of the kind and its version.
    OfVersion,
}

/// A part of an object, other than its status, that a subresource is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The containers that are added to a running pod.
    EphemeralContainers,
    /// What the containers of a pod get of processors and memory.
    Resize,
    /// Whether a certificate is to be issued.
    Approval,
}

impl Part {
    /// What a subresource is about.
    pub(crate) fn of(subresource: &str) -> Option<Self> {
        Some(match subresource {
            "ephemeralcontainers" => Self::EphemeralContainers,
            "resize" => Self::Resize,
            "approval" => Self::Approval,
            _ => return None,
        })
    }
}

/// What becomes of the status in writes that are not about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusRule {
    /// It is a field like others, or there is none.
    Plain,
    /// Creations drop it, updates keep the old one.
    Reset,
    /// Creations take it, updates keep the old one.
    Initial,
}

/// When `metadata.generation` grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// It is not kept.
    None,
    /// With the spec.
    Spec,
    /// With the spec or the annotations.
    SpecOrAnnotations,
    /// With anything but metadata and status.
    Content,
    /// With anything but metadata, or with the labels.
    ContentOrLabels,
}

/// What becomes of the objects that a deleted object owns, when the client does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    /// The garbage collector deletes them afterwards.
    Background,
    /// They stay.
    Orphan,
    /// They stay, and the client is told so.
    OrphanLoudly,
    /// There is no garbage collection for this kind.
    Unsupported,
}

/// How deletions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// At once, unless there are finalizers.
    Plain,
    /// As of pods: whoever runs it gets time to stop it.
    Graceful,
    /// As of namespaces: once their content is gone.
    Namespace,
    /// As of definitions of custom resources: once their objects are gone.
    Definition,
}

/// Where the scale subresource finds its fields.
#[derive(Clone, Debug)]
pub(crate) struct ScaleRule {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    /// A label selector, or its text; none: the scale has no selector.
    pub(crate) selector: Option<Vec<String>>,
}

/// One field that field selectors may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRule {
    pub(crate) label: &'static str,
    /// Dotted path in the object.
    pub(crate) path: &'static str,
}

impl Rules {
    /// What most kinds do.
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
        scale: None,
        fields: &[],
        selects_namespace: true,
        unknown_field: UnknownField::Listed,
        cached: true,
        changes_first: false,
        rewrites_new: |_| false,
        restores: false,
    };

    /// What most kinds do that have a status.
    pub(crate) const WITH_STATUS: Self = Self { status: StatusRule::Reset, resets: Resets::STATUS, ..Self::COMMON };
}

/// The text that a field selector compares with.
pub(crate) fn field_text<'v>(object: &'v Value, path: &str) -> Cow<'v, str> {
    let path: Vec<&str> = path.split('.').collect();
    match object.at(&path) {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(Value::Number(number)) => Cow::Owned(number.to_string()),
        Some(Value::Bool(flag)) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        _ => Cow::Borrowed(""),
    }
}
