//! The objects of `-f`: manifests in files, folders and standard input.

use std::{
    error::Error,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use windlass_api::{DynamicObject, ErrorChain};
use windlass_client::read_manifests;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reads the objects of files; `-` is standard input. In folders, the manifests are read in the order of their names.
pub(super) fn read(files: &[PathBuf]) -> Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    for path in files {
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            found.extend(manifests(&text, "the input")?);
            continue;
        }
        for file in expanded(path)? {
            let text = fs::read_to_string(&file).map_err(|error| format!("reading {}: {error}", file.display()))?;
            found.extend(manifests(&text, &file.display().to_string())?);
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

/// Parses the objects of a text. Each must have a name, which is used to request it.
fn manifests(text: &str, origin: &str) -> Result<Vec<DynamicObject>> {
    let objects = read_manifests(text).map_err(|error| format!("{origin}: {}", ErrorChain(&error)))?;
    match objects.iter().position(|object| object.metadata.name.as_deref().is_none_or(str::is_empty)) {
        Some(index) => Err(format!("{origin}: object {index} has no name").into()),
        None => Ok(objects),
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::ObjectExt;

    use super::*;

    #[test]
    fn invalid_manifest_is_named_with_its_file() {
        let error = |text: &str| manifests(text, "a.yaml").unwrap_err().to_string();
        assert_eq!(error("kind: Pod"), "a.yaml: object 0 has no apiVersion");
        assert_eq!(error("apiVersion: v1\nkind: Pod"), "a.yaml: object 0 has no name");
    }

    #[test]
    fn folder_argument_reads_its_manifests() {
        let folder = std::env::temp_dir().join(format!("windlass-get-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let manifest = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n");
        for (file, name) in [("b.yml", "b"), ("a.yaml", "a"), ("notes.txt", "c")] {
            fs::write(folder.join(file), manifest(name)).unwrap();
        }
        let found = read(std::slice::from_ref(&folder)).unwrap();
        assert_eq!(found.iter().map(ObjectExt::name).collect::<Vec<_>>(), ["a", "b"]);
        assert!(read(&[folder.join("none")]).unwrap_err().to_string().contains("none"));
        fs::remove_dir_all(folder).unwrap();
    }
}
