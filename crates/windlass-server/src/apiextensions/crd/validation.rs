//! Validation of CRDs.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Approval, Crd};
use crate::{
    apiextensions::structural,
    object::{DuplicateCheck, Errors, Field, FieldValue, Rule, Tree, dns_label_1035, dns_subdomain},
    webhook::{validate_client_config, validate_review_versions},
};

/// The limit on the total weight of a CRD's patterns. The real server has no such limit.
const MAX_PATTERN_WEIGHT: usize = 4_000_000;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// A list of versions as the real server formats it: as its internal type.
struct InternalVersions<'v>(&'v Field<'v>);

impl FieldValue for InternalVersions<'_> {
    fn format_value(&self) -> String {
        if self.0.is_empty() {
            return Value::Null.to_string();
        }
        let versions = self.0.items().map(|version| {
            let version = version.json();
            json!({
                "Name": version["name"], "Served": version.flag(&["served"]), "Storage": version.flag(&["storage"]),
                "Deprecated": version.flag(&["deprecated"]), "DeprecationWarning": version["deprecationWarning"],
                "Schema": null, "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
            })
        });
        Value::from(versions.collect::<Vec<_>>()).to_string()
    }
}

/// Validates a CRD.
pub(crate) fn validate_definition(definition: &Field<'_>, errors: &mut Errors) {
    validate_spec(definition, errors);
    Approval::validate(definition.json(), errors);
    validate_status(definition, errors);
}

/// Validates a CRD that a client of v1beta1 writes. That version does not require the approval of protected groups.
pub(crate) fn validate_unapproved_definition(definition: &Field<'_>, errors: &mut Errors) {
    validate_spec(definition, errors);
    validate_status(definition, errors);
}

fn validate_status(definition: &Field<'_>, errors: &mut Errors) {
    let versions = definition.child("spec.versions");
    validate_stored_versions(&definition.child("status.storedVersions"), &versions, errors);
}

fn validate_spec(definition: &Field<'_>, errors: &mut Errors) {
    let spec = definition.child("spec");
    let group = spec.child("group");
    let name = definition.child("metadata.name");
    // Stored objects have a resourceVersion. The name of a stored object is not validated again.
    let is_new = !definition.child("metadata.resourceVersion").is_set();
    let expected_name = format!("{}.{}", spec.child("names.plural").text(), group.text());
    if is_new && !name.text().is_empty() && name.text() != expected_name {
        name.invalid("must be spec.names.plural+\".\"+spec.group", errors);
    }
    validate_group(&group, errors);
    spec.check(&[("scope", Rule::RequiredOneOf(&["Cluster", "Namespaced"]))], errors);
    let preserve = spec.child("preserveUnknownFields");
    if preserve.flag() {
        let instead =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        preserve.invalid(instead, errors);
    }
    validate_versions(&spec, errors);
    validate_names(&spec.child("names"), errors);
    validate_conversion(&spec.child("conversion"), errors);
}

/// Validates an update of a CRD: the fields that identify its objects are immutable once it is established.
pub(crate) fn validate_definition_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    spec.check_immutable(&old_spec, &["group"], errors);
    let old_crd = Crd::read(old.json());
    if old_crd.established {
        spec.check_immutable(&old_spec, &["scope", "names.kind"], errors);
        let crd = Crd::read(new.json());
        let uses_webhook = crd.conversion.text(&["strategy"]) == "Webhook";
        if old_crd.has_sound_bundle() && !crd.has_sound_bundle() && uses_webhook {
            let detail = "unable to load root certificates: unable to parse bytes as PEM block";
            let path = spec.path().child("conversion.webhookClientConfig.caBundle");
            errors.invalid(&path, crd.bundle(), detail);
        }
    }
    spec.check_immutable(&old_spec, &["names.plural"], errors);
}

fn validate_group(group: &Field<'_>, errors: &mut Errors) {
    let text = group.text();
    if text.is_empty() {
        return group.required("", errors);
    }
    let problems = dns_subdomain(text);
    if problems.is_empty() && !text.contains('.') {
        group.invalid("should be a domain with at least one dot", errors);
    }
    group.invalid_each(problems, errors);
}

