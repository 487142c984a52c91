//! Generation of Rust modules from types, and of files from modules.

use std::{collections::BTreeMap, fmt::Write as _};

use windlass_derive_model::Case;

use crate::{
    keywords::text,
    names::{self, escaped},
    type_set::{Enum, Field, Presence, Struct, Type, TypeSet, Use},
};

/// The module for one version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The group of the kind.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name of the objects' type.
    pub ty: String,
    /// The name of the module: `http_route`.
    pub name: String,
    /// The source of the module.
    pub text: String,
}

/// The maximum line length, if lines can be broken.
const WIDTH: usize = 110;

/// The attribute after the module's comment. The names, comments and shapes of the CRD may not match Rust's
/// conventions.
const ALLOWED: &str = "#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, rustdoc::all, reason = \"generated from a CRD\")]\n";

/// Returns the source of a module: a comment, its imports, and its types.
pub(crate) fn module(comment: &str, resource: &[String], set: &TypeSet) -> String {
    let mut source = format!("//! {comment}\n\n{ALLOWED}\n{}", uses(set));
    for (index, ty) in set.types.iter().enumerate() {
        source.push('\n');
        match ty {
            Type::Struct(record) => write_struct(&mut source, record, if index == 0 { Some(resource) } else { None }),
            Type::Enum(choice) => write_enum(&mut source, choice),
        }
    }
    source
}

fn uses(set: &TypeSet) -> String {
    let is_used = |what: &Use| set.uses.contains(what);
    let list = |names: &[(Use, &str)]| {
        names.iter().filter(|(what, _)| is_used(what)).map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    };
    let mut uses = String::new();
    if is_used(&Use::BTreeMap) {
        uses.push_str("use std::collections::BTreeMap;\n\n");
    }
    uses.push_str("use serde::{Deserialize, Serialize};\n");
    match list(&[(Use::Map, "Map"), (Use::Value, "Value")]).as_str() {
        "" => {}
        one if !one.contains(',') => writeln!(uses, "use serde_json::{one};").unwrap_or_default(),
        several => writeln!(uses, "use serde_json::{{{several}}};").unwrap_or_default(),
    }
    let mut of_api = Vec::new();
    if is_used(&Use::ByteString) {
        of_api.push("api::k8s_openapi::ByteString");
    }
    of_api.push(if is_used(&Use::Time) {
        "api::k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time}"
    } else {
        "api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta"
    });
    if is_used(&Use::IntOrString) {
        of_api.push("api::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString");
    }
    if is_used(&Use::Quantity) {
        of_api.push("api::Quantity");
    }
    let derives = if is_used(&Use::Schema) { "CustomResource, Schema" } else { "CustomResource" };
    for name in of_api {
        writeln!(uses, "use windlass::{name};").unwrap_or_default();
    }
    writeln!(uses, "use windlass::{{{derives}}};").unwrap_or_default();
    uses
}

fn write_struct(source: &mut String, record: &Struct, resource: Option<&[String]>) {
    if resource.is_none() {
        writeln!(source, "// {}", record.place.replace(['\n', '\r'], " ")).unwrap_or_default();
    }
    let mut args = document(source, "", record.description.as_deref());
    let default = if record.has_default { ", Default" } else { "" };
    let derive = if resource.is_some() { "CustomResource" } else { "Schema" };
    writeln!(source, "#[derive(Clone, Debug{default}, PartialEq, Serialize, Deserialize, {derive})]")
        .unwrap_or_default();
    if record.fields.iter().any(|field| is_renamed(field) == Renamed::ByCase) {
        source.push_str("#[serde(rename_all = \"camelCase\")]\n");
    }
    if let Some(resource) = resource {
        attribute(source, "", "resource", resource);
    }
    args.extend(record.args.iter().cloned());
    attribute(source, "", "schema", &args);
    writeln!(source, "pub struct {} {{", record.name).unwrap_or_default();
    let has_case = record.fields.iter().any(|field| is_renamed(field) == Renamed::ByCase);
    for field in &record.fields {
        write_field(source, field, has_case);
    }
    source.push_str("}\n");
}

/// The relation between a field's names in Rust and JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renamed {
    /// The names are equal, regardless of `rename_all`.
    Not,
    /// The name follows from `rename_all`.
    ByCase,
    /// The name needs an attribute.
    ByName,
}

fn is_renamed(field: &Field) -> Renamed {
    match field.name.as_deref() {
        Some(name) if Case::Camel.of_field(&field.ident) != name => Renamed::ByName,
        Some(name) if name != field.ident => Renamed::ByCase,
        None | Some(_) => Renamed::Not,
    }
}

fn write_field(source: &mut String, field: &Field, has_case: bool) {
    let mut args = document(source, "    ", field.description.as_deref());
    args.extend(field.args.iter().cloned());
    attribute(source, "    ", "schema", &args);
    let mut serde = Vec::new();
    match &field.name {
        None => serde.push("flatten".to_owned()),
        Some(name) if is_renamed(field) == Renamed::ByName && (has_case || *name != field.ident) => {
            serde.push(format!("rename = {}", text(name)));
        }
        Some(_) => {}
    }
    if field.presence == Presence::Optional {
        serde.push("skip_serializing_if = \"Option::is_none\"".to_owned());
    }
    attribute(source, "    ", "serde", &serde);
    writeln!(source, "    pub {}: {},", escaped(&field.ident), field.ty).unwrap_or_default();
}

