//! The OpenAPI documents: version 3 with one document per group version and an index of hashes, and version 2 with a
//! single document.
//!
//! Documents are not cached. Each is generated on request from these inputs:
//! - the recorded schemas (`data/openapi.tsv`, without descriptions)
//! - the [`Descriptions`], if the server has any
//! - the schemas of custom resources
//! - the paths of the resource table
//!
//! Clients cache documents by hash. The hash is computed from the inputs of a document, so the index is cheap.
//!
//! The paths of connection subresources (exec, proxy, log …) are not described.

mod custom;
mod merge;
mod operations;
mod protobuf;
mod v2;
mod v3;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde_json::json;
use windlass_api::Scope;

use crate::{
    descriptions::Descriptions,
    discovery::{Document, Group, Version, document_hash, groups},
    kubernetes::KubernetesVersion,
    resource::{ResourceTable, Shape},
    schemas,
};

pub(crate) use merge::ForeignPaths;

/// The subject of one document of version 3.
#[derive(Debug)]
enum Subject<'a> {
    /// `/version`
    ServerVersion,
    /// `/api`, the versions of the core group.
    CoreVersions,
    /// `/apis`, the list of groups.
    Groups,
    /// `/apis/{group}`
    Group(&'a str),
    /// For example `/api/v1` or `/apis/{group}/{version}`.
    Version(&'a str, &'a Version<'a>),
}

/// A request for a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) path: &'a str,
    /// Still percent-encoded.
    pub(crate) query: Option<&'a str>,
    pub(crate) accept: Option<&'a str>,
    pub(crate) if_none_match: Option<&'a str>,
    pub(crate) descriptions: &'a Descriptions,
    pub(crate) now: Timestamp,
    /// The documents of other servers: each path below `/openapi/v3/`, and its address.
    pub(crate) foreign: &'a [(String, String)],
    /// The parts of version 2 of other servers.
    pub(crate) foreign_paths: &'a [Arc<ForeignPaths>],
}

/// Answers `/openapi/v2`, `/openapi/v3` and the paths below it. Returns `None` if there is no such document (404, no
/// body).
pub(crate) fn answer(table: &ResourceTable, request: &Request<'_>) -> Option<Document> {
    let Request { path, query, accept, if_none_match, descriptions, now, foreign, foreign_paths } = *request;
    let path = path.trim_end_matches('/');
    let (kubernetes, groups) = (table.kubernetes(), groups(table));
    if path == "/openapi/v2" {
        let Some(encoding) = negotiate(accept, true) else {
            let mut refusal = not_acceptable();
            refusal.headers.insert(0, ("vary", "Accept-Encoding".to_owned()));
            return Some(refusal);
        };
        let (content_type, salt) = match encoding {
            Encoding::Json => ("application/json", ""),
            Encoding::Protobuf => (PROTOBUF_V2, "protobuf"),
        };
        let own = hash_all(kubernetes, &groups, descriptions);
        let mut inputs = vec![own.as_bytes(), salt.as_bytes()];
        inputs.extend(foreign_paths.iter().map(|paths| paths.hash().as_bytes()));
        let etag = format!("\"{}\"", document_hash(&inputs));
        let mut document = Document::new(content_type, Vec::new()).with_etag(etag, if_none_match);
        document = document.with_header("vary", "Accept-Encoding").with_header("vary", "Accept");
        if document.status == 200 {
            let mut tree = v2::document(kubernetes, &groups, &descriptions.schemas());
            let mut new_names = merge::NewNames::default();
            for paths in foreign_paths {
                paths.add_to(&mut tree, &mut new_names);
            }
            document.body = match encoding {
                Encoding::Json => tree.to_string().into_bytes(),
                Encoding::Protobuf => protobuf::document(&tree),
            };
        }
        return Some(document);
    }
    let below = path.strip_prefix("/openapi/v3")?;
    if below.is_empty() {
        return Some(index(kubernetes, &groups, descriptions, foreign));
    }
    let subjects = subjects(&groups);
    let Some(subject) = subjects.get(below.strip_prefix('/')?) else {
        return Some(Document { status: 404, ..Document::new("", Vec::new()) });
    };
    if negotiate(accept, false).is_none() {
        return Some(not_acceptable());
    }
    let hash = hash(kubernetes, subject, descriptions);
    let requested = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("hash="));
    let document = Document::new("application/json", Vec::new()).with_header("vary", "Accept");
    if requested.is_some_and(|requested| !requested.is_empty() && requested != hash) {
        let location = format!("{path}?hash={hash}");
        let document = Document { status: 301, ..document }.with_header("etag", format!("\"{hash}\""));
        return Some(document.with_header("location", location));
    }
    let mut document = document.with_etag(format!("\"{hash}\""), if_none_match);
    if document.status == 200 {
        document.body = v3::document(kubernetes, subject, &descriptions.schemas()).into_bytes();
    }
    Some(match requested {
        Some(requested) if !requested.is_empty() => {
            let document = document.with_header("cache-control", "public, immutable");
            match in_a_year(now) {
                Some(expires) => document.with_header("expires", expires),
                None => document,
            }
        }
        _ => document,
    })
}

