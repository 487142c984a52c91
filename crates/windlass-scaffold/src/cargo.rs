//! Edits of Cargo.toml that keep its other content and formatting.

use std::path::Path;

use toml_edit::{DocumentMut, InlineTable, Item, Value, value};

use crate::Error;

/// The tables of dependencies.
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// The keys that specify the source of a dependency.
const SOURCES: [&str; 6] = ["version", "path", "git", "branch", "tag", "rev"];

/// Sets the source of a dependency, `version` or `path`, in each table that contains it.
pub(crate) fn with_dependency(
    path: &Path,
    text: &str,
    name: &str,
    (key, place): (&str, String),
) -> Result<String, Error> {
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
            for other in SOURCES.iter().filter(|other| **other != key) {
                fields.remove(other);
            }
            fields.insert(key, value(&place));
        } else {
            let fields: InlineTable = [(key, Value::from(place.as_str()))].into_iter().collect();
            *dependency = Item::Value(Value::InlineTable(fields));
        }
        if let Some(fields) = dependency.as_inline_table_mut() {
            fields.fmt();
        }
    }
    if is_there {
        return Ok(document.to_string());
    }
    let addition = format!("{name} = {{ {key} = {place:?} }}");
    Err(Error::NoPlace { path: path.to_owned(), missing: format!("dependency {name}"), addition })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, folder: &str) -> Result<String, Error> {
        with_dependency(Path::new("Cargo.toml"), text, "windlass", ("path", folder.to_owned()))
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
    }

    #[test]
    fn a_manifest_without_it_or_that_is_none_is_an_error() {
        let error = at("[dependencies]\n", "/new").unwrap_err().to_string();
        assert!(error.starts_with("Cargo.toml: there is no dependency windlass, where"), "{error}");
        assert_eq!(at("[dependencies", "/new").unwrap_err().to_string(), "reading Cargo.toml");
    }
}
