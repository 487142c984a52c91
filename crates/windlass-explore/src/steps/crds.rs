//! CustomResourceDefinitions in files.

use std::path::Path;

use serde_json::Value;
use windlass_server::definition_to_v1;

use super::{manifest, read_text, sorted_files};
use crate::error::{Error, Result};

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "CustomResourceDefinition";

/// Reads the CRDs in a file, or in the YAML files of a directory. Those of `v1beta1` are converted to `v1`.
pub(crate) fn crds(path: &Path) -> Result<Vec<Value>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        files = sorted_files(path)?;
        files.retain(|file| is_manifest(file));
    }
    let mut crds = Vec::new();
    for path in &files {
        let invalid = |reason| Error::Invalid { path: path.clone(), reason };
        for document in manifest::read(&read_text(path)?).map_err(invalid)? {
            if document.kind.group != GROUP || document.kind.kind != KIND {
                return Err(invalid(format!("line {}: {document} is not a {KIND}", document.line)));
            }
            let at = |error| invalid(format!("line {}: {document}: {error}", document.line));
            crds.push(definition_to_v1(document.content.clone()).map_err(|error| at(error.to_string()))?);
        }
    }
    if crds.is_empty() {
        return Err(Error::Invalid { path: path.to_owned(), reason: format!("it contains no {KIND}") });
    }
    Ok(crds)
}

/// Returns `true` for the name of a manifest. `kustomization.yaml` is none.
fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json")) && path.file_stem().is_none_or(|stem| stem != "kustomization")
}