fn index(
    kubernetes: KubernetesVersion,
    groups: &[Group<'_>],
    descriptions: &Descriptions,
    foreign: &[(String, String)],
) -> Document {
    let mut urls: BTreeMap<String, String> = subjects(groups)
        .into_iter()
        .map(|(path, subject)| {
            let url = format!("/openapi/v3/{path}?hash={}", hash(kubernetes, &subject, descriptions));
            (path, url)
        })
        .collect();
    urls.extend(foreign.iter().cloned());
    let paths = urls.into_iter().map(|(path, url)| (path, json!({"serverRelativeURL": url})));
    let paths: serde_json::Map<_, _> = paths.collect();
    Document::new("text/plain; charset=utf-8", json!({"paths": paths}).to_string().into_bytes())
}

/// Returns all documents of version 3 by path. Groups of custom resources have no document; their versions do.
fn subjects<'a>(groups: &'a [Group<'a>]) -> BTreeMap<String, Subject<'a>> {
    let mut all = BTreeMap::from([
        ("api".to_owned(), Subject::CoreVersions),
        ("apis".to_owned(), Subject::Groups),
        ("version".to_owned(), Subject::ServerVersion),
    ]);
    for group in groups {
        let built_in = group.versions.iter().any(|version| !is_custom(version));
        if built_in && !group.name.is_empty() {
            all.insert(format!("apis/{}", group.name), Subject::Group(group.name));
        }
        for version in &group.versions {
            all.insert(root(group.name, version.name), Subject::Version(group.name, version));
        }
    }
    all
}

fn is_custom(version: &Version<'_>) -> bool {
    version.resources.iter().all(|resource| matches!(resource.shape, Shape::Custom(_)))
}

/// For example `api/v1` or `apis/apps/v1`.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

// === hashes ===

fn hash(kubernetes: KubernetesVersion, subject: &Subject<'_>, descriptions: &Descriptions) -> String {
    document_hash(&[
        data_hash(kubernetes).as_bytes(),
        document_inputs(subject).as_bytes(),
        description_hash_part(descriptions),
    ])
}

fn hash_all(kubernetes: KubernetesVersion, groups: &[Group<'_>], descriptions: &Descriptions) -> String {
    let all = subjects(groups).values().map(document_inputs).collect::<Vec<_>>();
    document_hash(&[data_hash(kubernetes).as_bytes(), all.join("\n").as_bytes(), description_hash_part(descriptions)])
}

/// Returns the part of the hash for descriptions. Like the schemas, they change only with the version of the program.
fn description_hash_part(descriptions: &Descriptions) -> &'static [u8] {
    if descriptions.exist() { b"described" } else { b"" }
}

/// Returns the hash of the recorded schemas and of the code that generates documents from them.
fn data_hash(kubernetes: KubernetesVersion) -> &'static str {
    static HASHES: [OnceLock<String>; KubernetesVersion::ALL.len()] =
        [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
    let text = schemas::of(kubernetes).text();
    HASHES[kubernetes.index()].get_or_init(|| document_hash(&[text.as_bytes(), env!("CARGO_PKG_VERSION").as_bytes()]))
}

/// Returns all inputs of the document except the recorded schemas.
fn document_inputs(subject: &Subject<'_>) -> String {
    let Subject::Version(group, version) = subject else { return format!("{subject:?}") };
    let mut text = format!("{group}/{}", version.name);
    for resource in &version.resources {
        let scope = if resource.scope == Scope::Namespaced { "N" } else { "C" };
        let subresources = resource.subresources.iter().map(|subresource| subresource.name.as_str());
        let parts: [&str; 5] = [
            &resource.plural,
            &resource.kind,
            scope,
            &resource.verbs.join(","),
            &subresources.collect::<Vec<_>>().join(","),
        ];
        text.push('\n');
        text.push_str(&parts.join(" "));
        if let Shape::Custom(custom) = &resource.shape {
            text.push_str(&custom.schema().to_string());
        }
    }
    text
}

// === negotiation ===

/// The encoding of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Json,
    Protobuf,
}

const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns the first supported encoding that the client accepts.
fn negotiate(accept: Option<&str>, protobuf: bool) -> Option<Encoding> {
    let accept = accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("*/*");
    accept.split(',').find_map(|clause| match clause.split(';').next().unwrap_or_default().trim() {
        "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
        PROTOBUF_V2 | "application/com.github.proto-openapi.spec.v2@v1.0+protobuf" if protobuf => {
            Some(Encoding::Protobuf)
        }
        _ => None,
    })
}

fn not_acceptable() -> Document {
    Document { status: 406, ..Document::new("", Vec::new()) }.with_header("vary", "Accept")
}

fn in_a_year(now: Timestamp) -> Option<String> {
    let then = now.checked_add(jiff::SignedDuration::from_hours(365 * 24)).ok()?;
    Some(then.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string())
}

#[cfg(test)]
mod tests;
