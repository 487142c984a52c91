//! The dependencies in Cargo.toml.

use std::path::PathBuf;

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use super::{Leftover, Steps};
use crate::{Changes, Error, Windlass};

const MANIFEST: &str = "Cargo.toml";

/// Adds Windlass, and removes what the project no longer uses.
pub(super) fn rewrite(
    changes: &mut Changes,
    windlass: &Windlass,
    sources: &[String],
    steps: &mut Steps,
) -> Result<(), Error> {
    let is_used = |name: &str| sources.iter().any(|text| mentions(text, name));
    let mut left = Vec::new();
    changes.edit(MANIFEST, |path, text| {
        let document: Result<DocumentMut, toml_edit::TomlError> = text.parse();
        let mut document = document.map_err(|error| Error::Toml { path: path.to_owned(), source: error.into() })?;
        let line_of = |name: &str| {
            let starts = |line: &str| {
                let line = line.trim_start();
                let line = line.strip_prefix("[dependencies.").unwrap_or(line);
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '.', '=', ']']))
            };
            text.lines().position(starts).map_or(1, |index| index + 1)
        };
        let dependencies = document.entry("dependencies").or_insert(Item::Table(Table::new()));
        let Some(dependencies) = dependencies.as_table_like_mut() else {
            let missing = "table [dependencies]".to_owned();
            return Err(Error::NoPlace { path: path.to_owned(), missing, addition: "windlass".to_owned() });
        };
        let mut leave = |name: &str, advice: String| {
            let construct = format!("the dependency {name}");
            left.push(Leftover { path: PathBuf::from(MANIFEST), line: line_of(name), construct, advice });
        };
        for (name, version, release) in [("kube", "5", "5.0"), ("k8s-openapi", "0.29", "0.29")] {
            match dependencies.get(name).map(version_of) {
                Some(Some(found)) if !found.trim_start_matches(['=', '^', '~']).starts_with(version) => {
                    leave(name, format!("is version {found}; update to {release} first, whose types Windlass has"));
                }
                _ => {}
            }
        }
        if is_used("kube") {
            leave("kube", "stays; remove the features that are no longer used: derive, runtime".to_owned());
        }
        let features = dependencies.get("k8s-openapi").map(features_of).unwrap_or_default();
        let other = features.iter().find(|name| name.starts_with("v1_") && *name != "v1_36");
        if let Some(other) = other {
            leave("k8s-openapi", format!("selects {other}; windlass is added without its default feature v1_36"));
        }
        add(dependencies, "windlass", windlass, other.is_some(), &[]);
        if is_used("windlass_kube") || is_used("kube") {
            let features: &[&str] = if is_used("Schemars") { &["schemars"] } else { &[] };
            add(dependencies, "windlass-kube", windlass, false, features);
        }
        for (name, path) in [("kube", "kube"), ("kube-runtime", "kube_runtime"), ("schemars", "schemars")] {
            let derived = name == "schemars" && is_used("JsonSchema");
            if dependencies.contains_key(name) && !is_used(path) && !derived {
                dependencies.remove(name);
            }
        }
        Ok(document.to_string())
    })?;
    steps.left.extend(left);
    Ok(())
}

/// Adds a crate of Windlass, if it is missing.
fn add(
    dependencies: &mut dyn toml_edit::TableLike,
    name: &str,
    windlass: &Windlass,
    no_defaults: bool,
    features: &[&str],
) {
    if dependencies.contains_key(name) {
        return;
    }
    let source = windlass.source(name).into_iter();
    let mut fields: InlineTable = source.map(|(key, place)| (key, Value::from(place))).collect();
    if no_defaults {
        fields.insert("default-features", false.into());
    }
    if !features.is_empty() {
        fields.insert("features", Value::Array(features.iter().copied().collect::<Array>()));
    }
    fields.fmt();
    dependencies.insert(name, Item::Value(Value::InlineTable(fields)));
}

fn version_of(dependency: &Item) -> Option<String> {
    let version = dependency.as_str().or_else(|| dependency.get("version").and_then(Item::as_str));
    version.map(str::to_owned)
}

fn features_of(dependency: &Item) -> Vec<String> {
    let features = dependency.get("features").and_then(Item::as_array);
    features.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reports whether a text contains a name as a whole word.
fn mentions(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(place, _)| {
        let (before, after) = (&text[..place], &text[place + name.len()..]);
        // A name before a dash or a dot is a part of a text, such as `kube.rs`.
        !before.ends_with(|c: char| is_part(c) || c == '.' || c == '"')
            && !after.starts_with(|c: char| is_part(c) || c == '.' || c == '-')
    })
}
