//! `windlass create api`: adds an API to a project: a type in a version, its manifests and its controller.

use std::path::Path;

use minijinja::{Value, context};

use crate::{
    Changes, Error, Group, Kind, Overwrite, Plural, Version,
    crd::with_version,
    kustomization::with_resource,
    project::{Api, Project, Resource},
    role::{grant, rule},
    scope::{refusal, scope},
    source::{Definition, has_flag, with_definition, with_flag, with_module},
    templates::{Template, create, templates},
    third_party::{External, ThirdPartyKind, declare_controller, is_core},
};

/// The files of a type.
const TYPE: &[Template] = templates!("api":
    Scaffold "src/api/{{ version }}/{{ module }}.rs" from "type.rs",
    Scaffold "config/samples/{{ short_group }}_{{ version }}_{{ usual_module }}.yaml" from "sample.yaml",
);

/// The files shared by all versions of a kind.
const KIND: &[Template] = templates!("api":
    Scaffold "config/rbac/{{ module }}_editor_role.yaml" from "editor_role.yaml",
    Scaffold "config/rbac/{{ module }}_viewer_role.yaml" from "viewer_role.yaml",
);

/// The file of the CRD.
const DEFINITION: &[Template] = templates!("api":
    Scaffold "config/crd/bases/{{ group }}_{{ plural }}.yaml" from "crd.yaml",
);

/// The files of a controller.
const CONTROLLER: &[Template] = templates!("api":
    Scaffold "src/controller/{{ module }}.rs" from "controller.rs",
    Scaffold "tests/{{ module }}.rs" from "test.rs",
);

/// The attribute of the type whose version is the storage version.
const STORED: &str = "storage";

/// The command `windlass create api`.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing until it is planned"]
pub struct CreateApi {
    group: Group,
    version: Version,
    kind: Kind,
    /// Defaults to the plural of the kind's other versions, or to the usual plural of the kind.
    plural: Option<Plural>,
    namespaced: bool,
    /// Set for a type that another project defines.
    external: Option<External>,
    with_type: bool,
    /// By default, a controller is created unless another version of the kind has one.
    with_controller: Option<bool>,
    overwrite: Overwrite,
}

impl CreateApi {
    /// Creates the command for a namespaced kind and its controller, or for a further version of a kind that has a
    /// controller.
    pub fn new(group: &str, version: &str, kind: &str) -> Result<Self, Error> {
        Ok(Self {
            group: Group::new(group)?,
            version: Version::new(version)?,
            kind: Kind::new(kind)?,
            plural: None,
            namespaced: true,
            external: None,
            with_type: true,
            with_controller: None,
            overwrite: Overwrite::Never,
        })
    }

    /// Sets whether the kind is namespaced.
    pub const fn namespaced(mut self, namespaced: bool) -> Self {
        self.namespaced = namespaced;
        self
    }

    /// Sets the plural, if it is not the usual plural of the kind.
    pub fn plural(mut self, plural: &str) -> Result<Self, Error> {
        self.plural = Some(Plural::new(plural)?);
        Ok(self)
    }

    /// Uses a type that another project defines. `path` is its module in this project's code, and `domain` the end of
    /// its group. The command creates only a controller, no type.
    pub fn external(mut self, path: &str, domain: &str) -> Result<Self, Error> {
        self.external = Some(External::new(path, domain)?);
        Ok(self)
    }

    /// Sets whether the type is created. Otherwise it must exist, or belong to a group of Kubernetes: `apps`, `batch`,
    /// `core` and so on.
    pub const fn resource(mut self, with_type: bool) -> Self {
        self.with_type = with_type;
        self
    }

    /// Sets whether a controller is created.
    pub const fn controller(mut self, with_controller: bool) -> Self {
        self.with_controller = Some(with_controller);
        self
    }

