//! The objects that `-f` names: manifests in files, folders and the input.

use std::{
    error::Error,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::Value;
use windlass_api::{GroupVersion, TypeMeta};

/// What a manifest says of an object's identity.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) types: TypeMeta,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reads what the files hold; `-` is the input. Of folders, the manifests in them are read, in the order of their names.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<Identity>> {
    let mut found = Vec::new();
    for path in files {
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            manifests(&text, "the input", &mut found)?;
            continue;
        }
        for file in expanded(path)? {
            let text = fs::read_to_string(&file).map_err(|error| format!("reading {}: {error}", file.display()))?;
            manifests(&text, &file.display().to_string(), &mut found)?;
        }
    }
    Ok(found)
}

fn expanded(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_manifest = |file: &PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        file.is_file() && matches!(extension, Some("json" | "yaml" | "yml"))
    };
    files.retain(is_manifest);
    files.sort();
    Ok(files)
}

/// The objects of a text, which may be several documents of YAML, or of JSON, and lists of objects.
fn manifests(text: &str, origin: &str, found: &mut Vec<Identity>) -> Result<()> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| format!("{origin} is no YAML: {error}"))?;
    documents.iter().filter(|document| !document.is_null()).try_for_each(|document| identify(document, origin, found))
}

fn identify(object: &Value, origin: &str, found: &mut Vec<Identity>) -> Result<()> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let need = |pointer: &str| {
        let missing = || format!("{origin}: an object without {}", pointer.trim_start_matches('/').replace('/', "."));
        text(pointer).map(str::to_owned).ok_or_else(missing)
    };
    let types = TypeMeta { api_version: need("/apiVersion")?, kind: need("/kind")? };
    if let (true, Some(items)) = (types.kind.ends_with("List"), object["items"].as_array()) {
        return items.iter().try_for_each(|item| identify(item, origin, found));
    }
    types.api_version.parse::<GroupVersion>().map_err(|error| format!("{origin}: {error}"))?;
    let namespace = text("/metadata/namespace").map(str::to_owned);
    found.push(Identity { namespace, name: need("/metadata/name")?, types });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> std::result::Result<Vec<String>, String> {
        let mut found = Vec::new();
        manifests(text, "a.yaml", &mut found).map_err(|error| error.to_string())?;
        let name = |Identity { types, namespace, name }: Identity| {
            format!("{} {} {}/{name}", types.api_version, types.kind, namespace.unwrap_or_default())
        };
        Ok(found.into_iter().map(name).collect())
    }

    #[test]
    fn documents_and_lists_hold_objects() {
        let text = "# first\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\n---\n\
                    apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: b}\n";
        assert_eq!(names(text).unwrap(), ["v1 Pod shop/a", "apps/v1 Deployment /b"]);
        assert_eq!(names(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"}}"#).unwrap(), ["v1 Pod /j"]);
    }

    #[test]
    fn what_is_no_manifest_is_named_with_its_file() {
        assert_eq!(names("kind: Pod").unwrap_err(), "a.yaml: an object without apiVersion");
        assert_eq!(names("apiVersion: v1\nkind: Pod").unwrap_err(), "a.yaml: an object without metadata.name");
        let odd = "apiVersion: a/b/c\nkind: Pod\nmetadata: {name: a}";
        assert_eq!(names(odd).unwrap_err(), "a.yaml: unexpected GroupVersion string: a/b/c");
        assert!(names("a: [").unwrap_err().starts_with("a.yaml is no YAML: "));
    }

    #[test]
    fn a_folder_stands_for_the_manifests_in_it() {
        let folder = std::env::temp_dir().join(format!("windlass-get-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let manifest = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n");
        for (file, name) in [("b.yml", "b"), ("a.yaml", "a"), ("notes.txt", "c")] {
            fs::write(folder.join(file), manifest(name)).unwrap();
        }
        let found = read(std::slice::from_ref(&folder)).unwrap();
        assert_eq!(found.iter().map(|identity| identity.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(read(&[folder.join("none")]).unwrap_err().to_string().contains("none"));
        fs::remove_dir_all(folder).unwrap();
    }
}
