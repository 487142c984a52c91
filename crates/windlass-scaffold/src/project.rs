//! The PROJECT file, which lists a project's APIs, controllers and webhooks.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Changes, Error, Group, Kind, Version};

/// The name of the file.
pub(crate) const FILE: &str = "PROJECT";

/// The layout of the files; `go.kubebuilder.io/v4` in kubebuilder's projects.
const LAYOUT: &str = "windlass.dev/v1";

/// The version of this command.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The comment at the top of the file.
const HEAD: &str = "# Written by `windlass init` and `windlass create`, which read and overwrite it.\n";

/// The content of the file, in the format of kubebuilder's version 3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Project {
    /// The version of the command that wrote the file last.
    #[serde(default)]
    cli_version: String,
    /// The domain of the project's groups.
    pub(crate) domain: String,
    layout: Vec<String>,
    /// `true` if the operator is restricted to its own namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) namespaced: bool,
    pub(crate) project_name: String,
    /// Sorted by group, version and kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<Resource>,
    version: String,
}

/// A version of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    /// Set if the project defines the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api: Option<Api>,
    /// `true` if the project has a controller for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) controller: bool,
    /// `true` for a built-in type of Kubernetes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) core: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) domain: String,
    /// `true` for a third-party type.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) external: bool,
    pub(crate) group: String,
    pub(crate) kind: String,
    /// The name of the kind's files and modules, if it is not the usual one, because another group has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) module: Option<String>,
    /// The module of the type.
    pub(crate) path: String,
    pub(crate) plural: String,
    pub(crate) version: String,
    /// Set if the project has webhooks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) webhooks: Option<Webhooks>,
}

/// The properties of a CRD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Api {
    crd_version: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) namespaced: bool,
}

impl Resource {
    /// Returns the name of the kind's files and modules.
    pub(crate) fn module(&self) -> String {
        self.module.clone().unwrap_or_else(|| Kind::new(&self.kind).map(|kind| kind.module()).unwrap_or_default())
    }
}

impl Api {
    pub(crate) fn new(namespaced: bool) -> Self {
        Self { crd_version: "v1".into(), namespaced }
    }
}

/// The webhooks of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Webhooks {
    /// `true` for the hub of a conversion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) conversion: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) defaulting: bool,
    /// The versions that convert to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spoke: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) validation: bool,
    webhook_version: String,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            conversion: false,
            defaulting: false,
            spoke: Vec::new(),
            validation: false,
            webhook_version: "v1".into(),
        }
    }
}

impl Webhooks {
    /// Reports whether there are admission webhooks.
    pub(crate) const fn admit(&self) -> bool {
        self.defaulting || self.validation
    }
}

impl Project {
    pub(crate) fn new(domain: impl Into<String>, project_name: impl Into<String>) -> Self {
        Self {
            cli_version: VERSION.into(),
            domain: domain.into(),
            layout: vec![LAYOUT.into()],
            namespaced: false,
            project_name: project_name.into(),
            resources: Vec::new(),
            version: "3".into(),
        }
    }