fn validate_names(names: &Field<'_>, errors: &mut Errors) {
    for name in ["plural", "singular"] {
        let field = names.child(name);
        match field.text() {
            "" => field.required("", errors),
            text => field.invalid_each(dns_label_1035(text), errors),
        }
    }
    let (kind, list_kind) = (names.child("kind"), names.child("listKind"));
    for field in [&kind, &list_kind] {
        if field.text().is_empty() {
            field.required("", errors);
            continue;
        }
        for problem in dns_label_1035(&field.text().to_lowercase()) {
            field.invalid(&format!("may have mixed case, but should otherwise match: {problem}"), errors);
        }
    }
    for name in ["shortNames", "categories"] {
        for item in names.child(name).items() {
            item.invalid_each(dns_label_1035(item.text()), errors);
        }
    }
    if !kind.text().is_empty() && kind.text() == list_kind.text() {
        list_kind.invalid("kind and listKind may not be the same", errors);
    }
}

// === versions ===

fn validate_versions(spec: &Field<'_>, errors: &mut Errors) {
    let versions = spec.child("versions");
    for version in versions.items() {
        let (name, schema) = (version.child("name"), version.child("schema.openAPIV3Schema"));
        name.invalid_each(dns_label_1035(name.text()), errors);
        if !schema.is_set() {
            schema.required("", errors);
        }
    }
    let mut names = DuplicateCheck::default();
    if versions.items().any(|version| names.repeats(&version.json()["name"])) {
        versions.invalid_as(&InternalVersions(&versions), "must contain unique version names", errors);
    }
    if versions.items().filter(|version| version.child("storage").flag()).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        versions.invalid_as(&InternalVersions(&versions), detail, errors);
    }
    let Some(first) = versions.items().next() else { return };
    let name = first.child("name");
    errors.invalid_each(&spec.path().child("version"), name.text(), dns_label_1035(name.text()));
    if pattern_weight(versions.json()) > MAX_PATTERN_WEIGHT {
        return versions.forbidden("the patterns of the schemas are too large together", errors);
    }
    // The real server validates values that all versions share only once, under a top-level path.
    let parts = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
    let is_shared = parts.map(|part| versions.items().all(|version| version.json()[part] == first.json()[part]));
    for (index, version) in versions.items().enumerate() {
        for (part, is_shared) in parts.into_iter().zip(is_shared) {
            if is_shared && index > 0 {
                continue;
            }
            let field = version.child(part);
            let shared_path = spec.path().child(if part == "schema" { "validation" } else { part });
            let field = Field::new(if is_shared { shared_path } else { *field.path() }, field.value());
            validate_part(&field, part, &version, errors);
        }
    }
}

/// Validates a part of a version that may be shared by all versions.
fn validate_part(field: &Field<'_>, part: &str, version: &Field<'_>, errors: &mut Errors) {
    match part {
        "schema" => {
            let schema = field.child("openAPIV3Schema");
            if schema.is_set() {
                structural::validate(&schema, errors);
            }
        }
        "subresources" => validate_scale(&field.child("scale"), errors),
        "additionalPrinterColumns" => validate_columns(field, errors),
        _ => validate_selectable_fields(field, version.child("schema.openAPIV3Schema").json(), errors),
    }
}

/// Estimates the number of states of the regular expressions in a part of a CRD.
fn pattern_weight(part: &Value) -> usize {
    match part {
        Value::Array(items) => items.iter().map(pattern_weight).fold(0, usize::saturating_add),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match value {
                Value::String(pattern) if name == "pattern" => windlass_cel::pattern_weight(pattern),
                other => pattern_weight(other),
            })
            .fold(0, usize::saturating_add),
        _ => 0,
    }
}

fn validate_columns(columns: &Field<'_>, errors: &mut Errors) {
    for column in columns.items() {
        column.check(&[("name", Rule::Required), ("type", Rule::Required)], errors);
        for (name, supported) in [("type", &COLUMN_TYPES[..]), ("format", &COLUMN_FORMATS)] {
            let field = column.child(name);
            if !field.text().is_empty() && !supported.contains(&field.text()) {
                field.invalid(&format!("must be one of {}", supported.join(",")), errors);
            }
        }
        let json_path = column.child("jsonPath");
        let path = column.path().child("JSONPath");
        match json_path.text() {
            "" => errors.required(&path, ""),
            text if !text.starts_with('.') => {
                errors.invalid(&path, text, "must be a simple json path starting with .");
            }
            // An invalid path removes the column from tables.
            _ => {}
        }
    }
}

