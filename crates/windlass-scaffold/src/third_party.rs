//! Controllers of kinds whose types are not the project's own: built-in or third-party kinds.

use std::path::Path;

use minijinja::context;

use crate::{
    Changes, Error, Group, Kind, Overwrite, Plural, Version,
    project::{Project, Resource},
    role::{grant, rule},
    source::{with_module, with_statement},
    templates::{Template, create, templates},
};

const FILES: &[Template] = templates!("third_party":
    Scaffold "src/controller/{{ module }}.rs" from "controller.rs",
    Scaffold "tests/{{ module }}.rs" from "test.rs",
);

/// The groups of Kubernetes, and their domains.
const CORE: &[(&str, &str)] = &[
    ("admissionregistration", "k8s.io"),
    ("apps", ""),
    ("autoscaling", ""),
    ("batch", ""),
    ("certificates", "k8s.io"),
    ("coordination", "k8s.io"),
    ("core", ""),
    ("discovery", "k8s.io"),
    ("events", "k8s.io"),
    ("flowcontrol", "apiserver.k8s.io"),
    ("networking", "k8s.io"),
    ("node", "k8s.io"),
    ("policy", ""),
    ("rbac", "authorization.k8s.io"),
    ("resource", "k8s.io"),
    ("scheduling", "k8s.io"),
    ("storage", "k8s.io"),
];

/// The location of a third-party type.
#[derive(Clone, Debug)]
pub(crate) struct External {
    /// The module of the type, as a path in this project's code.
    pub(crate) path: String,
    /// The domain of its group.
    pub(crate) domain: String,
}

/// A built-in or third-party kind.
pub(crate) struct ThirdPartyKind<'a> {
    pub(crate) group: &'a Group,
    pub(crate) version: &'a Version,
    pub(crate) kind: &'a Kind,
    pub(crate) plural: Option<&'a Plural>,
    /// `None` for a built-in kind.
    pub(crate) external: Option<&'a External>,
    pub(crate) overwrite: Overwrite,
}

/// Reports whether a group is one of Kubernetes.
pub(crate) fn is_core(group: &Group) -> bool {
    CORE.iter().any(|(name, _)| *name == group.as_str())
}

/// Adds a controller to the program.
pub(crate) fn declare_controller(changes: &mut Changes, krate: &str, module: &str) -> Result<(), Error> {
    changes.edit("src/controller.rs", |path, text| with_module(path, text, module))?;
    changes.edit("src/main.rs", |path, text| {
        with_statement(path, text, "run", |manager| {
            format!("{manager}.add({krate}::controller::{module}::controller());")
        })
    })
}

impl External {
    pub(crate) fn new(path: &str, domain: &str) -> Result<Self, Error> {
        let expected = "the module of the type, such as crate::certificates, which `windlass import` creates";
        if syn::parse_str::<syn::Path>(path).is_err() || !path.contains("::") {
            return Err(Error::Name { what: "the path of the external API", name: path.to_owned(), expected });
        }
        let domain = if domain.is_empty() { String::new() } else { crate::Domain::new(domain)?.to_string() };
        Ok(Self { path: path.to_owned(), domain })
    }
}

impl ThirdPartyKind<'_> {
    /// Computes the changes to the project.
    pub(crate) fn plan(&self, mut project: Project, folder: &Path) -> Result<Changes, Error> {
        let plural = self.plural();
        let resource = self.recorded(&project, &plural)?;
        let module = resource.module();
        let (krate, group) = (project.krate(), self.group_name());
        let api_group = if group.is_empty() { "core" } else { &group };
        let controller_name = (module != self.kind.module()).then(|| format!("{}.{api_group}", self.kind.singular()));
        let ty = format!("{}::{}", resource.path, self.kind);
        let values = context! {
            project => project.project_name,
            krate,
            group,
            kind => self.kind.as_str(),
            module,
            controller_name,
            plural,
            ty_outside => ty.replacen("crate::", &format!("{krate}::"), 1),
            ty,
            external => self.external.is_some(),
        };
        let mut changes = Changes::of(folder, self.overwrite);
        create(&mut changes, FILES, &values)?;
        declare_controller(&mut changes, &krate, &module)?;
        let rule = rule(api_group, &plural, "list,watch");
        grant(&mut changes, &values, &format!("crate::controller::{module}::RULES"), &[rule])?;
        project.put(resource);
        project.write(&mut changes)?;
        changes.checked()
    }

    fn plural(&self) -> String {
        self.plural.map_or_else(|| self.kind.plural(), ToString::to_string)
    }

    fn domain(&self) -> &str {
        let core = CORE.iter().find(|(name, _)| *name == self.group.as_str()).map_or("", |(_, domain)| domain);
        self.external.map_or(core, |external| &external.domain)
    }

    /// Returns the group's full name, as the API uses it.
    fn group_name(&self) -> String {
        match (self.group.as_str(), self.domain()) {
            ("core", "") => String::new(),
            (group, "") => group.to_owned(),
            (group, domain) => format!("{group}.{domain}"),
        }
    }

    /// Returns the entry for the PROJECT file.
    fn recorded(&self, project: &Project, plural: &str) -> Result<Resource, Error> {
        let Self { group, version, kind, .. } = self;
        let what = format!("{group}/{version}, {kind}");
        let existing = project.resource(group, version, kind);
        if self.overwrite == Overwrite::Never && existing.is_some_and(|existing| existing.controller) {
            return Err(Error::Exists(format!("the controller of {what}")));
        }
        let path = match self.external {
            Some(external) => external.path.clone(),
            None => format!("windlass::k8s::{group}::{version}"),
        };
        let module = project.module(group, kind);
        Ok(Resource {
            api: None,
            controller: true,
            core: self.external.is_none(),
            domain: self.domain().to_owned(),
            external: self.external.is_some(),
            group: group.to_string(),
            kind: kind.to_string(),
            module: Some(module).filter(|module| *module != kind.module()),
            path,
            plural: plural.to_owned(),
            version: version.to_string(),
            webhooks: None,
        })
    }
}
