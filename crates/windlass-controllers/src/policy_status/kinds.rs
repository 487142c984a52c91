//! The kinds that a policy's rules name, with their types from the OpenAPI documents of the server.

use std::{collections::BTreeSet, fmt, sync::Arc};

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::{Map, Value, json};
use windlass_api::{GroupVersion, GroupVersionKind};
use windlass_cel::Schema;
use windlass_client::{Client, Result};

/// The maximum number of kinds that a rule adds.
const MOST_KINDS: usize = 10;
/// The maximum number of values in an expanded schema. Types below are not checked.
const MOST_VALUES: usize = 100_000;

/// A kind with its type.
#[derive(Debug)]
pub(super) struct CheckedKind {
    pub(super) kind: GroupVersionKind,
    pub(super) schema: Arc<Schema>,
}

impl fmt::Display for CheckedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupVersionKind { group, version, kind } = &self.kind;
        write!(f, "{group}/{version}, Kind={kind}")
    }
}

/// Returns the kinds that the rules of a policy name without wildcards, in order.
pub(super) async fn kinds_of(policy: &ValidatingAdmissionPolicy, client: &Client) -> Result<Vec<CheckedKind>> {
    let constraints = policy.spec.as_ref().and_then(|spec| spec.match_constraints.as_ref());
    let rules = constraints.and_then(|constraints| constraints.resource_rules.as_ref());
    let Some(rules) = rules.filter(|rules| !rules.is_empty()) else { return Ok(Vec::new()) };
    let discovery = client.discovery().await?;
    let mut found = BTreeSet::new();
    'rules: for rule in rules {
        let [groups, versions] = [&rule.api_groups, &rule.api_versions].map(|names| sorted(names.as_deref()));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        let mut resources = sorted(rule.resources.as_deref());
        resources.retain(|name| !name.contains(['*', '/']));
        let mut count = 0;
        for group in discovery.groups.iter().filter(|group| groups.contains(&&*group.name)) {
            for version in group.versions.iter().filter(|version| versions.contains(&&*version.version)) {
                for found_resource in &version.resources {
                    let resource = &found_resource.resource;
                    if resources.contains(&&*resource.plural) {
                        found.insert((group.name.clone(), version.version.clone(), resource.kind.to_string()));
                        count += 1;
                        if count == MOST_KINDS {
                            break 'rules;
                        }
                    }
                }
            }
        }
    }
    let mut kinds = Vec::new();
    for (group, version, kind) in found {
        let kind = GroupVersionKind::new(group, version, kind);
        if let Some(schema) = schema_of(&kind, client).await? {
            kinds.push(CheckedKind { kind, schema });
        }
    }
    Ok(kinds)
}

/// Returns the type of a policy's parameters, if it is known.
pub(super) async fn schema_of_params(
    policy: &ValidatingAdmissionPolicy,
    client: &Client,
) -> Result<Option<Arc<Schema>>> {
    let Some(spec) = &policy.spec else { return Ok(None) };
    let Some(kind) = &spec.param_kind else { return Ok(None) };
    let api_version = kind.api_version.as_deref().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let name = kind.kind.as_deref().unwrap_or_default();
    schema_of(&GroupVersionKind::new(group.to_owned(), version.to_owned(), name.to_owned()), client).await
}

fn sorted(names: Option<&[String]>) -> Vec<&str> {
    let mut names: Vec<_> = names.unwrap_or_default().iter().map(String::as_str).collect();
    names.sort_unstable();
    names
}

async fn schema_of(kind: &GroupVersionKind, client: &Client) -> Result<Option<Arc<Schema>>> {
    let version = GroupVersion::new(kind.group.clone(), kind.version.clone());
    let Some(document) = client.openapi().document(&version).await? else { return Ok(None) };
    Ok(find(&document, kind).and_then(|schema| Schema::of_value(&schema)))
}

/// Returns the schema of a kind in an OpenAPI document, with all references resolved.
pub(super) fn find(document: &Value, kind: &GroupVersionKind) -> Option<Value> {
    let schemas = document.get("components")?.get("schemas")?.as_object()?;
    let GroupVersionKind { group, version, kind } = kind;
    let is_it = |entry: &Value| entry["group"] == **group && entry["version"] == **version && entry["kind"] == **kind;
    let schema = schemas.values().find(|schema| {
        let kinds = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        kinds.is_some_and(|kinds| kinds.iter().any(is_it))
    })?;
    let mut expansion = Expansion { schemas, open: Vec::new(), left: MOST_VALUES };
    Some(expansion.expand(schema))
}

/// The resolution of references.
struct Expansion<'d> {
    schemas: &'d Map<String, Value>,
    /// The references that are being resolved.
    open: Vec<&'d str>,
    left: usize,
}

impl<'d> Expansion<'d> {
    fn expand(&mut self, schema: &'d Value) -> Value {
        let dynamic = || json!({"x-kubernetes-int-or-string": true});
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return dynamic();
        }
        let all = schema.get("allOf").and_then(Value::as_array).and_then(|all| all.first());
        let reference = schema.get("$ref").or_else(|| all?.get("$ref")).and_then(Value::as_str);
        if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
            let Some(target) = self.schemas.get(name).filter(|_| !self.open.contains(&name)) else { return dynamic() };
            self.open.push(name);
            let expanded = self.expand(target);
            self.open.pop();
            return expanded;
        }
        // Quantities, and numbers or texts.
        let is_mixed = schema.get("oneOf").is_some() || schema["format"] == "int-or-string";
        if is_mixed || schema.get("type").is_none() {
            return dynamic();
        }
        let Some(fields) = schema.as_object() else { return dynamic() };
        let mut expanded = Map::new();
        for (name, value) in fields {
            let value = match (name.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    properties.iter().map(|(name, schema)| (name.clone(), self.expand(schema))).collect()
                }
                ("items" | "additionalProperties", Value::Object(_)) => self.expand(value),
                ("description", _) => continue,
                _ => value.clone(),
            };
            expanded.insert(name.clone(), value);
        }
        Value::Object(expanded)
    }
}