/// Validates selectable fields: each is a scalar that the schema declares.
fn validate_selectable_fields(fields: &Field<'_>, schema: &Value, errors: &mut Errors) {
    let mut seen = DuplicateCheck::default();
    for field in fields.items() {
        let text = field.json().text(&["jsonPath"]);
        let json_path = field.child("jsonPath");
        let is_repeated = seen.repeats(text);
        if text.is_empty() {
            json_path.required("", errors);
            continue;
        }
        let mut steps = text.trim_start_matches('.').split('.');
        let selected = steps.try_fold(schema, |schema, step| schema.at(&["properties", step]));
        match selected.map(|schema| schema.text(&["type"])) {
            None => json_path.invalid("is an invalid path: does not refer to a valid field", errors),
            Some("string" | "boolean" | "integer") => {}
            Some(_) => {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                              with formats are allowed.";
                json_path.invalid(detail, errors);
            }
        }
        if is_repeated {
            json_path.duplicate(errors);
        }
    }
}

fn validate_scale(scale: &Field<'_>, errors: &mut Errors) {
    if !scale.is_set() {
        return;
    }
    for (name, parents) in [
        ("specReplicasPath", &[".spec"][..]),
        ("statusReplicasPath", &[".status"]),
        ("labelSelectorPath", &[".spec", ".status"]),
    ] {
        let field = scale.child(name);
        let text = field.text();
        if text.is_empty() {
            if name != "labelSelectorPath" {
                field.required("", errors);
            }
        } else if !text.starts_with('.') {
            field.invalid("must be a simple json path starting with .", errors);
        } else if !parents.iter().any(|parent| text.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'))) {
            let parent = if let [parent] = parents { *parent } else { "either .spec or .status" };
            field.invalid(&format!("should be a json path under {parent}"), errors);
        }
    }
}

fn validate_stored_versions(stored: &Field<'_>, versions: &Field<'_>, errors: &mut Errors) {
    if stored.is_empty() {
        return stored.invalid_as(&Value::Null, "must have at least one stored version", errors);
    }
    // If several versions are marked as the storage version, the real server uses the last one.
    let storage = versions.items().rfind(|version| version.child("storage").flag());
    let storage = storage.as_ref().map(|version| version.json().text(&["name"]));
    if let Some(storage) = storage.filter(|storage| !stored.items().any(|version| version.text() == *storage)) {
        stored.invalid(&format!("must have the storage version {storage}"), errors);
    }
    let names: HashSet<&str> = versions.items().map(|version| version.json().text(&["name"])).collect();
    for version in stored.items() {
        let name = version.text();
        if !names.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until \
                 a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            version.invalid(&detail, errors);
        }
    }
}

// === conversion ===

fn validate_conversion(conversion: &Field<'_>, errors: &mut Errors) {
    let strategy = conversion.child("strategy");
    conversion.check(&[("strategy", Rule::RequiredOneOf(&["None", "Webhook"]))], errors);
    // Errors show the names of the real server's internal type.
    let config = conversion.child("webhook.clientConfig");
    let config = Field::new(conversion.path().child("webhookClientConfig"), config.value());
    let versions = conversion.child("webhook.conversionReviewVersions");
    let versions = Field::new(conversion.path().child("conversionReviewVersions"), versions.value());
    if strategy.text() != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_set() {
            config.forbidden(detail, errors);
        }
        if !versions.is_empty() {
            versions.forbidden(detail, errors);
        }
        return;
    }
    if config.is_set() {
        validate_client_config(config.json(), config.path(), errors);
    } else {
        config.required("required when strategy is set to Webhook", errors);
    }
    if versions.is_empty() {
        versions.required("", errors);
    } else {
        validate_review_versions(versions.json().items(&[]), versions.path(), errors);
    }
}
