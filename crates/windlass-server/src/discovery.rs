//! Discovery of groups, versions and resources, in the legacy documents and in the aggregated document.
//!
//! Documents are generated from the resource table on request; the aggregated ones are generated once per table, and
//! again when the groups of other servers change. So
//! they change with the table: a custom resource is discoverable as soon as its table is published. The order is part
//! of the interface, because clients resolve ambiguous names by it: built-in groups in the order of kube-apiserver,
//! then groups of custom resources.

pub(crate) mod catalog;
mod merged;

pub(crate) use self::merged::{ForeignVersion, Freshness, priorities};
use self::merged::{ListedGroup, ListedVersion, Order, Source};

use std::{borrow::Cow, fmt::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};
use windlass_api::{Scope, Status};

use crate::{
    codec::to_yaml,
    kubernetes::KubernetesVersion,
    resource::{ResourceInfo, ResourceTable, Shape, SubresourceInfo, TaggedBody},
};

/// A generated document with its specific headers.
#[derive(Debug)]
pub(crate) struct Document {
    /// 200, 301, 304 or 406.
    pub(crate) status: u16,
    pub(crate) content_type: Cow<'static, str>,
    /// Lower-case names. These headers replace the default ones.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Empty unless the status is 200.
    pub(crate) body: Vec<u8>,
}

/// A group of a table, in discovery order; see [`groups`].
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    /// The preferred version is first.
    pub(crate) versions: Vec<Version<'a>>,
}

/// One version of a [`Group`].
#[derive(Debug)]
pub(crate) struct Version<'a> {
    pub(crate) name: &'a str,
    /// Sorted by plural name.
    pub(crate) resources: Vec<&'a ResourceInfo>,
}

/// The requested form of a discovery document.
enum Form {
    Legacy,
    LegacyYaml,
    Aggregated,
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// A request for a document.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request<'a> {
    pub(crate) path: &'a str,
    pub(crate) accept: Option<&'a str>,
    pub(crate) if_none_match: Option<&'a str>,
    /// The `host:port` that the documents give to clients.
    pub(crate) address: &'a str,
    /// The group versions of other servers. The lists of groups contain them.
    pub(crate) foreign: &'a [ForeignVersion<'a>],
    /// Changes with the group versions of other servers.
    pub(crate) generation: u64,
}

/// Answers `/api`, `/apis`, `/api/v1`, `/apis/{group}` and `/apis/{group}/{version}`, each with or without a trailing
/// slash.
///
/// Returns `None` for an unknown path (404 in plain text), and a `NotFound` status if the group exists but not the
/// version.
pub(crate) fn answer(table: &ResourceTable, request: &Request<'_>) -> Option<Result<Document, Status>> {
    let Request { path, accept, if_none_match, address, foreign, generation } = *request;
    let segments = path.trim_matches('/').split('/').collect::<Vec<_>>();
    let legacy = match segments[..] {
        ["api" | "apis"] => {
            let core = segments[0] == "api";
            return Some(negotiate(accept, true).map(|form| match form {
                Form::Aggregated => aggregated(table, (foreign, generation), core, if_none_match),
                form if core => plain(&versions(address), &form),
                form => plain(&group_list(table, foreign), &form),
            }));
        }
        ["api", version] => resource_list(table, "", version),
        ["apis", group] if !group.is_empty() => {
            let groups = groups(table);
            let listed = merged::list(&groups, foreign, Order::ApiService);
            let group = listed.iter().find(|found| found.name == group)?;
            Some(api_group(group, true))
        }
        ["apis", group, version] if !group.is_empty() => {
            if !table.iter().any(|resource| *resource.group == *group) {
                return None;
            }
            resource_list(table, group, version)
        }
        _ => return None,
    };
    Some(match legacy {
        Some(document) => negotiate(accept, false).map(|form| plain(&document, &form)),
        None => Err(Status::unknown_resource()),
    })
}

