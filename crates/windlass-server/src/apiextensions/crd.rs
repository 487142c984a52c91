//! The content of a `CustomResourceDefinition`: parsing, defaults and validation.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use windlass_api::Scope;

use super::structural;
use crate::{
    codec::go_quote,
    object::{
        DuplicateCheck, Errors, FieldValue, Path, Tree, as_object, default_pointer, default_to, dns_label_1035,
        dns_subdomain, object_mut,
    },
    webhook::{is_bundle, validate_client_config, validate_review_versions},
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

/// Validates a CRD.
pub(crate) fn validate_definition(object: &Value, errors: &mut Errors) {
    let (spec, names) = (Path::new("spec"), Path::new("spec.names"));
    let (group, plural) = (object.text(&["spec", "group"]), object.text(&["spec", "names", "plural"]));
    let name = object.text(&["metadata", "name"]);
    // Stored objects have a resourceVersion. The name of a stored object is not validated again.
    let is_new = object.at(&["metadata", "resourceVersion"]).is_none();
    if is_new && !name.is_empty() && name != format!("{plural}.{group}") {
        errors.invalid(&Path::new("metadata.name"), name, "must be spec.names.plural+\".\"+spec.group");
    }
    if group.is_empty() {
        errors.required(&spec.child("group"), "");
    } else {
        let complaints = dns_subdomain(group);
        if complaints.is_empty() && !group.contains('.') {
            errors.invalid(&spec.child("group"), group, "should be a domain with at least one dot");
        }
        errors.invalid_each(&spec.child("group"), group, complaints);
    }
    match object.text(&["spec", "scope"]) {
        "" => errors.required(&spec.child("scope"), ""),
        "Namespaced" | "Cluster" => {}
        other => errors.unsupported(&spec.child("scope"), other, &["Cluster", "Namespaced"]),
    }
    if object.flag(&["spec", "preserveUnknownFields"]) {
        let instead =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&spec.child("preserveUnknownFields"), &Value::Bool(true), instead);
    }
    validate_versions(object, errors);
    validate_names(&object["spec"]["names"], &names, errors);
    validate_conversion(&object["spec"]["conversion"], errors);
    validate_approval(object, errors);
    validate_stored_versions(object, errors);
}

/// Validates an update of a CRD: the fields that identify its objects are immutable once it is established.
pub(crate) fn validate_definition_update(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec");
    errors.immutable(&path.child("group"), new.at(&["spec", "group"]), old.at(&["spec", "group"]));
    let was = Crd::read(old);
    if was.established {
        errors.immutable(&path.child("scope"), new.at(&["spec", "scope"]), old.at(&["spec", "scope"]));
        let kind = ["spec", "names", "kind"];
        errors.immutable(&path.child("names.kind"), new.at(&kind), old.at(&kind));
        let is = Crd::read(new);
        if was.has_sound_bundle() && !is.has_sound_bundle() && is.conversion.text(&["strategy"]) == "Webhook" {
            let why = "unable to load root certificates: unable to parse bytes as PEM block";
            errors.invalid(&path.child("conversion.webhookClientConfig.caBundle"), is.bundle(), why);
        }
    }
    let plural = ["spec", "names", "plural"];
    errors.immutable(&path.child("names.plural"), new.at(&plural), old.at(&plural));
}

