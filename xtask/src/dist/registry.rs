//! The packaged crates as a local registry of cargo: a folder with the `.crate` files and an index.
//!
//! The folder contains no absolute paths and can be moved. A user's configuration names it, see
//! docs/how-to/use-a-local-registry.md. Other dependencies come from crates.io.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::archive;
use crate::{Result, package::Package};

/// The registry of the dependencies outside this workspace, in the form of an index.
const CRATES_IO: &str = "https://github.com/rust-lang/crates.io-index";

/// Writes the registry.
pub(super) fn write(packages: &[Package], folder: &Path) -> Result {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for package in packages {
        let name = package.metadata["name"].as_str().unwrap_or_default();
        let index = folder.join("index").join(place(name));
        fs::create_dir_all(index.parent().unwrap_or(folder))?;
        fs::write(index, format!("{}\n", entry(&package.metadata, &archive::checksum(&package.file)?)))?;
        fs::copy(&package.file, folder.join(format!("{}.crate", package.id())))?;
    }
    Ok(())
}

/// Returns the path of a crate in an index. The names of this workspace have more than three letters.
fn place(name: &str) -> String {
    format!("{}/{}/{name}", &name[..2], &name[2..4])
}

/// Returns the line of a crate in the index.
fn entry(metadata: &Value, checksum: &str) -> Value {
    let dependencies = metadata["dependencies"].as_array().into_iter().flatten();
    let dependencies: Vec<Value> = dependencies.filter(|one| one["kind"] != "dev").map(dependency).collect();
    // Cargo reads features with the newer syntax from a second table, for the sake of its old releases.
    let (mut features, mut newer) = (BTreeMap::new(), BTreeMap::new());
    for (name, enables) in metadata["features"].as_object().into_iter().flatten() {
        let enabled = enables.as_array().into_iter().flatten().filter_map(Value::as_str);
        let is_newer = enabled.clone().any(|one| one.starts_with("dep:") || one.contains("?/"));
        let table = if is_newer { &mut newer } else { &mut features };
        table.insert(name, enables);
    }
    json!({
        "name": metadata["name"],
        "vers": metadata["version"],
        "deps": dependencies,
        "cksum": checksum,
        "features": features,
        "features2": newer,
        "yanked": false,
        "links": metadata["links"],
        "rust_version": metadata["rust_version"],
        "v": 2,
    })
}

fn dependency(dependency: &Value) -> Value {
    // Members of the workspace have no source; they are in the same registry.
    let registry = if dependency["source"].is_null() { Value::Null } else { CRATES_IO.into() };
    let renamed = !dependency["rename"].is_null();
    json!({
        "name": if renamed { &dependency["rename"] } else { &dependency["name"] },
        "package": if renamed { &dependency["name"] } else { &Value::Null },
        "req": dependency["req"],
        "features": dependency["features"],
        "optional": dependency["optional"],
        "default_features": dependency["uses_default_features"],
        "target": dependency["target"],
        "kind": if dependency["kind"].is_null() { json!("normal") } else { dependency["kind"].clone() },
        "registry": registry,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_has_dependencies_and_both_kinds_of_features() {
        let dependency = |name: &str, kind: Value, source: Value| {
            json!({"name": name, "kind": kind, "source": source, "req": "^1", "rename": null, "features": ["std"],
                "optional": false, "uses_default_features": false, "target": null})
        };
        let metadata = json!({
            "name": "windlass", "version": "0.1.0", "links": null, "rust_version": "1.95",
            "features": {"default": ["v1_36"], "envtest": ["dep:windlass-envtest"]},
            "dependencies": [
                dependency("windlass-api", Value::Null, Value::Null),
                dependency("tokio", Value::Null, "registry+https://example.com".into()),
                dependency("tempfile", "dev".into(), "registry+https://example.com".into()),
            ],
        });
        let entry = entry(&metadata, "00");
        let dependencies = entry["deps"].as_array().unwrap().iter();
        let names: Vec<_> = dependencies.map(|one| (one["name"].as_str().unwrap(), one["registry"].as_str())).collect();
        assert_eq!(names, [("windlass-api", None), ("tokio", Some(CRATES_IO))]);
        assert_eq!(entry["deps"][0]["kind"], "normal");
        assert_eq!(entry["features"], json!({"default": ["v1_36"]}));
        assert_eq!(entry["features2"], json!({"envtest": ["dep:windlass-envtest"]}));
        assert_eq!(place("windlass-api"), "wi/nd/windlass-api");
    }
}
