//! `windlass create api`: a kind in a version, and what is done about its objects.

use std::path::Path;

use minijinja::context;

use crate::{
    Changes, Error, Group, Kind, Overwrite, Version,
    kustomization::with_resource,
    project::{Api, Project, Resource},
    source::{with_call, with_module, with_statement},
    templates::{Template, create, templates},
};

/// The files of a type.
const TYPE: &[Template] = templates!("api":
    Scaffold "src/api/{{ version }}/{{ module }}.rs" from "type.rs",
    Scaffold "config/crd/bases/{{ group }}_{{ plural }}.yaml" from "definition.yaml",
    Scaffold "config/rbac/{{ module }}_editor_role.yaml" from "editor_role.yaml",
    Scaffold "config/rbac/{{ module }}_viewer_role.yaml" from "viewer_role.yaml",
    Scaffold "config/samples/{{ short_group }}_{{ version }}_{{ module }}.yaml" from "sample.yaml",
);

/// Those of a controller.
const CONTROLLER: &[Template] = templates!("api":
    Scaffold "src/controller/{{ module }}.rs" from "controller.rs",
    Scaffold "tests/{{ module }}.rs" from "test.rs",
    Scaffold "config/rbac/{{ module }}_controller_role.yaml" from "controller_role.yaml",
);

/// `windlass create api`.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing before it is planned"]
pub struct CreateApi {
    group: Group,
    version: Version,
    kind: Kind,
    namespaced: bool,
    with_type: bool,
    with_controller: bool,
    overwrite: Overwrite,
}

impl CreateApi {
    /// A namespaced kind, and its controller.
    pub fn new(group: &str, version: &str, kind: &str) -> Result<Self, Error> {
        Ok(Self {
            group: Group::new(group)?,
            version: Version::new(version)?,
            kind: Kind::new(kind)?,
            namespaced: true,
            with_type: true,
            with_controller: true,
            overwrite: Overwrite::Never,
        })
    }

    /// Whether its objects are in namespaces.
    pub const fn namespaced(mut self, namespaced: bool) -> Self {
        self.namespaced = namespaced;
        self
    }

    /// Whether the type is made; if it is not, it must be there.
    pub const fn resource(mut self, with_type: bool) -> Self {
        self.with_type = with_type;
        self
    }

    /// Whether a controller is made.
    pub const fn controller(mut self, with_controller: bool) -> Self {
        self.with_controller = with_controller;
        self
    }

    /// What to do where the API, or a file, is there.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// What it would do to the project in the folder.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut project = Project::of(folder)?;
        let resource = self.recorded(&project)?;
        let group = project.qualified(&self.group);
        let module = self.kind.module();
        let values = context! {
            project => project.project_name,
            krate => project.krate(),
            group,
            domain => project.domain,
            short_group => self.group.as_str(),
            version => self.version.as_str(),
            kind => self.kind.as_str(),
            module,
            singular => self.kind.singular(),
            plural => self.kind.plural(),
            namespaced => resource.api.as_ref().is_some_and(|api| api.namespaced),
        };
        let mut changes = Changes::of(folder, self.overwrite);
        if self.with_type {
            create(&mut changes, TYPE, &values)?;
            self.declare_type(&mut changes, &group)?;
        }
        if self.with_controller {
            create(&mut changes, CONTROLLER, &values)?;
            self.declare_controller(&mut changes, &project)?;
        }
        project.put(resource);
        project.write(&mut changes)?;
        changes.checked()
    }

    /// What the PROJECT file will say of it.
    fn recorded(&self, project: &Project) -> Result<Resource, Error> {
        let what = || format!("{}/{}, {}", self.group, self.version, self.kind);
        let needs = |needs: &str| Error::Needs { what: what(), needs: needs.to_owned() };
        if !self.with_type && !self.with_controller {
            return Err(needs("nothing is asked for: --resource, --controller or both"));
        }
        if let Some(other) = project.resources.iter().find(|there| there.group != self.group.as_str()) {
            return Err(needs(&format!("the project's group is {}, and it can have one only", other.group)));
        }
        if self.with_type
            && let Some(other) =
                project.versions(&self.group, &self.kind).find(|there| there.version != self.version.as_str())
        {
            return Err(needs(&format!("the kind is there in version {}, and can have one only", other.version)));
        }
        let there = project.resource(&self.group, &self.version, &self.kind);
        let (has_type, has_controller) = there.map_or((false, false), |there| (there.api.is_some(), there.controller));
        if self.overwrite == Overwrite::Never {
            if self.with_type && has_type {
                return Err(Error::Exists(format!("the API {}", what())));
            }
            if self.with_controller && has_controller {
                return Err(Error::Exists(format!("the controller of {}", what())));
            }
        }
        let api =
            if self.with_type { Some(Api::new(self.namespaced)) } else { there.and_then(|there| there.api.clone()) };
        if api.is_none() {
            return Err(needs("there is no type to control; --resource makes it"));
        }
        Ok(Resource {
            api,
            controller: self.with_controller || has_controller,
            domain: project.domain.clone(),
            group: self.group.to_string(),
            kind: self.kind.to_string(),
            path: format!("{}::api::{}::{}", project.krate(), self.version, self.kind.module()),
            plural: self.kind.plural(),
            version: self.version.to_string(),
            webhooks: there.and_then(|there| there.webhooks.clone()),
        })
    }

    fn declare_type(&self, changes: &mut Changes, group: &str) -> Result<(), Error> {
        let (version, kind, module) = (&self.version, &self.kind, self.kind.module());
        let versions = format!("src/api/{version}.rs");
        changes.create_or_keep(&versions, format!("//! Version {version} of {group}.\n"))?;
        changes.edit("src/api.rs", |path, text| with_module(path, text, version.as_str()))?;
        changes.edit(&versions, |path, text| with_module(path, text, &module))?;
        let call = format!(".kind::<crate::api::{version}::{module}::{kind}>()");
        changes.edit("src/manifests.rs", |path, text| with_call(path, text, "manifests", &call))?;
        let (base, sample) =
            (format!("bases/{group}_{}.yaml", kind.plural()), format!("{}_{version}_{module}.yaml", self.group));
        let roles = ["editor", "viewer"].map(|role| format!("{module}_{role}_role.yaml"));
        changes.edit("config/crd/kustomization.yaml", |_, text| Ok(with_resource(text, &base)))?;
        changes.edit("config/samples/kustomization.yaml", |_, text| Ok(with_resource(text, &sample)))?;
        changes.edit("config/rbac/kustomization.yaml", |_, text| {
            Ok(roles.iter().fold(text.to_owned(), |text, role| with_resource(&text, role)))
        })?;
        changes.edit("config/default/kustomization.yaml", |_, text| Ok(with_resource(text, "../crd")))
    }

    fn declare_controller(&self, changes: &mut Changes, project: &Project) -> Result<(), Error> {
        let module = self.kind.module();
        let krate = project.krate();
        changes.edit("src/controller.rs", |path, text| with_module(path, text, &module))?;
        changes.edit("src/main.rs", |path, text| {
            with_statement(path, text, "run", |manager| {
                format!("{manager}.add({krate}::controller::{module}::controller());")
            })
        })?;
        let role = format!("{module}_controller_role.yaml");
        changes.edit("config/rbac/kustomization.yaml", |_, text| Ok(with_resource(text, &role)))
    }
}