fn validate_names(names: &Value, path: &Path<'_>, errors: &mut Errors) {
    let label = |path: &Path<'_>, text: &str, errors: &mut Errors| {
        if text.is_empty() {
            errors.required(path, "");
        } else {
            errors.invalid_each(path, text, dns_label_1035(text));
        }
    };
    let kind = |path: &Path<'_>, text: &str, errors: &mut Errors| {
        if text.is_empty() {
            return errors.required(path, "");
        }
        let complaints = dns_label_1035(&text.to_lowercase());
        let mixed = |why: String| format!("may have mixed case, but should otherwise match: {why}");
        errors.invalid_each(path, text, complaints.into_iter().map(mixed).collect());
    };
    label(&path.child("plural"), names.text(&["plural"]), errors);
    label(&path.child("singular"), names.text(&["singular"]), errors);
    kind(&path.child("kind"), names.text(&["kind"]), errors);
    kind(&path.child("listKind"), names.text(&["listKind"]), errors);
    for key in ["shortNames", "categories"] {
        for (index, text) in names.items(&[key]).iter().enumerate() {
            let text = text.as_str().unwrap_or_default();
            errors.invalid_each(&path.child(key).index(index), text, dns_label_1035(text));
        }
    }
    let (kind, list_kind) = (names.text(&["kind"]), names.text(&["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(&path.child("listKind"), list_kind, "kind and listKind may not be the same");
    }
}

/// The limit on the total weight of a CRD's patterns. The real server has no such limit.
const MAX_WEIGHT_OF_PATTERNS: usize = 4_000_000;

/// Estimates the number of states of the regular expressions in a part of a CRD.
fn weight_of_patterns(part: &Value) -> usize {
    match part {
        Value::Array(items) => items.iter().map(weight_of_patterns).fold(0, usize::saturating_add),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match value {
                Value::String(pattern) if name == "pattern" => windlass_cel::pattern_weight(pattern),
                other => weight_of_patterns(other),
            })
            .fold(0, usize::saturating_add),
        _ => 0,
    }
}

/// A list of versions as the real server formats it: as its internal type.
struct InternalVersions<'v>(&'v [Value]);

impl FieldValue for InternalVersions<'_> {
    fn format_value(&self) -> String {
        if self.0.is_empty() {
            return Value::Null.to_string();
        }
        let shown = self.0.iter().map(|version| {
            json!({
                "Name": version["name"], "Served": version.flag(&["served"]), "Storage": version.flag(&["storage"]),
                "Deprecated": version.flag(&["deprecated"]), "DeprecationWarning": version["deprecationWarning"],
                "Schema": null, "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
            })
        });
        Value::from(shown.collect::<Vec<_>>()).to_string()
    }
}

fn validate_versions(object: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    let path = spec.child("versions");
    let versions = object.items(&["spec", "versions"]);
    // The real server validates values that all versions share only once, under a top-level path.
    let common = |key: &str| versions.iter().all(|version| version[key] == versions[0][key]);
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        let name = version.text(&["name"]);
        errors.invalid_each(&path.child("name"), name, dns_label_1035(name));
        if version.at(&["schema", "openAPIV3Schema"]).is_none() {
            errors.required(&path.child("schema.openAPIV3Schema"), "");
        }
    }
    let mut names = DuplicateCheck::default();
    if versions.iter().any(|version| names.repeats(&version["name"])) {
        errors.invalid(&path, &InternalVersions(versions), "must contain unique version names");
    }
    if versions.iter().filter(|version| version.flag(&["storage"])).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.invalid(&path, &InternalVersions(versions), why);
    }
    if let Some(first) = versions.first() {
        let name = first.text(&["name"]);
        errors.invalid_each(&spec.child("version"), name, dns_label_1035(name));
    }
    if versions.iter().map(weight_of_patterns).fold(0, usize::saturating_add) > MAX_WEIGHT_OF_PATTERNS {
        return errors.forbidden(&path, "the patterns of the schemas are too large together");
    }
    for (index, version) in versions.iter().enumerate() {
        let own = path.index(index);
        if let Some(schema) = version.at(&["schema", "openAPIV3Schema"])
            && (index == 0 || !common("schema"))
        {
            let (common_path, own_path) =
                (spec.child("validation.openAPIV3Schema"), own.child("schema.openAPIV3Schema"));
            structural::validate(schema, if common("schema") { &common_path } else { &own_path }, errors);
        }
        if let Some(subresources) = version.at(&["subresources"])
            && (index == 0 || !common("subresources"))
        {
            let (common_path, own_path) = (spec.child("subresources"), own.child("subresources"));
            validate_subresources(subresources, if common("subresources") { &common_path } else { &own_path }, errors);
        }
        let key = "additionalPrinterColumns";
        if index == 0 || !common(key) {
            let (common_path, own_path) = (spec.child(key), own.child(key));
            validate_columns(version.items(&[key]), if common(key) { &common_path } else { &own_path }, errors);
        }
        let key = "selectableFields";
        if index == 0 || !common(key) {
            let (common_path, own_path) = (spec.child(key), own.child(key));
            validate_selectable(version, if common(key) { &common_path } else { &own_path }, errors);
        }
    }
}

