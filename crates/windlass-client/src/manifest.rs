//! Manifests: objects in files of YAML or JSON.

use serde_json::Value;
use thiserror::Error;
use windlass_api::{BoxError, DynamicObject, GroupVersionError, TypeMeta};

/// The error of a text that is not a valid manifest.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is neither YAML nor JSON.
    #[error("it cannot be read as YAML")]
    Yaml(#[source] BoxError),
    /// An object lacks `apiVersion` or `kind`.
    #[error("object {index} has no {field}")]
    Missing {
        /// The index of the object in the text, starting at 0.
        index: usize,
        /// The missing field: `apiVersion` or `kind`.
        field: &'static str,
    },
    /// An object has an invalid `apiVersion`.
    #[error("object {index} has an invalid apiVersion")]
    Version {
        /// The index of the object in the text, starting at 0.
        index: usize,
        /// The cause.
        source: GroupVersionError,
    },
    /// An object has invalid metadata.
    #[error("object {index} is invalid")]
    Object {
        /// The index of the object in the text, starting at 0.
        index: usize,
        /// The cause.
        source: serde_json::Error,
    },
}

/// Reads the objects of a manifest: YAML documents, or JSON, and the items of lists in them. Empty documents are
/// skipped.
///
/// Scalars are interpreted as in YAML 1.2, so `yes`, `no`, `on` and `off` are strings. Each object must have
/// `apiVersion` and `kind`; names and all other fields are validated by the server.
///
/// ```
/// use windlass_api::ObjectExt as _;
///
/// let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}";
/// let objects = windlass_client::read_manifests(text)?;
/// assert_eq!(objects.iter().map(|object| object.name()).collect::<Vec<_>>(), ["a", "b"]);
/// # Ok::<_, windlass_client::ManifestError>(())
/// ```
pub fn read_manifests(text: &str) -> Result<Vec<DynamicObject>, ManifestError> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| ManifestError::Yaml(error.to_string().into()))?;
    let mut objects = Vec::new();
    for document in documents {
        if !document.is_null() {
            collect(document, None, &mut objects)?;
        }
    }
    Ok(objects)
}

/// Adds an object, or the items of a list. Items of a typed list inherit `apiVersion` and `kind` from the list.
fn collect(
    mut object: Value,
    item_of: Option<&TypeMeta>,
    objects: &mut Vec<DynamicObject>,
) -> Result<(), ManifestError> {
    let index = objects.len();
    let said = |field: &str| object[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let types = match (said("apiVersion"), said("kind"), item_of) {
        (Some(api_version), Some(kind), _) => TypeMeta { api_version, kind },
        (None, None, Some(of)) => of.clone(),
        (None, ..) => return Err(ManifestError::Missing { index, field: "apiVersion" }),
        (_, None, _) => return Err(ManifestError::Missing { index, field: "kind" }),
    };
    if let Some(kind) = types.kind.strip_suffix("List")
        && let Some(Value::Array(items)) = object.get_mut("items").map(Value::take)
    {
        // The items of a plain `List` may have any kind.
        let of = TypeMeta { api_version: types.api_version.clone(), kind: kind.to_owned() };
        let of = Some(&of).filter(|of| !of.kind.is_empty());
        return items.into_iter().try_for_each(|item| collect(item, of, objects));
    }
    types
        .api_version
        .parse::<windlass_api::GroupVersion>()
        .map_err(|source| ManifestError::Version { index, source })?;
    let mut read: DynamicObject =
        serde_json::from_value(object).map_err(|source| ManifestError::Object { index, source })?;
    read.types = Some(types);
    objects.push(read);
    Ok(())
}

#[cfg(test)]
mod tests {
    use windlass_api::{ErrorChain, ObjectExt as _};

    use super::*;

    fn read(text: &str) -> Result<Vec<String>, String> {
        let objects = read_manifests(text).map_err(|error| ErrorChain(&error).to_string())?;
        let line = |object: &DynamicObject| {
            let TypeMeta { api_version, kind } = object.types.clone().unwrap();
            format!("{api_version} {kind} {}", object.object_ref().key())
        };
        Ok(objects.iter().map(line).collect())
    }

    #[test]
    fn documents_and_lists_hold_objects() {
        let text = "# first\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n}\n---\n---\n\
                    apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: on}\n";
        assert_eq!(read(text).unwrap(), ["v1 Pod n/a", "apps/v1 Deployment on"]);
        assert_eq!(read(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"}}"#).unwrap(), ["v1 Pod j"]);
        let list = "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}, {metadata: {name: b}}]";
        assert_eq!(read(list).unwrap(), ["v1 ConfigMap a", "v1 ConfigMap b"]);
        assert_eq!(read("").unwrap(), [""; 0]);
    }

    #[test]
    fn an_object_keeps_all_that_was_written() {
        let text = "apiVersion: x.io/v1\nkind: A\nmetadata: {name: a, later: 1}\nspec: {n: 010, yes: no}\nitems: []";
        let object = read_manifests(text).unwrap().remove(0);
        let written = serde_json::to_value(&object).unwrap();
        assert_eq!((&written["metadata"]["later"], &written["spec"]["yes"]), (&Value::from(1), &Value::from("no")));
        assert_eq!(written["items"], Value::Array(Vec::new()));
    }

    #[test]
    fn invalid_manifest_error_names_object_and_reason() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n";
        assert_eq!(read(&format!("{pod}kind: Pod")).unwrap_err(), "object 1 has no apiVersion");
        assert_eq!(read("apiVersion: v1").unwrap_err(), "object 0 has no kind");
        assert_eq!(read("just text").unwrap_err(), "object 0 has no apiVersion");
        let odd = read("apiVersion: a/b/c\nkind: Pod").unwrap_err();
        assert_eq!(odd, "object 0 has an invalid apiVersion: unexpected GroupVersion string: a/b/c");
        assert!(
            read("apiVersion: v1\nkind: Pod\nmetadata: {name: [1]}").unwrap_err().starts_with("object 0 is invalid: ")
        );
        assert!(read("a: [").unwrap_err().starts_with("it cannot be read as YAML: "));
    }
}
