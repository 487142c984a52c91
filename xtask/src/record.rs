//! `cargo xtask record`: writes the data files of windlass-server, windlass-api and windlass-cli from the responses of a
//! real kube-apiserver.
//!
//! - `discovery.tsv`: groups in order, resources, verbs, names.
//! - `columns.tsv`: the columns of each Table, and the field that has each column's description.
//! - `openapi.tsv`: the OpenAPI v3 schemas without their descriptions.
//! - `roles.tsv`: the bootstrap roles and bindings.
//! - `descriptions.tsv` of windlass-cli: the descriptions in the OpenAPI v3 schemas. The libraries do not contain them.
//!
//! For a minor version other than the default one, the differences from these files, except for the descriptions, and
//! from `types.tsv` are written to `minors/` of windlass-server.
//!
//! A new server is started and read through `kubectl proxy`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{
    Result,
    generated::{self, Mode},
    upstream::{self, Minor, Profile, Upstream},
};

mod difference;
mod roles;

/// The result of a step. The error text is for people.
type Outcome<T> = std::result::Result<T, String>;

/// Schemas that list their kinds. The list differs per document, so the server writes it itself.
const PER_DOCUMENT: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];

/// Records the data. With [`Mode::Check`], returns an error if a file would change.
pub(crate) fn run(minor: Option<&Minor>, mode: Mode) -> Result {
    let upstream = Upstream::of(minor, Profile::Token)?;
    let (server, _proxy) = proxy(&upstream)?;
    let crates = upstream::root().join("crates");
    let tables = tables(&server)?;
    let Some(minor) = minor else {
        for (_, file, text) in tables {
            generated::write_or_check(&crates.join(file), text.as_bytes(), mode)?;
        }
        let descriptions = schemas(&server, |_, schema| prose(schema))?;
        let file = crates.join("windlass-cli/data/descriptions.tsv");
        return generated::write_or_check(&file, descriptions.as_bytes(), mode);
    };
    let types = String::from_utf8(upstream::output_of(Some(minor), "./fields", &[])?)?;
    let types = ("types", "windlass-api/data/types.tsv", types);
    let mut text =
        format!("# Written by `cargo xtask record --minor {minor}` from a real kube-apiserver; do not edit.\n");
    for (name, file, table) in std::iter::once(types).chain(tables) {
        let base = crates.join(file);
        let base = fs::read_to_string(&base).map_err(|error| format!("reading {}: {error}", base.display()))?;
        difference::write(&mut text, name, &base, &table);
    }
    let file = crates.join(format!("windlass-server/data/minors/{minor}.txt"));
    generated::write_or_check(&file, text.as_bytes(), mode)
}

/// Returns the names of the tables, their files, and their texts.
fn tables(server: &str) -> Outcome<[(&'static str, &'static str, String); 4]> {
    let versions = group_versions(server)?;
    Ok([
        ("openapi", "windlass-api/data/openapi.tsv", schemas(server, facts)?),
        ("discovery", "windlass-server/data/discovery.tsv", discovery(server, &versions)?),
        ("columns", "windlass-server/data/columns.tsv", columns(server, &versions, &described_properties(server)?)?),
        ("roles", "windlass-server/data/roles.tsv", roles::roles(server)?),
    ])
}

// === reaching the server ===

/// A running `kubectl proxy`. It is killed on drop.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a proxy that serves plain HTTP/1 as the administrator, and returns its `host:port`.
fn proxy(upstream: &Upstream) -> Outcome<(String, Proxy)> {
    let mut child = Command::new(upstream.kubectl())
        .args(["proxy", "--port=0", "--kubeconfig"])
        .arg(upstream.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("start kubectl proxy: {error}"))?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("the proxy has no output")?;
    let proxy = Proxy(child);
    BufReader::new(stdout).read_line(&mut line).map_err(|error| format!("read the proxy's address: {error}"))?;
    let address = line.rsplit(' ').next().unwrap_or_default().trim();
    if address.is_empty() {
        return Err(format!("the proxy printed {line:?} where its address was expected"));
    }
    Ok((address.to_owned(), proxy))
}

