//! The content of a `CustomResourceDefinition`: parsing, defaults and validation.

mod approval;
mod validation;

use serde_json::{Map, Value, json};
use windlass_api::Scope;

pub(super) use self::approval::Approval;
pub(crate) use self::validation::{validate_definition, validate_definition_update, validate_unapproved_definition};
use crate::{
    object::{Tree, as_object, default_pointer, default_to, object_mut},
    webhook::is_bundle,
};

/// The finalizer of a CRD, which stays until its custom resources are deleted.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The parts of a CRD that are necessary to serve it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Crd {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) group: String,
    pub(super) scope: Scope,
    /// The requested names.
    pub(super) names: Names,
    /// The accepted names; names that are not accepted are empty.
    pub(super) accepted: Names,
    pub(super) versions: Vec<DefinitionVersion>,
    /// The conversion between versions: `spec.conversion`.
    pub(super) conversion: Value,
    pub(super) established: bool,
    /// `true` if the CRD is being deleted, together with its custom resources.
    pub(super) terminating: bool,
}

/// The names of a custom resource.
#[allow(clippy::struct_field_names, reason = "`short_names` is the name in the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) categories: Vec<String>,
}

/// One version of a CRD.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DefinitionVersion {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    /// The deprecation warning that is sent with every response.
    pub(super) deprecation: Option<String>,
    /// The schema: `openAPIV3Schema`.
    pub(super) schema: Value,
    pub(super) has_status: bool,
    pub(super) scale: Option<ScalePaths>,
    /// The printer columns: `additionalPrinterColumns`.
    pub(super) columns: Value,
    /// The selectable fields, such as `spec.color`.
    pub(super) selectable: Vec<String>,
}

/// The paths of the scale subresource's fields, without their first dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScalePaths {
    pub(super) spec_replicas: String,
    pub(super) status_replicas: String,
    pub(super) selector: Option<String>,
}