fn write_enum(source: &mut String, choice: &Enum) {
    writeln!(source, "// {}", choice.place.replace(['\n', '\r'], " ")).unwrap_or_default();
    source.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]\n");
    writeln!(source, "pub enum {} {{", choice.name).unwrap_or_default();
    for (variant, value) in &choice.variants {
        if variant != value {
            attribute(source, "    ", "serde", &[format!("rename = {}", text(value))]);
        }
        writeln!(source, "    {variant},").unwrap_or_default();
    }
    source.push_str("}\n");
}

/// Writes `#[name(word, …)]`, on several lines if it is long.
fn attribute(source: &mut String, indent: &str, name: &str, args: &[String]) {
    if args.is_empty() {
        return;
    }
    let line = format!("{indent}#[{name}({})]", args.join(", "));
    if line.len() <= WIDTH {
        source.push_str(&line);
        source.push('\n');
        return;
    }
    writeln!(source, "{indent}#[{name}(").unwrap_or_default();
    for (index, word) in args.iter().enumerate() {
        let comma = if index + 1 < args.len() { "," } else { "" };
        writeln!(source, "{indent}    {word}{comma}").unwrap_or_default();
    }
    writeln!(source, "{indent})]").unwrap_or_default();
}

/// Writes a description as a comment. If the comment would not be equal, or would contain code to be tested, it writes
/// only the beginning. It then returns the complete text as arguments.
fn document(source: &mut String, indent: &str, description: Option<&str>) -> Vec<String> {
    let Some(description) = description else { return Vec::new() };
    let is_whole = !description.is_empty()
        && description.trim() == description
        && description.lines().count() == description.split('\n').count()
        && description.lines().all(|line| line.trim_end() == line && is_prose(line));
    let mut write = |line: &str| {
        let gap = if line.is_empty() { "" } else { " " };
        writeln!(source, "{indent}///{gap}{line}").unwrap_or_default();
    };
    if is_whole {
        description.lines().for_each(write);
        return Vec::new();
    }
    let beginning = description.lines().map(str::trim).skip_while(|line| line.is_empty());
    for line in beginning.take_while(|line| !line.is_empty() && is_prose(line)) {
        write(line);
    }
    vec![format!("description = {}", text(description))]
}

/// Reports whether a line is neither code nor contains characters that a comment cannot contain.
fn is_prose(line: &str) -> bool {
    !line.starts_with("    ") && !line.contains("```") && !line.contains("~~~") && !line.chars().any(char::is_control)
}

// === files ===

/// Returns the modules as files below a directory, grouped by version: `v1.rs` and `v1/website.rs`. If there are kinds
/// of several groups, each group has its own module around them.
pub fn files(modules: &[Module]) -> Vec<(String, String)> {
    let mut files = BTreeMap::new();
    let groups = group_names(modules);
    let mut parents = BTreeMap::<String, Vec<String>>::new();
    let mut declare = |file: String, name: &str| {
        let names = parents.entry(file).or_default();
        if !names.iter().any(|there| there == name) {
            names.push(name.to_owned());
        }
    };
    for module in modules {
        let folder = match groups.get(module.group.as_str()) {
            Some(group) => {
                declare(format!("{group}.rs"), &module.version);
                format!("{group}/")
            }
            None => String::new(),
        };
        declare(format!("{folder}{}.rs", module.version), &module.name);
        files.insert(format!("{folder}{}/{}.rs", module.version, module.name), module.text.clone());
    }
    for (file, mut names) in parents {
        names.sort();
        let modules = names.iter().map(|name| format!("pub mod {name};\n")).collect::<String>();
        files.insert(file, modules);
    }
    files.into_iter().collect()
}

/// Returns all modules as one file. Several modules are nested in modules of their versions and groups.
pub fn one_file(modules: &[Module]) -> String {
    if let [module] = modules {
        return module.text.clone();
    }
    let groups = group_names(modules);
    let mut tree = BTreeMap::<String, BTreeMap<String, BTreeMap<String, &str>>>::new();
    for module in modules {
        let group = groups.get(module.group.as_str()).cloned().unwrap_or_default();
        let version = tree.entry(group).or_default().entry(module.version.clone()).or_default();
        version.insert(module.name.clone(), &module.text);
    }
    let mut source = String::new();
    for (group, versions) in tree {
        let mut inner = String::new();
        for (version, kinds) in versions {
            let kinds = kinds.iter().map(|(name, text)| nested(name, text)).collect::<Vec<_>>().join("\n");
            inner.push_str(&nested(&version, &kinds));
            inner.push('\n');
        }
        source.push_str(&if group.is_empty() { inner } else { nested(&group, inner.trim_end_matches('\n')) });
    }
    format!("{}\n", source.trim_end())
}

/// Returns `pub mod name { … }`. Literals contain no line breaks, so indenting is safe.
fn nested(name: &str, text: &str) -> String {
    let lines = text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") });
    format!("pub mod {name} {{\n{}}}\n", lines.collect::<String>())
}

/// Returns the names of the groups' modules. Empty if there is only one group.
fn group_names(modules: &[Module]) -> BTreeMap<&str, String> {
    let mut groups = modules.iter().map(|module| module.group.as_str()).collect::<Vec<_>>();
    groups.sort_unstable();
    groups.dedup();
    if groups.len() < 2 {
        return BTreeMap::new();
    }
    let mut taken = names::Names::default();
    groups.into_iter().map(|group| (group, taken.take(&names::field(group), "_"))).collect()
}