fn validate_columns(columns: &[Value], path: &Path<'_>, errors: &mut Errors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (index, column) in columns.iter().enumerate() {
        let path = path.index(index);
        if column.text(&["name"]).is_empty() {
            errors.required(&path.child("name"), "");
        }
        match column.text(&["type"]) {
            "" => errors.required(&path.child("type"), ""),
            kind if TYPES.contains(&kind) => {}
            kind => {
                let why = format!("must be one of {}", TYPES.join(","));
                errors.invalid(&path.child("type"), kind, &why);
            }
        }
        let format = column.text(&["format"]);
        if !format.is_empty() && !FORMATS.contains(&format) {
            let why = format!("must be one of {}", FORMATS.join(","));
            errors.invalid(&path.child("format"), format, &why);
        }
        match column.text(&["jsonPath"]) {
            "" => errors.required(&path.child("JSONPath"), ""),
            text if !text.starts_with('.') => {
                errors.invalid(&path.child("JSONPath"), text, "must be a simple json path starting with .");
            }
            // An invalid path removes the column from tables.
            _ => {}
        }
    }
}

/// Validates selectable fields: each is a scalar that the schema declares.
fn validate_selectable(version: &Value, path: &Path<'_>, errors: &mut Errors) {
    let fields = version.items(&["selectableFields"]);
    let mut seen = DuplicateCheck::default();
    for (index, field) in fields.iter().enumerate() {
        let (text, place) = (field.text(&["jsonPath"]), path.index(index));
        let repeated = seen.repeats(text);
        if text.is_empty() {
            errors.required(&place.child("jsonPath"), "");
            continue;
        }
        let mut found = version.at(&["schema", "openAPIV3Schema"]);
        for step in text.trim_start_matches('.').split('.') {
            found = found.and_then(|schema| schema.at(&["properties", step]));
        }
        match found.map(|schema| schema.text(&["type"])) {
            None => {
                let why = "is an invalid path: does not refer to a valid field";
                errors.invalid(&place.child("jsonPath"), text, why);
            }
            Some("string" | "boolean" | "integer") => {}
            Some(_) => {
                let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                           formats are allowed.";
                errors.invalid(&place.child("jsonPath"), text, why);
            }
        }
        if repeated {
            errors.duplicate(&place.child("jsonPath"), text);
        }
    }
}

fn validate_subresources(subresources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(scale) = subresources.at(&["scale"]) else { return };
    let path = path.child("scale");
    for (key, under) in [
        ("specReplicasPath", &[".spec"][..]),
        ("statusReplicasPath", &[".status"]),
        ("labelSelectorPath", &[".spec", ".status"]),
    ] {
        let text = scale.text(&[key]);
        if text.is_empty() {
            if key != "labelSelectorPath" {
                errors.required(&path.child(key), "");
            }
        } else if !text.starts_with('.') {
            errors.invalid(&path.child(key), text, "must be a simple json path starting with .");
        } else if !under.iter().any(|under| text.strip_prefix(under).is_some_and(|rest| rest.starts_with('.'))) {
            let under = if under.len() == 1 { under[0].to_owned() } else { "either .spec or .status".to_owned() };
            errors.invalid(&path.child(key), text, &format!("should be a json path under {under}"));
        }
    }
}

