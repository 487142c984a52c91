//! `windlass init --from PROJECT`: imports the APIs of a kubebuilder project.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use minijinja::context;
use serde::Deserialize;

use crate::{
    Changes, CreateApi, CreateWebhook, Error, Group, Init, Kind, Overwrite, Sources, Windlass, project,
    scope::scope,
    templates::{Template, templates},
};

/// Replacements for the examples of the scaffold, which use fields that imported types don't have.
const CONTROLLER: &Template =
    &templates!("imported": Scaffold "src/controller/{{ module }}.rs" from "controller.rs",)[0];
const TEST: &Template = &templates!("imported": Scaffold "tests/{{ module }}.rs" from "test.rs",)[0];
const SPOKE: &[Template] = templates!("imported":
    Scaffold "src/webhook/{{ module }}_conversion/{{ spoke }}.rs" from "spoke.rs",
    Scaffold "tests/{{ module }}_{{ spoke }}.rs" from "spoke_test.rs",
);
const WEBHOOK: &Template = &templates!("imported": Scaffold "src/webhook/{{ module }}.rs" from "webhook.rs",)[0];

/// A PROJECT file of kubebuilder, version 3.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Project {
    #[serde(default)]
    domain: String,
    #[serde(default)]
    layout: Vec<String>,
    project_name: String,
    #[serde(default)]
    resources: Vec<Resource>,
    version: String,
}

/// A version of a kind in such a file.
#[allow(clippy::struct_excessive_bools, reason = "the fields of the file")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    api: Option<Api>,
    controller: bool,
    core: bool,
    domain: String,
    external: bool,
    group: String,
    kind: String,
    plural: Option<String>,
    version: String,
    webhooks: Option<Webhooks>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Api {
    namespaced: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Webhooks {
    conversion: bool,
    defaulting: bool,
    /// The versions that convert to this one. Empty in projects of older kubebuilder releases, where all other versions
    /// do.
    spoke: Vec<String>,
    validation: bool,
}

/// An imported type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedType {
    /// The full name of the group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The source code of the type's module.
    pub source: String,
}

/// The command `windlass init --from PROJECT`.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing until it is planned"]
pub struct FromKubebuilder {
    path: PathBuf,
    project: Project,
    types: Vec<ImportedType>,
    /// CRDs and samples (as JSON), by file name.
    crds: BTreeMap<String, String>,
    samples: BTreeMap<String, String>,
    windlass: Windlass,
    overwrite: Overwrite,
}

/// The plan of an import.
#[derive(Debug)]
pub struct ImportPlan {
    /// The changes to the folder.
    pub changes: Changes,
    /// The parts that were not imported, with the reasons.
    pub left: Vec<String>,
}