    /// Sets whether an existing API and existing files are overwritten.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Computes the changes to the project in `folder`.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut project = Project::of(folder)?;
        if let Some(third_party) = self.third_party(&project)? {
            return third_party.plan(project, folder);
        }
        let resource = self.recorded(&project)?;
        let group = project.qualified(&self.group);
        let module = resource.module();
        let is_usual_module = module == self.kind.module();
        let singular = self.kind.singular();
        let values = context! {
            project => project.project_name,
            krate => project.krate(),
            group,
            domain => project.domain,
            short_group => self.group.as_str(),
            version => self.version.as_str(),
            kind => self.kind.as_str(),
            module,
            usual_module => self.kind.module(),
            // The name in the manifests, which another group's kind of the same name has without the group.
            label => if is_usual_module { singular.clone() } else { format!("{}-{singular}", self.group) },
            controller_name => (!is_usual_module).then(|| format!("{singular}.{group}")),
            singular,
            plural => resource.plural,
            is_usual => resource.plural == self.kind.plural(),
            namespaced => resource.api.as_ref().is_some_and(|api| api.namespaced),
            stored => self.is_stored(&project, folder)?,
            ..scope(&self.kind, &module)
        };
        let mut changes = Changes::of(folder, self.overwrite);
        if self.with_type {
            create(&mut changes, TYPE, &values)?;
            match self.others(&project).as_slice() {
                [] => {
                    create(&mut changes, KIND, &values)?;
                    create(&mut changes, DEFINITION, &values)?;
                }
                others => self.join(&mut changes, others, &values)?,
            }
            self.declare_type(&mut changes, &project, &resource)?;
        }
        if self.makes_controller(&project) {
            create(&mut changes, CONTROLLER, &values)?;
            declare_controller(&mut changes, &project.krate(), &module)?;
            grant_controller(&mut changes, &values, &group, &resource)?;
        }
        project.put(resource);
        project.write(&mut changes)?;
        changes.checked()
    }

    /// Returns the third-party kind, unless the kind belongs to the project.
    fn third_party(&self, project: &Project) -> Result<Option<ThirdPartyKind<'_>>, Error> {
        let is_own = project.resource(&self.group, &self.version, &self.kind).is_some_and(|there| there.api.is_some());
        let is_core = !self.with_type && !is_own && is_core(&self.group);
        if !is_core && self.external.is_none() {
            return Ok(None);
        }
        if self.with_controller == Some(false) {
            let what = format!("{}/{}, {}", self.group, self.version, self.kind);
            return Err(Error::Needs {
                what,
                needs: "only a controller can be created for a kind of another project".to_owned(),
            });
        }
        Ok(Some(ThirdPartyKind {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
            plural: self.plural.as_ref(),
            external: self.external.as_ref(),
            overwrite: self.overwrite,
        }))
    }

    /// Returns the other versions of the kind.
    fn others<'a>(&self, project: &'a Project) -> Vec<&'a Resource> {
        let versions = project.versions(&self.group, &self.kind);
        versions.filter(|there| there.version != self.version.as_str()).collect()
    }

    fn makes_controller(&self, project: &Project) -> bool {
        let is_controlled = self.others(project).iter().any(|other| other.controller);
        self.with_controller.unwrap_or(!is_controlled)
    }

    /// Reports whether the type is marked as the storage version. With a second version, the first one becomes the
    /// storage version.
    fn is_stored(&self, project: &Project, folder: &Path) -> Result<bool, Error> {
        if self.others(project).is_empty() {
            return Ok(false);
        }
        let path = type_file(self.version.as_str(), &project.module(&self.group, &self.kind));
        let there = Changes::of(folder, self.overwrite).text(&path)?;
        there.map_or(Ok(false), |text| has_flag(Path::new(&path), &text, self.kind.as_str(), STORED))
    }

    /// Adds a version to the existing ones. If none is marked as the storage version, the first one is marked.
    fn join(&self, changes: &mut Changes, others: &[&Resource], values: &Value) -> Result<(), Error> {
        for template in KIND {
            let (path, text) = template.render(values)?;
            changes.create_or_keep(path, text)?;
        }
        for template in DEFINITION {
            let (path, text) = template.render(values)?;
            let there = changes.text(&path)?;
            // A hand-written file is left to `windlass generate crds`.
            if let Some(joined) = there.and_then(|there| with_version(&there, &text)) {
                changes.set(path, joined)?;
            }
        }
        let mut stored = values.get_attr("stored").is_ok_and(|stored| stored.is_true());
        for other in others {
            let path = type_file(&other.version, &other.module());
            let text = changes.text(&path)?.unwrap_or_default();
            stored = stored || has_flag(Path::new(&path), &text, self.kind.as_str(), STORED)?;
        }
        match others.first() {
            Some(first) if !stored => changes.edit(type_file(&first.version, &first.module()), |path, text| {
                with_flag(path, text, self.kind.as_str(), STORED)
            }),
            _ => Ok(()),
        }
    }

    /// Returns the entry for the PROJECT file.
    fn recorded(&self, project: &Project) -> Result<Resource, Error> {
        let what = || format!("{}/{}, {}", self.group, self.version, self.kind);
        let needs = |needs: &str| Error::Needs { what: what(), needs: needs.to_owned() };
        let with_controller = self.makes_controller(project);
        if !self.with_type && !with_controller {
            return Err(needs("nothing to do: set --resource, --controller or both"));
        }
        if let Some(why) = refusal(&self.kind) {
            return Err(needs(&why));
        }
        let others = self.others(project);
        if with_controller && let Some(other) = others.iter().find(|other| other.controller) {
            return Err(needs(&format!("the kind already has a controller, for version {}", other.version)));
        }
        let shared = others.first().and_then(|other| other.api.as_ref()).map(|api| api.namespaced);
        if self.with_type && shared.is_some_and(|shared| shared != self.namespaced) {
            return Err(needs("its other versions have another value of --namespaced"));
        }
        let there = project.resource(&self.group, &self.version, &self.kind);
        let (has_type, has_controller) = there.map_or((false, false), |there| (there.api.is_some(), there.controller));
        if self.overwrite == Overwrite::Never {
            if self.with_type && has_type {
                return Err(Error::Exists(format!("the API {}", what())));
            }
            if with_controller && has_controller {
                return Err(Error::Exists(format!("the controller of {}", what())));
            }
        }
        let of_fellows = others.first().copied().or(there).map(|there| there.plural.clone());
        let plural = self.plural.as_ref().map(ToString::to_string);
        if let (Some(plural), Some(there)) = (&plural, &of_fellows)
            && plural != there
        {
            return Err(needs(&format!("its plural is already {there}")));
        }
        let plural = plural.or(of_fellows).unwrap_or_else(|| self.kind.plural());
        let api =
            if self.with_type { Some(Api::new(self.namespaced)) } else { there.and_then(|there| there.api.clone()) };
        if api.is_none() {
            return Err(needs("the type does not exist; --resource creates it"));
        }
        let module = project.module(&self.group, &self.kind);
        Ok(Resource {
            api,
            controller: with_controller || has_controller,
            core: false,
            domain: project.domain.clone(),
            external: false,
            group: self.group.to_string(),
            kind: self.kind.to_string(),
            path: format!("{}::api::{}::{module}", project.krate(), self.version),
            module: Some(module).filter(|module| *module != self.kind.module()),
            plural,
            version: self.version.to_string(),
            webhooks: there.and_then(|there| there.webhooks.clone()),
        })
    }

    fn declare_type(&self, changes: &mut Changes, project: &Project, resource: &Resource) -> Result<(), Error> {
        let (version, kind, module) = (&self.version, &self.kind, resource.module());
        let (group, plural) = (project.qualified(&self.group), &resource.plural);
        let versions = format!("src/api/{version}.rs");
        changes.create_or_keep(&versions, format!("//! The types of version {version}.\n"))?;
        changes.edit("src/api.rs", |path, text| with_module(path, text, version.as_str()))?;
        changes.edit(&versions, |path, text| with_module(path, text, &module))?;
        let named = format!("crate::api::{version}::{module}::{kind}");
        let namesakes = project.namesakes(&self.group, kind);
        let definition = Definition { function: &module, kind: kind.as_str(), version: &named, namesakes: &namesakes };
        changes.edit("src/manifests.rs", |path, text| with_definition(path, text, &definition))?;
        let base = format!("bases/{group}_{plural}.yaml");
        let sample = format!("{}_{version}_{}.yaml", self.group, kind.module());
        let roles = ["editor", "viewer"].map(|role| format!("{module}_{role}_role.yaml"));
        changes.edit("config/crd/kustomization.yaml", |_, text| Ok(with_resource(text, &base)))?;
        changes.edit("config/samples/kustomization.yaml", |_, text| Ok(with_resource(text, &sample)))?;
        changes.edit("config/rbac/kustomization.yaml", |_, text| {
            Ok(roles.iter().fold(text.to_owned(), |text, role| with_resource(&text, role)))
        })?;
        changes.edit("config/default/kustomization.yaml", |_, text| Ok(with_resource(text, "../crd")))
    }
}

/// Grants the permissions that the controller's code requires.
fn grant_controller(changes: &mut Changes, values: &Value, group: &str, resource: &Resource) -> Result<(), Error> {
    let plural = &resource.plural;
    let rules = [
        rule(group, plural, "get,list,watch,update,patch"),
        rule(group, &format!("{plural}/finalizers"), "update"),
        rule(group, &format!("{plural}/status"), "get,update,patch"),
        rule("core,events.k8s.io", "events", "create,patch"),
    ];
    grant(changes, values, &format!("crate::controller::{}::RULES", resource.module()), &rules)
}

fn type_file(version: &str, module: &str) -> String {
    format!("src/api/{version}/{module}.rs")
}