fn validate_conversion(conversion: &Value, errors: &mut Errors) {
    let path = Path::new("spec.conversion");
    match conversion.text(&["strategy"]) {
        "" => errors.required(&path.child("strategy"), ""),
        "None" | "Webhook" => {}
        other => errors.unsupported(&path.child("strategy"), other, &["None", "Webhook"]),
    }
    let (config, versions) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let given = conversion.at(&["webhook", "clientConfig"]);
    let asked = conversion.items(&["webhook", "conversionReviewVersions"]);
    if conversion.text(&["strategy"]) != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if given.is_some() {
            errors.forbidden(&config, why);
        }
        if !asked.is_empty() {
            errors.forbidden(&versions, why);
        }
        return;
    }
    match given {
        None => errors.required(&config, "required when strategy is set to Webhook"),
        Some(given) => validate_client_config(given, &config, errors),
    }
    if asked.is_empty() {
        errors.required(&versions, "");
    } else {
        validate_review_versions(asked, &versions, errors);
    }
}

/// The approval that a protected Kubernetes group requires.
#[derive(Debug)]
pub(super) enum Approval {
    Missing,
    Bypassed,
    Given,
    Unreadable,
}

impl Approval {
    const ANNOTATION: &str = "api-approved.kubernetes.io";

    /// Returns `None` if the group does not require approval.
    fn of(object: &Value) -> Option<Self> {
        let group = object.text(&["spec", "group"]);
        let ends_in = |end: &str| group.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        if !["k8s.io", "kubernetes.io"].into_iter().any(ends_in) {
            return None;
        }
        Some(match object.text(&["metadata", "annotations", Self::ANNOTATION]) {
            "" => Self::Missing,
            value if value.starts_with("unapproved") => Self::Bypassed,
            value if value.contains("://") => Self::Given,
            _ => Self::Unreadable,
        })
    }

    /// Returns the condition for the approval: status, reason and message.
    pub(super) fn condition(object: &Value) -> Option<(bool, &'static str, String)> {
        let value = object.text(&["metadata", "annotations", Self::ANNOTATION]);
        Some(match Self::of(object)? {
            Self::Missing => (false, "MissingAnnotation", Self::Missing.rule()),
            Self::Bypassed => (false, "UnapprovedAnnotation", format!("not approved: {}", go_quote(value))),
            Self::Given => (true, "ApprovedAnnotation", format!("approved in {value}")),
            Self::Unreadable => (false, "InvalidAnnotation", Self::Unreadable.rule()),
        })
    }

    fn rule(&self) -> String {
        let either = match self {
            Self::Unreadable => " with either a URL or a reason starting with \"unapproved\"",
            Self::Missing | Self::Bypassed | Self::Given => "",
        };
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        format!("protected groups must have approval annotation \"{}\"{either}, {see}", Self::ANNOTATION)
    }
}

fn validate_approval(object: &Value, errors: &mut Errors) {
    let annotations = Path::new("metadata.annotations");
    let path = annotations.key(Approval::ANNOTATION);
    match Approval::of(object) {
        Some(missing @ Approval::Missing) => errors.required(&path, &missing.rule()),
        Some(odd @ Approval::Unreadable) => {
            let value = object.text(&["metadata", "annotations", Approval::ANNOTATION]);
            errors.invalid(&path, value, &odd.rule());
        }
        Some(Approval::Bypassed | Approval::Given) | None => {}
    }
}

fn validate_stored_versions(object: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let path = status.child("storedVersions");
    let stored = object.items(&["status", "storedVersions"]);
    if stored.is_empty() {
        return errors.invalid(&path, &Value::Null, "must have at least one stored version");
    }
    let versions = object.items(&["spec", "versions"]);
    // If several versions are marked as the storage version, the real server uses the last one.
    let storage = versions.iter().rfind(|version| version.flag(&["storage"])).map(|version| version.text(&["name"]));
    if let Some(storage) = storage.filter(|storage| !stored.iter().any(|version| version == storage)) {
        let why = format!("must have the storage version {storage}");
        errors.invalid(&path, &Value::from(stored.to_vec()), &why);
    }
    let names: HashSet<&str> = versions.iter().map(|version| version.text(&["name"])).collect();
    for (index, version) in stored.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if !names.contains(name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until \
                 a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(&path.index(index), name, &why);
        }
    }
}