impl FromKubebuilder {
    /// Reads a PROJECT file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |why: String| Error::Project { path: path.to_owned(), source: why.into() };
        let text = fs::read_to_string(path).map_err(|source| Error::File {
            doing: "reading",
            path: path.to_owned(),
            source,
        })?;
        let project: Project = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let is_go = |layout: &String| layout.starts_with("go.kubebuilder.io/");
        if project.version != "3" || !project.layout.iter().any(is_go) {
            let layout = project.layout.join(", ");
            return Err(wrong(format!(
                "its version is {} and its layout {layout}, not kubebuilder's third version for Go",
                project.version
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            project,
            types: Vec::new(),
            crds: BTreeMap::new(),
            samples: BTreeMap::new(),
            windlass: Windlass::default(),
            overwrite: Overwrite::Never,
        })
    }

    /// Returns the folder of the project's CRDs.
    pub fn definitions_folder(&self) -> PathBuf {
        self.path.with_file_name("config").join("crd/bases")
    }

    /// Returns the sample files of the project's kinds, each with whether the kind is namespaced.
    pub fn sample_files(&self) -> Vec<(PathBuf, bool)> {
        let folder = self.path.with_file_name("config").join("samples");
        let file = |resource: &Resource| Some((folder.join(resource.sample()), resource.api.as_ref()?.namespaced));
        self.project.resources.iter().filter_map(file).filter(|(path, _)| path.is_file()).collect()
    }

    /// Sets the types imported from the CRDs.
    pub fn types(mut self, types: impl IntoIterator<Item = ImportedType>) -> Self {
        self.types.extend(types);
        self
    }

    /// Adds a CRD file by its name.
    pub fn crd(mut self, file: impl Into<String>, text: impl Into<String>) -> Self {
        self.crds.insert(file.into(), text.into());
        self
    }

    /// Adds a sample as JSON, by its file name.
    pub fn sample(mut self, file: impl Into<String>, json: impl Into<String>) -> Self {
        self.samples.insert(file.into(), json.into());
        self
    }

    /// Sets the source of Windlass. Defaults to the release of this version.
    pub fn windlass(mut self, windlass: Windlass) -> Self {
        self.windlass = windlass;
        self
    }

    /// Sets whether existing files are overwritten.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Computes the changes to `folder`, and lists the parts that are not imported.
    pub fn plan(&self, folder: &Path) -> Result<ImportPlan, Error> {
        let failed = |source| Error::File { doing: "making", path: "a temporary folder".into(), source };
        // Each command needs the files of the previous ones, so they write to a temporary folder. The target folder
        // changes only if all succeed.
        let workshop = tempfile::tempdir().map_err(failed)?;
        let there = workshop.path();
        let name = self.project.project_name.to_lowercase();
        Init::new(&self.project.domain, &name)?.windlass(self.windlass.clone()).plan(there)?.write()?;
        let mut left = vec!["the Go code: reconcilers, webhooks, conversions, tests and main".to_owned()];
        for resource in &self.project.resources {
            if let Err(why) = self.take(resource, there, &name, &mut left) {
                left.push(format!("{}: {why}", resource.named()));
            }
        }
        for resource in self.project.resources.iter().filter(|resource| resource.converts()) {
            match self.convert(resource, there) {
                Ok(()) => {
                    left.push(format!("{}: the logic of its conversion; fields are copied by name", resource.named()));
                }
                Err(why) => left.push(format!("{}: the conversion between its versions: {why}", resource.named())),
            }
        }
        // Restores the imported types, in case a command has edited them.
        let written = project::Project::of(there)?;
        let types = self.project.resources.iter().filter_map(|resource| {
            let source = resource.source(&written)?;
            let path = there.join(&source);
            Some((source, self.imported(resource).filter(|_| path.is_file())?.source.clone()))
        });
        Sources::new(types.collect::<Vec<_>>()).overwrite(Overwrite::Force).plan(there)?.write()?;
        let mut files = Vec::new();
        collect(there, there, &mut files)?;
        let mut changes = Changes::of(folder, self.overwrite);
        for (path, text) in files {
            changes.create(path, text)?;
        }
        Ok(ImportPlan { changes: changes.checked()?, left })
    }

    /// Imports one version of a kind.
    fn take(&self, resource: &Resource, folder: &Path, project: &str, left: &mut Vec<String>) -> Result<(), Error> {
        let needs = |needs: &str| Error::Needs { what: "skipped".to_owned(), needs: needs.to_owned() };
        let Resource { group, version, kind, .. } = resource;
        if resource.core && resource.controller && resource.webhooks.is_none() {
            return CreateApi::new(group, version, kind)?.resource(false).plan(folder)?.write();
        }
        if resource.external {
            return Err(needs(
                "its type belongs to another project; `windlass import` creates the type, and `windlass create api --external-api-path` the controller",
            ));
        }
        let Some(api) = resource.api.as_ref().filter(|_| !resource.core) else {
            return Err(needs("its type does not belong to the project; windlass::k8s has the built-in types"));
        };
        if resource.domain != self.project.domain {
            return Err(needs("its group does not end in the project's domain"));
        }
        let whole = format!("{group}.{}", self.project.domain);
        let ty = self.imported(resource).ok_or_else(|| {
            needs("config/crd/bases has no CustomResourceDefinition of it; `make manifests` writes it")
        })?;
        let name = Kind::new(kind)?;
        let plural = resource.plural.clone().unwrap_or_else(|| name.plural());
        let create = CreateApi::new(group, version, kind)?.plural(&plural)?;
        let create = create.namespaced(api.namespaced).controller(resource.controller);
        create.plan(folder)?.write()?;
        let module = project::Project::of(folder)?.module(&Group::new(group)?, &name);
        let webhooks = resource.webhooks.clone().unwrap_or_default();
        let sample = self.samples.get(&resource.sample());
        let values = context! {
            project => project,
            krate => project.replace('-', "_"),
            group => whole,
            version => version,
            kind => kind,
            module,
            singular => name.singular(),
            plural,
            defaulting => webhooks.defaulting,
            validation => webhooks.validation,
            sample => sample,
            controller_name => (module != name.module()).then(|| format!("{}.{whole}", name.singular())),
            ..scope(&name, &module)
        };
        let mut files = vec![(format!("src/api/{version}/{module}.rs"), ty.source.clone())];
        let crd = format!("{whole}_{plural}.yaml");
        if let Some(text) = self.crds.get(&crd) {
            files.push((format!("config/crd/bases/{crd}"), text.clone()));
        }
        let ours = format!("config/samples/{group}_{version}_{}.yaml", name.module());
        match fs::read_to_string(self.path.with_file_name("config").join("samples").join(resource.sample())) {
            Ok(text) => files.push((ours, text)),
            Err(_) => {
                left.push(format!(
                    "{}: it has no sample; {ours} is an example that does not fit the type",
                    resource.named()
                ));
            }
        }
        if resource.controller {
            files.push(CONTROLLER.render(&values)?);
            if sample.is_some() {
                files.push(TEST.render(&values)?);
            } else {
                remove(folder, &format!("tests/{module}.rs"))?;
            }
        }
        if webhooks.defaulting || webhooks.validation {
            let create = CreateWebhook::new(group, version, kind)?;
            create.defaulting(webhooks.defaulting).validation(webhooks.validation).plan(folder)?.write()?;
            files.push(WEBHOOK.render(&values)?);
            remove(folder, &format!("tests/{module}_webhook.rs"))?;
        }
        Sources::new(files).overwrite(Overwrite::Force).plan(folder)?.write()
    }

    /// Returns the imported type of a resource.
    fn imported(&self, resource: &Resource) -> Option<&ImportedType> {
        let group = format!("{}.{}", resource.group, self.project.domain);
        let found =
            |ty: &&ImportedType| ty.group == group && ty.version == resource.version && ty.kind == resource.kind;
        self.types.iter().find(found)
    }

    /// Creates the conversions between a hub and its spokes.
    fn convert(&self, hub: &Resource, folder: &Path) -> Result<(), Error> {
        let Resource { group, version, kind, .. } = hub;
        let named = hub.webhooks.as_ref().map(|webhooks| webhooks.spoke.clone()).unwrap_or_default();
        let mut create = CreateWebhook::new(group, version, kind)?.conversion();
        for spoke in &named {
            create = create.spoke(spoke)?;
        }
        create.plan(folder)?.write()?;
        let same = |other: &&Resource| other.group == *group && other.kind == *kind && other.version != *version;
        let others = self.project.resources.iter().filter(same).map(|other| &other.version);
        let module = project::Project::of(folder)?.module(&Group::new(group)?, &Kind::new(kind)?);
        let krate = self.project.project_name.to_lowercase().replace('-', "_");
        let mut files = Vec::new();
        for spoke in others.filter(|other| named.is_empty() || named.contains(other)) {
            let values = context! { krate, kind, module, version, spoke };
            for template in SPOKE {
                files.push(template.render(&values)?);
            }
        }
        Sources::new(files).overwrite(Overwrite::Force).plan(folder)?.write()
    }
}

impl Resource {
    /// Reports whether other versions convert to this one.
    fn converts(&self) -> bool {
        self.webhooks.as_ref().is_some_and(|webhooks| webhooks.conversion)
    }

    /// Returns the path of the type's source file in the new project.
    fn source(&self, project: &project::Project) -> Option<String> {
        let module = project.module(&Group::new(&self.group).ok()?, &Kind::new(&self.kind).ok()?);
        Some(format!("src/api/{}/{module}.rs", self.version))
    }

    fn named(&self) -> String {
        format!("{}/{}, {}", self.group, self.version, self.kind)
    }

    /// Returns the name of the sample file that kubebuilder writes.
    fn sample(&self) -> String {
        format!("{}_{}_{}.yaml", self.group, self.version, self.kind.to_lowercase())
    }
}

/// Removes the test of an example.
fn remove(folder: &Path, file: &str) -> Result<(), Error> {
    let path = folder.join(file);
    fs::remove_file(&path).map_err(|source| Error::File { doing: "removing", path, source })
}

/// Collects all files below a folder.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, String)>) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { doing: "reading", path, source }
    };
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            files.push((name.to_owned(), fs::read_to_string(&path).map_err(failed(&path))?));
        }
    }
    Ok(())
}