#[cfg(test)]
thread_local! {
    static READS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns how often CRDs have been parsed on this thread.
#[cfg(test)]
pub(super) fn reads() -> usize {
    READS.get()
}

impl Crd {
    /// Parses a stored CRD.
    pub(super) fn read(object: &Value) -> Self {
        #[cfg(test)]
        READS.set(READS.get() + 1);
        let condition = |kind: &str| {
            let conditions = object.items(&["status", "conditions"]);
            conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
        };
        let text = |path: &[&str]| object.text(path).to_owned();
        Self {
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            generation: object.int(&["metadata", "generation"]).unwrap_or_default(),
            group: text(&["spec", "group"]),
            scope: if object.text(&["spec", "scope"]) == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
            names: Names::read(&object["spec"]["names"]),
            accepted: Names::read(&object["status"]["acceptedNames"]),
            versions: object.items(&["spec", "versions"]).iter().map(|v| DefinitionVersion::read(v, object)).collect(),
            conversion: object.at(&["spec", "conversion"]).cloned().unwrap_or_default(),
            established: condition("Established"),
            terminating: condition("Terminating") || object.at(&["metadata", "deletionTimestamp"]).is_some(),
        }
    }

    /// Reports whether the CA bundle of the conversion webhook is valid; `true` if there is none.
    pub(super) fn has_sound_bundle(&self) -> bool {
        is_bundle(self.bundle())
    }

    fn bundle(&self) -> &str {
        self.conversion.text(&["webhook", "clientConfig", "caBundle"])
    }

    /// Returns the storage version.
    pub(super) fn storage(&self) -> Option<&DefinitionVersion> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl Names {
    /// Parses the accepted names in a status.
    pub(super) fn from_status(status: &Map<String, Value>) -> Self {
        status.get("acceptedNames").map(Self::read).unwrap_or_default()
    }

    fn read(names: &Value) -> Self {
        let text = |key: &str| names.text(&[key]).to_owned();
        let texts = |key: &str| names.items(&[key]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            plural: text("plural"),
            singular: text("singular"),
            short_names: texts("shortNames"),
            kind: text("kind"),
            list_kind: text("listKind"),
            categories: texts("categories"),
        }
    }

    /// Encodes the names for a status.
    pub(super) fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("plural".to_owned(), self.plural.as_str().into());
        let mut add = |key: &str, value: Value| {
            if value != "" && value != json!([]) {
                out.insert(key.to_owned(), value);
            }
        };
        add("singular", self.singular.as_str().into());
        add("shortNames", self.short_names.clone().into());
        add("listKind", self.list_kind.as_str().into());
        add("categories", self.categories.clone().into());
        out.insert("kind".to_owned(), self.kind.as_str().into());
        Value::Object(out)
    }
}

impl DefinitionVersion {
    fn read(version: &Value, definition: &Value) -> Self {
        let text = |path: &[&str]| version.text(path).trim_start_matches('.').to_owned();
        let scale = version.at(&["subresources", "scale"]).map(|scale| ScalePaths {
            spec_replicas: text(&["subresources", "scale", "specReplicasPath"]),
            status_replicas: text(&["subresources", "scale", "statusReplicasPath"]),
            selector: scale.at(&["labelSelectorPath"]).map(|_| text(&["subresources", "scale", "labelSelectorPath"])),
        });
        let selectable = version.items(&["selectableFields"]).iter();
        Self {
            name: version.text(&["name"]).to_owned(),
            served: version.flag(&["served"]),
            storage: version.flag(&["storage"]),
            deprecation: version.flag(&["deprecated"]).then(|| deprecation(version, definition)),
            schema: version.at(&["schema", "openAPIV3Schema"]).cloned().unwrap_or_else(|| json!({"type": "object"})),
            has_status: version.at(&["subresources", "status"]).is_some(),
            scale,
            columns: version["additionalPrinterColumns"].clone(),
            selectable: selectable.map(|field| field.text(&["jsonPath"]).trim_start_matches('.').to_owned()).collect(),
        }
    }
}

fn deprecation(version: &Value, definition: &Value) -> String {
    if let Some(warning) = version.at(&["deprecationWarning"]).and_then(Value::as_str) {
        return warning.to_owned();
    }
    let name = version.text(&["name"]);
    let (group, kind) = (definition.text(&["spec", "group"]), definition.text(&["spec", "names", "kind"]));
    let better = definition.items(&["spec", "versions"]).iter().filter(|other| other.flag(&["served"]));
    let better = better.filter(|other| !other.flag(&["deprecated"])).map(|other| other.text(&["name"]));
    let compare = crate::discovery::compare_versions;
    let best = better.filter(|other| compare(other, name).is_gt()).max_by(|a, b| compare(a, b));
    let instead = best.map(|best| format!("; use {group}/{best} {kind}")).unwrap_or_default();
    format!("{group}/{name} {kind} is deprecated{instead}")
}

// === strategy functions ===

/// Applies defaults: names derived from the kind, and the conversion strategy `None`.
pub(crate) fn default_definition(object: &mut Value) {
    let spec = object_mut(object, "spec");
    if let Some(names) = spec.get_mut("names") {
        let kind = names.text(&["kind"]).to_owned();
        if !kind.is_empty() {
            let names = as_object(names);
            default_to(names, "singular", kind.to_lowercase());
            default_to(names, "listKind", format!("{kind}List"));
        }
    }
    let conversion = as_object(spec.entry("conversion").or_insert(Value::Null));
    default_to(conversion, "strategy", "None");
    let service = conversion.get_mut("webhook").and_then(|webhook| webhook.pointer_mut("/clientConfig/service"));
    if let Some(service) = service.filter(|service| service.is_object()) {
        default_pointer(as_object(service), "port", 443);
    }
}

/// Sets the stored versions of a new CRD to its storage version.
pub(crate) fn prepare_definition(object: &mut Value) {
    let stored = storage_version(object).map(str::to_owned);
    let stored = stored.into_iter().collect::<Vec<_>>();
    object_mut(object, "status").insert("storedVersions".to_owned(), stored.into());
}

/// Adds the storage version to the stored versions.
pub(crate) fn prepare_definition_update(new: &mut Value, _old: &Value) {
    let Some(storage) = storage_version(new).map(str::to_owned) else { return };
    let stored = object_mut(new, "status").entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(stored) = stored.as_array_mut()
        && !stored.iter().any(|version| *version == storage)
    {
        stored.push(storage.into());
    }
}

fn storage_version(object: &Value) -> Option<&str> {
    let versions = object.items(&["spec", "versions"]);
    versions.iter().find(|version| version.flag(&["storage"])).map(|version| version.text(&["name"]))
}
