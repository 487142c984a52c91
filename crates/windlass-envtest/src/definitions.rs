//! Installation of custom resources.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use windlass_api::{
    ApiResource, BoxError, DynamicObject, GroupVersionKind, ObjectExt as _, Resource, Scope, crd::CustomResource,
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use windlass_client::{Client, read_manifests, wait};
use windlass_server::definition_to_v1;

use crate::{Environment, Error, NAME};

const KIND: &str = "CustomResourceDefinition";

/// The extensions of files that are read.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

impl Environment {
    /// Installs the CustomResourceDefinition of a type, and waits until the kind is served. Its objects are defaulted,
    /// pruned and validated as in a cluster. For a kind with several versions, install its
    /// [`CrdBuilder`](windlass_api::crd::CrdBuilder) with [`Self::install_definition`].
    ///
    /// # Panics
    /// Panics with the server's message if the server rejects the definition.
    pub async fn define<K: CustomResource>(&self) {
        if let Err(error) = self.install_definition(&K::definition()).await {
            #[allow(clippy::panic, reason = "documented: a test cannot go on without its kind")]
            {
                panic!("{}", windlass_api::ErrorChain(&error));
            }
        }
    }

    /// Installs a CustomResourceDefinition, and waits until the kind is served. An existing one is replaced.
    pub async fn install_definition(&self, definition: &CustomResourceDefinition) -> Result<(), Error> {
        let object = serde_json::to_value(definition).and_then(serde_json::from_value);
        let object = object.map_err(|error| Error::Manifest { origin: None, source: error.into() })?;
        self.establish(object).await
    }

    /// Installs a kind without a schema: its objects may have any fields, and have a status subresource. To default and
    /// validate its objects, install a kind by its type with [`Self::define`], or by its manifest with
    /// [`Self::install_manifests`].
    ///
    /// # Panics
    /// Panics if the server rejects the type's group, kind or plural name.
    pub async fn install<K: Resource>(&self) {
        let definition = definition_of(&K::api_resource());
        if let Err(error) = self.establish(definition).await {
            let resource = K::api_resource();
            #[allow(clippy::panic, reason = "documented: a test cannot go on without its kind")]
            {
                panic!("installing {}.{}: {}", resource.plural, resource.group, windlass_api::ErrorChain(&error));
            }
        }
    }

    /// Installs the CustomResourceDefinitions in a YAML or JSON text, waits until the kinds are served, and returns
    /// their names. Objects of other kinds are skipped. Existing definitions are replaced. Those of
    /// `apiextensions.k8s.io/v1beta1` are converted to `v1`.
    pub async fn install_manifests(&self, text: &str) -> Result<Vec<String>, Error> {
        self.install_text(text, None).await
    }

    /// Installs the CustomResourceDefinitions in a file, or in the files of a folder. Subfolders are not read.
    pub async fn install_from(&self, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for (file, text) in read(path.as_ref())? {
            names.extend(self.install_text(&text, Some(file)).await?);
        }
        Ok(names)
    }

    async fn install_text(&self, text: &str, origin: Option<PathBuf>) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for object in definitions_in(text, origin)? {
            names.push(object.name().to_owned());
            self.establish(object).await?;
        }
        Ok(names)
    }

    async fn establish(&self, definition: DynamicObject) -> Result<(), Error> {
        #[cfg(feature = "webhook")]
        let definition = self.converted_here(definition);
        establish(&self.client(), &definition, self.patience()).await
    }
}

/// Installs a CustomResourceDefinition, and waits until the kind is served.
pub(crate) async fn establish(client: &Client, definition: &DynamicObject, patience: Duration) -> Result<(), Error> {
    let name = definition.name().to_owned();
    let doing = || format!("installing {KIND} {name}");
    let definitions = client.dynamic(&definitions());
    definitions.apply(definition).field_manager(NAME).force().await.map_err(Error::client(doing()))?;
    let established = wait::condition::<DynamicObject>("Established", "True");
    let refused = wait::condition::<DynamicObject>("NamesAccepted", "False");
    let found = definitions.wait_for(name.as_str()).timeout(patience);
    let found = found.until(|found| established(found) || refused(found)).await.map_err(Error::client(doing()))?;
    if established(found.as_ref()) {
        return Ok(());
    }
    let status = found.and_then(|mut found| found.data.remove("status")).unwrap_or_default();
    let source: BoxError = format!("its names are not accepted: {}", status["conditions"]).into();
    Err(Error::Serve { doing: "installing a CustomResourceDefinition", source })
}

/// Returns the CustomResourceDefinitions in a text, in v1.
pub(crate) fn definitions_in(text: &str, origin: Option<PathBuf>) -> Result<Vec<DynamicObject>, Error> {
    let invalid = |source: BoxError| Error::Manifest { origin: origin.clone(), source };
    let objects = read_manifests(text).map_err(|error| invalid(error.into()))?;
    let is_definition = |object: &DynamicObject| object.types.as_ref().is_some_and(|types| types.kind == KIND);
    let definitions = objects.into_iter().filter(is_definition);
    definitions.map(|definition| in_v1(definition).map_err(invalid)).collect()
}

/// Converts a definition of v1beta1 to v1.
fn in_v1(definition: DynamicObject) -> Result<DynamicObject, BoxError> {
    if definition.types.as_ref().is_some_and(|types| types.api_version == "apiextensions.k8s.io/v1") {
        return Ok(definition);
    }
    let name = definition.name().to_owned();
    let converted = definition_to_v1(serde_json::to_value(definition)?);
    Ok(serde_json::from_value(converted.map_err(|error| format!("{KIND} {name}: {error}"))?)?)
}

/// Returns the resource of CustomResourceDefinitions.
fn definitions() -> ApiResource {
    let gvk = GroupVersionKind::new("apiextensions.k8s.io", "v1", KIND);
    ApiResource::namespaced(gvk, "customresourcedefinitions").cluster_scoped()
}

fn definition_of(resource: &ApiResource) -> DynamicObject {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let name = format!("{}.{}", resource.plural, resource.group);
    let definition: Value = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind, "listKind": format!("{}List", resource.kind), "plural": resource.plural,
                "singular": resource.kind.to_lowercase(),
            },
            "scope": if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"spec": open, "status": open}}},
                "subresources": {"status": {}},
            }],
        },
    });
    serde_json::from_value(definition).expect("it has metadata, and is an object")
}

/// Returns the text of a file, or of the files in a folder, sorted by name.
pub(crate) fn read(path: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| Error::File { path, source }
    };
    let files = if path.is_dir() {
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed(path))?;
        let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)));
        files.sort();
        files
    } else {
        vec![path.to_owned()]
    };
    let text = |file: PathBuf| fs::read_to_string(&file).map_err(failed(&file)).map(|text| (file, text));
    files.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_v1beta1_are_converted() {
        let text = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\n\
                    metadata: {name: as.example.com}\nspec: {group: example.com, names: {plural: as}, version: v1}\n";
        let found = definitions_in(text, None).unwrap();
        assert_eq!(found[0].types.as_ref().unwrap().api_version, "apiextensions.k8s.io/v1");
        assert_eq!(found[0].data["spec"]["versions"][0]["name"], "v1");
        let error = definitions_in(&text.replace(", version: v1", ""), Some("old.yaml".into())).unwrap_err();
        let error = windlass_api::ErrorChain(&error).to_string();
        assert!(error.contains("old.yaml") && error.contains("as.example.com: spec.versions: "), "{error}");
    }
}