/// Reads one JSON document. HTTP/1.0 ends the response with the connection, without chunks.
fn get(server: &str, path: &str, accept: &str) -> Outcome<Value> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("GET {path} from {server}: {what}: {error}");
    let mut stream = TcpStream::connect(server).map_err(|error| failed("connect", &error))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n")
        .map_err(|error| failed("send", &error))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(|error| failed("receive", &error))?;
    let split =
        answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(|| failed("read", &"no headers"))?;
    let head = String::from_utf8_lossy(&answer[..split]);
    if head.split(' ').nth(1) != Some("200") {
        return Err(failed("answered", &head.lines().next().unwrap_or_default()));
    }
    serde_json::from_slice(&answer[split + 4..]).map_err(|error| failed("parse", &error))
}

// === recording ===

/// Returns `(path, group, version)` of every group version, in discovery order.
fn group_versions(server: &str) -> Outcome<Vec<(String, String)>> {
    let mut all = vec![(String::new(), "v1".to_owned())];
    let groups = get(server, "/apis", "application/json")?;
    for group in list(&groups, "groups") {
        for version in list(group, "versions") {
            all.push((text(group, "name").to_owned(), text(version, "version").to_owned()));
        }
    }
    Ok(all)
}

/// Returns a line `@group/version`, then a line per resource and, indented by a tab, per subresource.
fn discovery(server: &str, versions: &[(String, String)]) -> Outcome<String> {
    let mut out = "# Written by `cargo xtask record` from a real kube-apiserver; do not edit.\n\
                   # @group/version; plural, kind, singular, N|C, verbs, short names, categories, storage hash\n\
                   # tab, subresource, group/version (empty: as the resource's), kind, verbs\n"
        .to_owned();
    for (group, version) in versions {
        let path = root(group, version);
        let found = get(server, &path, "application/json")?;
        line(&mut out, &[&format!("@{group}/{version}")]);
        for resource in list(&found, "resources") {
            let verbs = join(resource, "verbs");
            match text(resource, "name").split_once('/') {
                Some((_, subresource)) => {
                    let of = match (text(resource, "group"), text(resource, "version")) {
                        ("", "") => String::new(),
                        (group, version) => format!("{group}/{version}"),
                    };
                    line(&mut out, &["", subresource, &of, text(resource, "kind"), &verbs]);
                }
                None => line(
                    &mut out,
                    &[
                        text(resource, "name"),
                        text(resource, "kind"),
                        text(resource, "singularName"),
                        if resource["namespaced"] == Value::Bool(true) { "N" } else { "C" },
                        &verbs,
                        &join(resource, "shortNames"),
                        &join(resource, "categories"),
                        text(resource, "storageVersionHash"),
                    ],
                ),
            }
        }
    }
    Ok(out)
}

/// The properties with a description, as `schema#property`.
type Properties = BTreeMap<String, Vec<String>>;

/// Returns all properties of all schemas by description, without the possible values, which columns do not have.
fn described_properties(server: &str) -> Outcome<Properties> {
    let mut schemas = BTreeMap::new();
    let index = get(server, "/openapi/v3", "application/json")?;
    for (_, entry) in index["paths"].as_object().into_iter().flatten() {
        let mut document = get(server, text(entry, "serverRelativeURL"), "application/json")?;
        if let Value::Object(found) = document["components"]["schemas"].take() {
            schemas.extend(found);
        }
    }
    let mut all = Properties::new();
    for (name, schema) in &schemas {
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (property, schema) in properties.collect::<BTreeMap<_, _>>() {
            let description = text(schema, "description").split("\n\nPossible enum values:").next().unwrap_or_default();
            all.entry(description.to_owned()).or_default().push(format!("{name}#{property}"));
        }
    }
    all.remove("");
    Ok(all)
}

/// Returns the property with the description of a column: of the metadata, of the column's group, or of any schema.
fn source<'p>(properties: &'p Properties, description: &str, group: &str, version: &str) -> &'p str {
    let found = properties.get(description).map_or(&[][..], Vec::as_slice);
    let group = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() };
    let own = format!(".{group}.{version}.");
    let named = |part: &str| found.iter().find(|property| property.contains(part));
    named(".meta.v1.ObjectMeta#").or_else(|| named(&own)).or(found.first()).map_or("", String::as_str)
}