/// Returns the groups of a table: the core group, the built-in groups in kube-apiserver's order, then groups of custom
/// resources by name. Versions are sorted by preference and resources by name.
pub(crate) fn groups(table: &ResourceTable) -> Vec<Group<'_>> {
    let mut groups = Vec::<Group<'_>>::new();
    for resource in table.iter() {
        let known = groups.iter().position(|group| group.name == &*resource.group);
        let at = known.unwrap_or_else(|| {
            groups.push(Group { name: &resource.group, versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[at].versions;
        match versions.iter_mut().find(|version| version.name == &*resource.version) {
            Some(version) => version.resources.push(resource),
            None => versions.push(Version { name: &resource.version, resources: vec![resource] }),
        }
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| compare_versions(b.name, a.name));
        for version in &mut group.versions {
            version.resources.sort_by(|a, b| a.plural.cmp(&b.plural));
        }
    }
    let rank = |group| rank(table.kubernetes(), group);
    groups.sort_by(|a, b| rank(a.name).cmp(&rank(b.name)).then_with(|| a.name.cmp(b.name)));
    groups
}

/// Compares versions by Kubernetes' version priority; the preferred version is the greatest. The order is `v2`, `v1`,
/// `v2beta1`, `v1alpha2`, then all other names, of which the alphabetically first is preferred.
pub(crate) fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    match (kube_version(a), kube_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, Some(_)) => std::cmp::Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Returns the hash that identifies the storage version of a resource.
pub(crate) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    STANDARD.encode(&Sha256::digest(format!("{group}/{version}/{kind}"))[..8])
}

impl Document {
    /// Creates a document with a content type and status 200.
    pub(crate) fn new(content_type: impl Into<Cow<'static, str>>, body: Vec<u8>) -> Self {
        Self { status: 200, content_type: content_type.into(), headers: Vec::new(), body }
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the entity tag, and drops the body if the client already has the document. The tag is quoted.
    #[must_use]
    pub(crate) fn with_etag(mut self, etag: String, if_none_match: Option<&str>) -> Self {
        if if_none_match.is_some_and(|tags| tags.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim() == etag))
        {
            self.status = 304;
            self.body.clear();
        }
        self.with_header("etag", etag)
    }
}

/// Returns an upper-case hexadecimal SHA-512, as kube-apiserver hashes documents.
pub(crate) fn document_hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha512::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().iter().fold(String::with_capacity(128), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

// === negotiation ===

fn negotiate(accept: Option<&str>, aggregated: bool) -> Result<Form, Status> {
    for clause in accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("*/*").split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('=')).collect::<Vec<_>>();
        let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let form = match (media, parameter("as"), parameter("g")) {
            ("application/json", Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"))
                if aggregated && parameter("v") == Some("v2") =>
            {
                Form::Aggregated
            }
            (_, Some(_), _) => continue,
            ("application/json" | "application/*" | "*/*", ..) => Form::Legacy,
            ("application/yaml", ..) => Form::LegacyYaml,
            _ => continue,
        };
        return Ok(form);
    }
    Err(Status::not_acceptable(&ACCEPTED))
}

fn plain(document: &Value, form: &Form) -> Document {
    match form {
        Form::LegacyYaml => Document::new("application/yaml", to_yaml(document).into_bytes()),
        Form::Legacy | Form::Aggregated => {
            let mut body = document.to_string().into_bytes();
            body.push(b'\n');
            Document::new("application/json", body)
        }
    }
}

// === the legacy documents ===

fn versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

fn group_list(table: &ResourceTable, foreign: &[ForeignVersion<'_>]) -> Value {
    let groups = groups(table);
    let listed = merged::list(&groups, foreign, Order::ApiService);
    let listed = listed.iter().filter(|group| !group.name.is_empty());
    let groups = listed.map(|group| api_group(group, false)).collect::<Vec<_>>();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns an `APIGroup`. Its kind is included only in a separate document.
fn api_group(group: &ListedGroup<'_>, alone: bool) -> Value {
    let versions = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{}/{}", group.name, version.name), "version": version.name}))
        .collect::<Vec<_>>();
    let mut document = Map::new();
    if alone {
        document.insert("kind".into(), "APIGroup".into());
        document.insert("apiVersion".into(), "v1".into());
    }
    let preferred = versions.first().cloned().unwrap_or_default();
    document.insert("name".into(), group.name.into());
    document.insert("versions".into(), versions.into());
    document.insert("preferredVersion".into(), preferred);
    Value::Object(document)
}

fn resource_list(table: &ResourceTable, group: &str, version: &str) -> Option<Value> {
    let groups = groups(table);
    let found = groups.iter().find(|found| found.name == group)?;
    let found = found.versions.iter().find(|found| found.name == version)?;
    let mut resources = Vec::new();
    for resource in &found.resources {
        let mut entry = Map::new();
        entry.insert("name".into(), (*resource.plural).into());
        entry.insert("singularName".into(), (*resource.singular).into());
        entry.insert("namespaced".into(), (resource.scope == Scope::Namespaced).into());
        entry.insert("kind".into(), (*resource.kind).into());
        entry.insert("verbs".into(), verbs(resource));
        insert_unless_empty(&mut entry, "shortNames", texts(&resource.short_names));
        insert_unless_empty(&mut entry, "categories", texts(&resource.categories));
        if let Some(hash) = storage_hash(resource) {
            entry.insert("storageVersionHash".into(), hash.into());
        }
        resources.push(Value::Object(entry));
        for subresource in &resource.subresources {
            let mut entry = Map::new();
            entry.insert("name".into(), format!("{}/{}", resource.plural, subresource.name).into());
            entry.insert("singularName".into(), "".into());
            entry.insert("namespaced".into(), (resource.scope == Scope::Namespaced).into());
            if is_foreign(resource, subresource) {
                entry.insert("group".into(), (*subresource.group).into());
                entry.insert("version".into(), (*subresource.version).into());
            }
            entry.insert("kind".into(), (*subresource.kind).into());
            entry.insert("verbs".into(), texts(&subresource.verbs));
            resources.push(Value::Object(entry));
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(if group.is_empty() {
        json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources})
    } else {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
    })
}

fn storage_hash(resource: &ResourceInfo) -> Option<String> {
    match &resource.shape {
        Shape::BuiltIn(plan) => {
            catalog::storage_hash(plan.kubernetes, &resource.group, &resource.version, &resource.plural)
                .map(str::to_owned)
        }
        Shape::Custom(custom) => Some(storage_version_hash(&resource.group, custom.storage_version(), &resource.kind)),
    }
}

// === the aggregated document ===

fn aggregated(
    table: &ResourceTable,
    (foreign, generation): (&[ForeignVersion<'_>], u64),
    core: bool,
    if_none_match: Option<&str>,
) -> Document {
    let TaggedBody { body, etag } = if foreign.is_empty() {
        table.aggregated(core, || aggregated_body(table, &[], core)).clone()
    } else {
        table.merged(core, generation, || aggregated_body(table, foreign, core))
    };
    let document = Document::new(AGGREGATED, body).with_header("cache-control", "public").with_header("vary", "Accept");
    document.with_etag(etag, if_none_match)
}

fn aggregated_body(table: &ResourceTable, foreign: &[ForeignVersion<'_>], core: bool) -> TaggedBody {
    let groups = groups(table);
    let items = merged::list(&groups, foreign, Order::Name)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let mut metadata = if core { json!({}) } else { json!({"name": group.name}) };
            if table.kubernetes() < KubernetesVersion::V1_34 {
                metadata["creationTimestamp"] = Value::Null;
            }
            json!({"metadata": metadata, "versions": group.versions.iter().map(listed_version).collect::<Vec<_>>()})
        })
        .collect::<Vec<_>>();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let mut body = list.to_string().into_bytes();
    body.push(b'\n');
    let etag = format!("\"{}\"", document_hash(&[&body]));
    TaggedBody { body, etag }
}

fn listed_version(version: &ListedVersion<'_>) -> Value {
    match version.source {
        Source::Own(version) => aggregated_version(version),
        Source::Foreign(foreign) => {
            let mut entry = Map::new();
            entry.insert("version".into(), foreign.version.into());
            if let Some(resources) = foreign.resources.filter(|resources| !resources.is_null()) {
                entry.insert("resources".into(), resources.clone());
            }
            let freshness = match foreign.freshness {
                Freshness::Current => "Current",
                Freshness::Stale => "Stale",
            };
            entry.insert("freshness".into(), freshness.into());
            Value::Object(entry)
        }
    }
}

fn aggregated_version(version: &Version<'_>) -> Value {
    let resources = version.resources.iter().map(|resource| {
        let mut entry = Map::new();
        entry.insert("resource".into(), (*resource.plural).into());
        entry.insert("responseKind".into(), response_kind(resource, None));
        let scope = if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" };
        entry.insert("scope".into(), scope.into());
        entry.insert("singularResource".into(), (*resource.singular).into());
        entry.insert("verbs".into(), texts(&resource.verbs));
        insert_unless_empty(&mut entry, "shortNames", texts(&resource.short_names));
        insert_unless_empty(&mut entry, "categories", texts(&resource.categories));
        let subresources = resource.subresources.iter().map(|subresource| {
            json!({
                "subresource": &*subresource.name,
                "responseKind": response_kind(resource, Some(subresource)),
                "verbs": texts(&subresource.verbs),
            })
        });
        insert_unless_empty(&mut entry, "subresources", subresources.collect());
        Value::Object(entry)
    });
    json!({"version": version.name, "resources": resources.collect::<Vec<_>>(), "freshness": "Current"})
}

/// Built-in resources omit group and version if they match the list; custom resources include them.
fn response_kind(resource: &ResourceInfo, subresource: Option<&SubresourceInfo>) -> Value {
    let own = |kind: &str| match resource.shape {
        Shape::BuiltIn(_) => json!({"group": "", "version": "", "kind": kind}),
        Shape::Custom(_) => json!({"group": &*resource.group, "version": &*resource.version, "kind": kind}),
    };
    match subresource {
        None => own(&resource.kind),
        Some(subresource) if is_foreign(resource, subresource) => json!({
            "group": &*subresource.group, "version": &*subresource.version, "kind": &*subresource.kind,
        }),
        Some(subresource) => own(&subresource.kind),
    }
}

// === small helpers ===

fn is_foreign(resource: &ResourceInfo, subresource: &SubresourceInfo) -> bool {
    *subresource.group != *resource.group || *subresource.version != *resource.version
}

/// Returns the verbs of a resource. Without create, update and patch if its CRD is being deleted.
fn verbs(resource: &ResourceInfo) -> Value {
    match &resource.shape {
        Shape::Custom(custom) if custom.is_terminating() => {
            let kept = resource.verbs.iter().filter(|verb| !matches!(verb.as_str(), "create" | "patch" | "update"));
            texts(&kept.collect::<Vec<_>>())
        }
        _ => texts(&resource.verbs),
    }
}

fn texts<T: AsRef<str>>(all: &[T]) -> Value {
    all.iter().map(|text| Value::from(text.as_ref())).collect()
}

fn insert_unless_empty(entry: &mut Map<String, Value>, key: &str, list: Value) {
    if list.as_array().is_some_and(|items| !items.is_empty()) {
        entry.insert(key.to_owned(), list);
    }
}

/// Returns the position of a built-in group in discovery order. Custom groups come last.
fn rank(kubernetes: KubernetesVersion, group: &str) -> usize {
    catalog::catalog(kubernetes).iter().position(|resource| resource.group == group).unwrap_or(usize::MAX)
}

/// Parses a version such as `v1` or `v2beta3` into `(stability, major, minor)`. GA has the highest stability.
fn kube_version(version: &str) -> Option<(u8, u64, u64)> {
    let number = |text: &str| if text.starts_with('0') { None } else { text.parse::<u64>().ok() };
    let rest = version.strip_prefix('v')?;
    if let Some((major, minor)) = rest.split_once("alpha") {
        return Some((0, number(major)?, number(minor)?));
    }
    if let Some((major, minor)) = rest.split_once("beta") {
        return Some((1, number(major)?, number(minor)?));
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests;
