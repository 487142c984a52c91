//! `windlass init --from PROJECT`: imports a kubebuilder project.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use windlass_scaffold::{FromKubebuilder, ImportPlan, ImportedType, Overwrite, Windlass};

use super::import;

/// Plans the import of a kubebuilder project into a folder.
pub(crate) fn plan(
    project: &Path,
    windlass: Windlass,
    overwrite: Overwrite,
    folder: &Path,
) -> Result<ImportPlan, Box<dyn Error>> {
    let mut from = FromKubebuilder::read(project)?.windlass(windlass).overwrite(overwrite);
    let definitions = from.definitions_folder();
    let mut left = Vec::new();
    if definitions.is_dir() {
        let types = import::types(std::slice::from_ref(&definitions), None)?.modules.into_iter();
        from = from.types(types.map(|module| ImportedType {
            group: module.group,
            version: module.version,
            kind: module.kind,
            source: module.text,
        }));
        for entry in fs::read_dir(&definitions)? {
            let path = entry?.path();
            from = from.crd(name(&path), read(&path)?);
        }
    }
    for (path, namespaced) in from.sample_files() {
        match sample(&read(&path)?, namespaced) {
            Some(json) => from = from.sample(name(&path), json),
            None => left.push(format!("{}: it does not contain an object", path.display())),
        }
    }
    let mut import_plan = from.plan(folder)?;
    import_plan.left.extend(left);
    Ok(import_plan)
}

/// Returns a sample as JSON if a test can create it.
fn sample(text: &str, namespaced: bool) -> Option<String> {
    let mut object: Value = serde_saphyr::from_str(text).ok()?;
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.shift_remove("namespace");
    if namespaced {
        metadata.insert("namespace".to_owned(), "default".into());
    }
    // kubebuilder writes a sample with an empty spec and a comment.
    if object["spec"].is_null() {
        object["spec"] = Value::Object(serde_json::Map::new());
    }
    serde_json::to_string_pretty(&object).ok()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &PathBuf) -> Result<String, Box<dyn Error>> {
    fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import_plan() -> ImportPlan {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubebuilder/PROJECT");
        plan(&project, Windlass::default(), Overwrite::Never, Path::new("/nowhere")).unwrap()
    }

    #[test]
    fn kubebuilder_project_is_scaffolded_with_its_types() {
        let ImportPlan { changes, .. } = import_plan();
        let paths = changes.paths().map(|path| path.display().to_string()).collect::<Vec<_>>();
        for path in [
            "PROJECT",
            "Cargo.toml",
            "src/api/v1/captain.rs",
            "src/controller/captain.rs",
            "src/controller/deployment.rs",
            "src/webhook/captain.rs",
            "tests/captain.rs",
            "config/crd/bases/crew.example.com_captains.yaml",
            "config/samples/crew_v1_captain.yaml",
        ] {
            assert!(paths.iter().any(|there| there == path), "{path} in {paths:#?}");
        }
        assert!(!paths.iter().any(|path| path.contains("cabin") || path.contains("_webhook.rs")), "{paths:#?}");
        let diff = changes.diff();
        for line in [
            "+    #[schema(minimum = 1, default = 3)]",
            "+    pub ships: Option<i32>,",
            "+    webhooks.mutator(default).validator(Rules)",
            "+projectName: fleet",
            "+  \"kind\": \"Captain\",",
            "+        .webhook(windlass::manifests::Webhook::defaulting::<crate::api::v1::captain::Captain>())",
        ] {
            assert!(diff.lines().any(|there| there == line), "{line} in {diff}");
        }
        assert!(!diff.contains("spec.message"), "no example is left");
    }

    #[test]
    fn parts_that_are_not_migrated_are_reported() {
        let left = import_plan().left.join("\n");
        for why in [
            "the Go code",
            "crew/v1, Captain: the conversion between its versions: the conversion of crew/v1, Captain: there is no",
            "crew/v1, Cabin: skipped: config/crd/bases has no CustomResourceDefinition of it",
        ] {
            assert!(left.contains(why), "{why} in {left}");
        }
        let error = FromKubebuilder::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))).unwrap_err();
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }
}