/// Returns a line per listable resource: `group/version/plural`, then `name|type|format|priority|source` per column.
fn columns(server: &str, versions: &[(String, String)], properties: &Properties) -> Outcome<String> {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut out = "# Written by `cargo xtask record` from a real kube-apiserver; do not edit.\n\
                   # group/version/plural, then per column name|type|format|priority|schema#property that describes it\n"
        .to_owned();
    for (group, version) in versions {
        let path = root(group, version);
        for resource in list(&get(server, &path, "application/json")?, "resources") {
            if !list(resource, "verbs").iter().any(|verb| verb == "list") {
                continue;
            }
            let name = text(resource, "name");
            let table = get(server, &format!("{path}/{name}?limit=1"), accept)?;
            let mut cells = vec![format!("{group}/{version}/{name}")];
            for column in list(&table, "columnDefinitions") {
                cells.push(format!(
                    "{}|{}|{}|{}|{}",
                    text(column, "name"),
                    text(column, "type"),
                    text(column, "format"),
                    column["priority"],
                    source(properties, text(column, "description"), group, version),
                ));
            }
            line(&mut out, &cells.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    Ok(out)
}

/// Returns a line per schema: its name, and the JSON of the part that `select` returns.
fn schemas(server: &str, select: impl Fn(&str, &Value) -> Option<Value>) -> Outcome<String> {
    let mut all = BTreeMap::<String, String>::new();
    let index = get(server, "/openapi/v3", "application/json")?;
    for (path, entry) in index["paths"].as_object().into_iter().flatten() {
        let document = get(server, text(entry, "serverRelativeURL"), "application/json")?;
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            let Some(part) = select(name, schema) else { continue };
            let json = part.to_string();
            if let Some(before) = all.insert(name.clone(), json.clone())
                && before != json
            {
                return Err(format!("the schema {name} differs between documents, seen at {path}"));
            }
        }
    }
    let mut out = "# Written by `cargo xtask record` from a real kube-apiserver; do not edit.\n".to_owned();
    for (name, json) in all {
        line(&mut out, &[&name, &json]);
    }
    Ok(out)
}

/// Returns the schema with this name without descriptions.
#[allow(clippy::unnecessary_wraps, reason = "a selection of `schemas`")]
fn facts(name: &str, schema: &Value) -> Option<Value> {
    let mut schema = schema.clone();
    strip_prose(&mut schema);
    if PER_DOCUMENT.contains(&name)
        && let Some(object) = schema.as_object_mut()
    {
        object.shift_remove("x-kubernetes-group-version-kind");
    }
    Some(schema)
}

/// Returns the descriptions of a schema and of its parts, as a schema. Returns `None` if it has none.
fn prose(schema: &Value) -> Option<Value> {
    let mut kept = serde_json::Map::new();
    if let Some(description) = schema["description"].as_str() {
        kept.insert("description".to_owned(), description.into());
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    let described = properties.filter_map(|(name, schema)| Some((name.clone(), prose(schema)?)));
    let described: serde_json::Map<_, _> = described.collect();
    if !described.is_empty() {
        kept.insert("properties".to_owned(), described.into());
    }
    for part in ["items", "additionalProperties"] {
        kept.extend(schema.get(part).and_then(prose).map(|described| (part.to_owned(), described)));
    }
    (!kept.is_empty()).then(|| kept.into())
}

/// Removes every `description` that is a string. A property of that name is an object and remains.
fn strip_prose(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("description").is_some_and(Value::is_string) {
                object.shift_remove("description");
            }
            object.values_mut().for_each(strip_prose);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_prose),
        _ => {}
    }
}

// === small helpers ===

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn join(value: &Value, key: &str) -> String {
    list(value, key).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

/// Writes a line of tab-separated cells, without trailing empty cells.
fn line(out: &mut String, cells: &[&str]) {
    let used = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "{}", cells[..used].join("\t"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_removed_but_not_such_properties() {
        let mut schema = serde_json::json!({
            "description": "prose", "properties": {"description": {"description": "prose", "type": "string"}}
        });
        strip_prose(&mut schema);
        assert_eq!(schema, serde_json::json!({"properties": {"description": {"type": "string"}}}));
    }

    #[test]
    fn descriptions_are_selected_at_each_level() {
        let schema = serde_json::json!({
            "description": "a", "type": "object", "properties": {
                "description": {"description": "b", "type": "string"},
                "list": {"type": "array", "items": {"description": "c", "type": "string"}},
                "plain": {"type": "string"}
            }
        });
        let selected = serde_json::json!({
            "description": "a", "properties": {"description": {"description": "b"}, "list": {"items": {"description": "c"}}}
        });
        assert_eq!(prose(&schema), Some(selected));
        assert_eq!(prose(&serde_json::json!({"type": "string"})), None);
    }
}
