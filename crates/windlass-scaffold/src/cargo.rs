//! Edits of Cargo.toml that keep its other content and formatting.

use std::path::Path;

use toml_edit::{DocumentMut, InlineTable, Item, Value, value};

use crate::Error;

/// The tables of dependencies.
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// The keys that specify the source of a dependency.
const SOURCES: [&str; 7] = ["version", "registry", "path", "git", "branch", "tag", "rev"];

/// The source of a dependency: keys of [`SOURCES`] with their values.
pub(crate) type Source = Vec<(&'static str, String)>;

/// Sets the source of a dependency in each table that contains it.
pub(crate) fn with_dependency(path: &Path, text: &str, name: &str, source: &Source) -> Result<String, Error> {
    let inline = || source.iter().map(|(key, place)| (*key, Value::from(place.as_str()))).collect::<InlineTable>();
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| Error::Toml { path: path.to_owned(), source: error.into() })?;
    let mut is_there = false;
    for table in TABLES {
        let Some(dependency) = document.get_mut(table).and_then(|table| table.as_table_like_mut()?.get_mut(name))
        else {
            continue;
        };
        is_there = true;
        if let Some(fields) = dependency.as_table_like_mut() {
            // Replaces the old source in its place if it has the same form.
            for other in SOURCES.iter().filter(|other| source.iter().all(|(key, _)| key != *other)) {
                fields.remove(other);
            }
            for (key, place) in source {
                fields.insert(key, value(place));
            }
        } else {
            *dependency = Item::Value(Value::InlineTable(inline()));
        }
        if let Some(fields) = dependency.as_inline_table_mut() {
            fields.fmt();
        }
    }
    if is_there {
        return Ok(document.to_string());
    }
    let mut fields = inline();
    fields.fmt();
    let addition = format!("{name} = {fields}");
    Err(Error::NoPlace { path: path.to_owned(), missing: format!("dependency {name}"), addition })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Windlass;

    fn at(text: &str, folder: &str) -> Result<String, Error> {
        with_dependency(Path::new("Cargo.toml"), text, "windlass", &vec![("path", folder.to_owned())])
    }

    #[test]
    fn dependency_source_changes_and_the_rest_is_kept() {
        let text = "# Mine.\n[dependencies]\nserde = \"1\" # so\nwindlass = { path = \"/old\", features = [\"flags\"] }\n\n\
                    [dev-dependencies]\nwindlass = { path = \"/old\" }\n";
        let moved = at(text, "/new").unwrap();
        assert_eq!(moved, text.replace("/old", "/new"));
        assert_eq!(at(&moved, "/new").unwrap(), moved);
        let released =
            at("[dependencies]\nwindlass = { version = \"0.1\", features = [\"flags\"] }\n", "/new").unwrap();
        assert_eq!(released, "[dependencies]\nwindlass = { features = [\"flags\"], path = \"/new\" }\n");
        let short = at("[dependencies]\nwindlass = \"0.1\"\n", "/new").unwrap();
        assert_eq!(short, "[dependencies]\nwindlass = { path = \"/new\" }\n");
        let source = Windlass::In { registry: "local".to_owned(), version: "0.2.0".to_owned() }.source("windlass");
        let registered = with_dependency(Path::new("Cargo.toml"), &short, "windlass", &source).unwrap();
        assert_eq!(registered, "[dependencies]\nwindlass = { version = \"0.2.0\", registry = \"local\" }\n");
        assert_eq!(at(&registered, "/new").unwrap(), short);
    }

    #[test]
    fn a_manifest_without_it_or_that_is_none_is_an_error() {
        let error = at("[dependencies]\n", "/new").unwrap_err().to_string();
        assert!(error.starts_with("Cargo.toml: there is no dependency windlass, where"), "{error}");
        assert_eq!(at("[dependencies", "/new").unwrap_err().to_string(), "reading Cargo.toml");
    }
}