    /// Reads the project of a folder; `None` if it has no PROJECT file.
    pub(crate) fn find(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::File { doing: "reading", path, source }),
        };
        let project: Self = serde_saphyr::from_str(&text)
            .map_err(|error| Error::Project { path: path.clone(), source: error.into() })?;
        if !project.layout.iter().any(|layout| layout == LAYOUT) {
            let source = format!("its layout is {}, not {LAYOUT}", project.layout.join(", ")).into();
            return Err(Error::Project { path, source });
        }
        Ok(Some(project))
    }

    /// Reads the project of a folder.
    pub(crate) fn of(folder: &Path) -> Result<Self, Error> {
        Self::find(folder)?.ok_or_else(|| Error::NoProject(folder.join(FILE)))
    }

    /// Returns the name of the project's library.
    pub(crate) fn krate(&self) -> String {
        self.project_name.replace('-', "_")
    }

    /// Returns the full name of a group.
    pub(crate) fn qualified(&self, group: &Group) -> String {
        format!("{group}.{}", self.domain)
    }

    pub(crate) fn resource(&self, group: &Group, version: &Version, kind: &Kind) -> Option<&Resource> {
        let wanted = (group.as_str(), version.as_str(), kind.as_str());
        self.resources
            .iter()
            .find(|existing| (existing.group.as_str(), existing.version.as_str(), existing.kind.as_str()) == wanted)
    }

    /// Returns the name of a kind's files and modules: the kind's own, unless another group has it already.
    pub(crate) fn module(&self, group: &Group, kind: &Kind) -> String {
        let same = |existing: &&Resource| existing.group == group.as_str() && existing.kind == kind.as_str();
        if let Some(existing) = self.resources.iter().find(same) {
            return existing.module();
        }
        let module = kind.module();
        let is_taken = self.resources.iter().any(|existing| existing.module() == module);
        if is_taken { kind.module_in(group) } else { module }
    }

    /// Returns the modules of the kinds with the same name in other groups.
    pub(crate) fn namesakes(&self, group: &Group, kind: &Kind) -> Vec<String> {
        let others = self.resources.iter();
        let others = others.filter(|other| other.group != group.as_str() && other.kind == kind.as_str());
        others.map(Resource::module).collect()
    }

    /// Returns the versions of a kind that the project defines.
    pub(crate) fn versions(&self, group: &Group, kind: &Kind) -> impl Iterator<Item = &Resource> {
        let (group, kind) = (group.as_str().to_owned(), kind.as_str().to_owned());
        self.resources
            .iter()
            .filter(move |existing| existing.api.is_some() && existing.group == group && existing.kind == kind)
    }

    /// Returns an error if the operator cannot be restricted to its namespace.
    pub(crate) fn may_be_namespaced(&self) -> Result<(), Error> {
        for resource in &self.resources {
            let Resource { group, version, kind, .. } = resource;
            let needs = if resource.api.as_ref().is_some_and(|api| !api.namespaced) {
                "the kind is cluster-scoped"
            } else if resource.webhooks.is_some() {
                "its webhook configurations are cluster-scoped"
            } else {
                continue;
            };
            let what = format!("an operator of one namespace, with {group}/{version}, {kind}");
            return Err(Error::Needs { what, needs: needs.to_owned() });
        }
        Ok(())
    }

    /// Adds or replaces a resource.
    pub(crate) fn put(&mut self, resource: Resource) {
        let key = |of: &Resource| (of.group.clone(), of.version.clone(), of.kind.clone());
        self.resources.retain(|existing| key(existing) != key(&resource));
        self.resources.push(resource);
        self.resources.sort_by_key(key);
    }

    /// Adds the file to the changes of a command.
    pub(crate) fn write(&self, changes: &mut Changes) -> Result<(), Error> {
        if self.namespaced {
            self.may_be_namespaced()?;
        }
        changes.set(FILE, self.text()?)
    }

    fn text(&self) -> Result<String, Error> {
        let text = serde_saphyr::to_string(&Self { cli_version: VERSION.into(), ..self.clone() })
            .map_err(|error| Error::Project { path: PathBuf::from(FILE), source: error.into() })?;
        Ok(format!("{HEAD}{}\n", text.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_file_round_trips() {
        let text = format!(
            "{HEAD}cliVersion: {VERSION:?}\ndomain: example.com\nlayout:\n- windlass.dev/v1\nnamespaced: true\nprojectName: fleet\nresources:\n\
             - api:\n    crdVersion: v1\n    namespaced: true\n  controller: true\n  domain: example.com\n  group: crew\n  kind: Captain\n  \
             path: fleet::api::v1::captain\n  plural: captaines\n  version: v1\n\
             - controller: true\n  core: true\n  group: apps\n  kind: Deployment\n  path: windlass::k8s::apps::v1\n  plural: deployments\n  \
             version: v1\n\
             - controller: true\n  domain: io\n  external: true\n  group: cert-manager\n  kind: Certificate\n  path: crate::certificates\n  \
             plural: certificates\n  version: v1\nversion: \"3\"\n"
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), &text).unwrap();
        let project = Project::of(folder.path()).unwrap();
        assert_eq!(project.text().unwrap(), text);
        std::fs::write(folder.path().join(FILE), text.replace(&format!("cliVersion: {VERSION:?}\n"), "")).unwrap();
        assert_eq!(Project::of(folder.path()).unwrap().text().unwrap(), text, "a file written by an older command");
    }
}
