//! `windlass create webhook`: what the API server asks before it writes objects of a kind.

use std::path::Path;

use minijinja::context;

use crate::{
    Changes, Error, Group, Kind, Overwrite, Version,
    kustomization::with_resource,
    project::{Project, Resource, Webhooks},
    source::{with_module, with_statement},
    templates::{Template, create, templates},
};

/// The files of all webhooks of a project.
const SHARED: &[Template] = templates!("webhook":
    User "src/webhook.rs" from "src_webhook.rs",
    User "config/webhook/kustomization.yaml" from "kustomization.yaml",
    User "config/webhook/service.yaml" from "service.yaml",
    User "config/rbac/webhook_role.yaml" from "webhook_role.yaml",
    User "config/network-policy/allow-webhook-traffic.yaml" from "allow-webhook-traffic.yaml",
);

/// Those of a kind.
const FILES: &[Template] = templates!("webhook":
    Scaffold "src/webhook/{{ module }}.rs" from "webhook.rs",
    Scaffold "tests/{{ module }}_webhook.rs" from "test.rs",
    Scaffold "config/webhook/{{ module }}.yaml" from "configuration.yaml",
    Scaffold "config/rbac/{{ module }}_webhook_role.yaml" from "trustee_role.yaml",
);

/// `windlass create webhook`.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing before it is planned"]
pub struct CreateWebhook {
    group: Group,
    version: Version,
    kind: Kind,
    defaulting: bool,
    validation: bool,
    overwrite: Overwrite,
}

impl CreateWebhook {
    /// Webhooks of a kind, of which there are none yet.
    pub fn new(group: &str, version: &str, kind: &str) -> Result<Self, Error> {
        Ok(Self {
            group: Group::new(group)?,
            version: Version::new(version)?,
            kind: Kind::new(kind)?,
            defaulting: false,
            validation: false,
            overwrite: Overwrite::Never,
        })
    }

    /// Whether one fills in what is missing.
    pub const fn defaulting(mut self, defaulting: bool) -> Self {
        self.defaulting = defaulting;
        self
    }

    /// Whether one refuses what is wrong.
    pub const fn validation(mut self, validation: bool) -> Self {
        self.validation = validation;
        self
    }

    /// What to do where the webhooks, or a file, are there.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// What it would do to the project in the folder.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut project = Project::of(folder)?;
        let (resource, namespaced) = self.recorded(&project)?;
        let group = project.qualified(&self.group);
        let (module, krate) = (self.kind.module(), project.krate());
        let path = |verb| {
            let singular = self.kind.singular();
            format!("/{verb}-{}-{}-{singular}", group.replace('.', "-"), self.version)
        };
        let (mutate, validate) = (path("mutate"), path("validate"));
        let paths = match (self.defaulting, self.validation) {
            (true, true) => format!("`{mutate}` and `{validate}`"),
            (true, false) => format!("`{mutate}`"),
            _ => format!("`{validate}`"),
        };
        let values = context! {
            project => project.project_name,
            domain => project.domain,
            krate,
            group,
            version => self.version.as_str(),
            kind => self.kind.as_str(),
            module,
            singular => self.kind.singular(),
            plural => self.kind.plural(),
            namespaced,
            defaulting => self.defaulting,
            validation => self.validation,
            mutate,
            validate,
            paths,
        };
        let mut changes = Changes::of(folder, self.overwrite);
        for template in SHARED {
            let (path, text) = template.render(&values)?;
            changes.create_or_keep(path, text)?;
        }
        create(&mut changes, FILES, &values)?;
        declare(&mut changes, &self.kind, &krate)?;
        project.put(resource);
        project.write(&mut changes)?;
        changes.checked()
    }

    /// What the PROJECT file will say of it, and whether its objects are in namespaces.
    fn recorded(&self, project: &Project) -> Result<(Resource, bool), Error> {
        let what = || format!("webhooks of {}/{}, {}", self.group, self.version, self.kind);
        let needs = |needs: &str| Error::Needs { what: what(), needs: needs.to_owned() };
        if !self.defaulting && !self.validation {
            return Err(needs("nothing is asked for: --defaulting, --programmatic-validation or both"));
        }
        let there = project.resource(&self.group, &self.version, &self.kind);
        let Some((there, api)) = there.and_then(|there| Some((there, there.api.as_ref()?))) else {
            return Err(needs("there is no such API; windlass create api makes it"));
        };
        if there.webhooks.is_some() && self.overwrite == Overwrite::Never {
            return Err(Error::Exists(what()));
        }
        let webhooks = Some(Webhooks::new(self.defaulting, self.validation));
        Ok((Resource { webhooks, ..there.clone() }, api.namespaced))
    }
}

/// Makes them known to the program and to the cluster.
fn declare(changes: &mut Changes, kind: &Kind, krate: &str) -> Result<(), Error> {
    let module = kind.module();
    changes.edit("src/lib.rs", |path, text| with_module(path, text, "webhook"))?;
    changes.edit("src/webhook.rs", |path, text| {
        let text = with_module(path, text, &module)?;
        let text = with_statement(path, &text, "build", |webhooks| {
            format!("let {webhooks} = {module}::register({webhooks});")
        })?;
        with_statement(path, &text, "serving", |certificates| {
            format!("let {certificates} = {module}::trusted({certificates});")
        })
    })?;
    changes.edit("src/main.rs", |path, text| {
        with_statement(path, text, "run", |manager| format!("{krate}::webhook::add_to(&mut {manager}, config)?;"))
    })?;
    let roles = ["webhook_role.yaml".to_owned(), format!("{module}_webhook_role.yaml")];
    changes.edit("config/rbac/kustomization.yaml", |_, text| {
        Ok(roles.iter().fold(text.to_owned(), |text, role| with_resource(&text, role)))
    })?;
    let configuration = format!("{module}.yaml");
    changes.edit("config/webhook/kustomization.yaml", |_, text| Ok(with_resource(text, &configuration)))?;
    changes.edit("config/network-policy/kustomization.yaml", |_, text| {
        Ok(with_resource(text, "allow-webhook-traffic.yaml"))
    })?;
    changes.edit("config/default/kustomization.yaml", |_, text| Ok(with_resource(text, "../webhook")))
}
