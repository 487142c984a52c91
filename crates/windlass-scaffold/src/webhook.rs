//! `windlass create webhook`: adds admission and conversion webhooks to a kind.

use std::path::Path;

use minijinja::{Value, context};

use crate::{
    Changes, Error, Group, Kind, Overwrite, Version,
    configuration::{Purpose, Webhook},
    conversion::convert,
    kustomization::with_resource,
    project::{Project, Resource},
    role::{grant, named, rule},
    scope::scope,
    source::{with_module, with_statement},
    templates::{Template, create, templates},
};

/// The files shared by all webhooks of a project.
const SHARED: &[Template] = templates!("webhook":
    User "src/webhook.rs" from "src_webhook.rs",
    User "config/webhook/kustomization.yaml" from "kustomization.yaml",
    User "config/webhook/service.yaml" from "service.yaml",
    User "config/rbac/webhook_role.yaml" from "webhook_role.yaml",
    User "config/network-policy/allow-webhook-traffic.yaml" from "allow-webhook-traffic.yaml",
);

/// The files of a kind's admission webhooks.
const FILES: &[Template] = templates!("webhook":
    Scaffold "src/webhook/{{ module }}.rs" from "webhook.rs",
    Scaffold "tests/{{ module }}_webhook.rs" from "test.rs",
);

/// The command `windlass create webhook`.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing until it is planned"]
pub struct CreateWebhook {
    group: Group,
    version: Version,
    kind: Kind,
    defaulting: bool,
    validation: bool,
    conversion: Option<Vec<Version>>,
    overwrite: Overwrite,
}

impl CreateWebhook {
    /// Creates the command for a kind. No webhook is selected yet.
    pub fn new(group: &str, version: &str, kind: &str) -> Result<Self, Error> {
        Ok(Self {
            group: Group::new(group)?,
            version: Version::new(version)?,
            kind: Kind::new(kind)?,
            defaulting: false,
            validation: false,
            conversion: None,
            overwrite: Overwrite::Never,
        })
    }

    /// Sets whether a defaulting webhook is created.
    pub const fn defaulting(mut self, defaulting: bool) -> Self {
        self.defaulting = defaulting;
        self
    }

    /// Sets whether a validating webhook is created.
    pub const fn validation(mut self, validation: bool) -> Self {
        self.validation = validation;
        self
    }

    /// Converts the other versions of the kind to this one, the hub, and back.
    pub fn conversion(mut self) -> Self {
        self.conversion.get_or_insert_default();
        self
    }

    /// Converts only the versions added by this method, instead of all existing ones.
    pub fn spoke(mut self, version: &str) -> Result<Self, Error> {
        self.conversion.get_or_insert_default().push(Version::new(version)?);
        Ok(self)
    }

    /// Sets whether existing webhooks and files are overwritten.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Computes the changes to the project in `folder`.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut project = Project::of(folder)?;
        let (resource, namespaced) = self.recorded(&project)?;
        let spokes = self.spokes(&project)?;
        let group = project.qualified(&self.group);
        let (module, plural, krate) = (resource.module(), resource.plural.clone(), project.krate());
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
            plural,
            namespaced,
            defaulting => self.defaulting,
            validation => self.validation,
            mutate,
            validate,
            paths,
            ..scope(&self.kind, &module)
        };
        let mut changes = Changes::of(folder, self.overwrite);
        for template in SHARED {
            let (path, text) = template.render(&values)?;
            changes.create_or_keep(path, text)?;
        }
        declare(&mut changes, &krate)?;
        if self.defaulting || self.validation {
            create(&mut changes, FILES, &values)?;
            serve(&mut changes, &module)?;
            let of = |purpose, path| Webhook {
                purpose,
                project: &project.project_name,
                group: &group,
                version: self.version.as_str(),
                kind: self.kind.as_str(),
                module: &module,
                plural: &plural,
                path,
            };
            if self.defaulting {
                admit(&mut changes, &of(Purpose::Defaulting, &mutate), &values)?;
            }
            if self.validation {
                admit(&mut changes, &of(Purpose::Validating, &validate), &values)?;
            }
        }
        if !spokes.is_empty() {
            convert(&mut changes, &self.kind, &module, &spokes, &values)?;
            serve(&mut changes, &format!("{module}_conversion"))?;
            inject_ca(&mut changes, |certificates| format!("{module}_conversion::inject_ca({certificates})"))?;
        }
        project.put(resource);
        project.write(&mut changes)?;
        changes.checked()
    }

    /// Reports whether this is the kind's only version.
    fn is_alone(&self, project: &Project) -> bool {
        project.versions(&self.group, &self.kind).all(|existing| existing.version == self.version.as_str())
    }

    /// Returns a warning if the command omits the conversion, because the kind has only one version and admission
    /// webhooks are created as well.
    pub fn warning(&self, folder: &Path) -> Result<Option<String>, Error> {
        let project = Project::of(folder)?;
        let asks = self.conversion.as_ref().is_some_and(Vec::is_empty) && (self.defaulting || self.validation);
        Ok((asks && self.is_alone(&project)).then(|| {
            let Self { kind, version, .. } = self;
            format!(
                "{kind} has only version {version}: no conversion is created; add a version with `windlass create api` and repeat the command with --conversion"
            )
        }))
    }

    /// Returns the versions that convert to this one; empty without a conversion.
    fn spokes(&self, project: &Project) -> Result<Vec<Version>, Error> {
        let Some(named) = &self.conversion else { return Ok(Vec::new()) };
        let needs = |needs: String| Error::Needs {
            what: format!("the conversion of {}/{}, {}", self.group, self.version, self.kind),
            needs,
        };
        let mut others = Vec::new();
        for other in
            project.versions(&self.group, &self.kind).filter(|existing| existing.version != self.version.as_str())
        {
            if other.webhooks.as_ref().is_some_and(|webhooks| webhooks.conversion) {
                return Err(needs(format!("version {} is already the hub", other.version)));
            }
            others.push(Version::new(&other.version)?);
        }
        if others.is_empty() && named.is_empty() && (self.defaulting || self.validation) {
            // Nothing to convert; `warning` reports it.
            return Ok(others);
        }
        if others.is_empty() {
            return Err(needs("there is no other version; `windlass create api` creates one".to_owned()));
        }
        if named.is_empty() {
            let existing = project.resource(&self.group, &self.version, &self.kind);
            let webhooks = existing.and_then(|existing| existing.webhooks.as_ref());
            // Existing conversions belong to the user.
            let converts = |other: &Version| {
                webhooks.is_some_and(|webhooks| webhooks.spoke.iter().any(|spoke| spoke == other.as_str()))
            };
            others.retain(|other| self.overwrite == Overwrite::Force || !converts(other));
            return Ok(others);
        }
        match named.iter().find(|version| !others.contains(version)) {
            Some(version) => Err(needs(format!("there is no version {version}; `windlass create api` creates it"))),
            None => Ok(named.clone()),
        }
    }

    /// Returns the entry for the PROJECT file, and whether the kind is namespaced.
    fn recorded(&self, project: &Project) -> Result<(Resource, bool), Error> {
        let what = || format!("webhooks of {}/{}, {}", self.group, self.version, self.kind);
        let needs = |needs: &str| Error::Needs { what: what(), needs: needs.to_owned() };
        let admits = self.defaulting || self.validation;
        if !admits && self.conversion.is_none() {
            return Err(needs(
                "nothing to do: set --defaulting, --programmatic-validation, --conversion or several of them",
            ));
        }
        let existing = project.resource(&self.group, &self.version, &self.kind);
        let Some((existing, api)) = existing.and_then(|existing| Some((existing, existing.api.as_ref()?))) else {
            return Err(needs("the API does not exist; `windlass create api` creates it"));
        };
        let mut webhooks = existing.webhooks.clone().unwrap_or_default();
        let spokes: Vec<_> = self.spokes(project)?.iter().map(ToString::to_string).collect();
        if self.overwrite == Overwrite::Never {
            if admits && webhooks.admit() {
                return Err(Error::Exists(what()));
            }
            if self.conversion.is_some()
                && !self.is_alone(project)
                && spokes.iter().all(|spoke| webhooks.spoke.contains(spoke))
            {
                return Err(Error::Exists(format!("the conversion of {}/{}, {}", self.group, self.version, self.kind)));
            }
        }
        if admits {
            (webhooks.defaulting, webhooks.validation) = (self.defaulting, self.validation);
        }
        if !spokes.is_empty() {
            webhooks.conversion = true;
            webhooks.spoke.extend(spokes);
            webhooks.spoke.sort();
            webhooks.spoke.dedup();
        }
        Ok((Resource { webhooks: Some(webhooks), ..existing.clone() }, api.namespaced))
    }
}

/// Adds the webhook module to the program and its manifests to the deployment.
fn declare(changes: &mut Changes, krate: &str) -> Result<(), Error> {
    changes.edit("src/lib.rs", |path, text| with_module(path, text, "webhook"))?;
    changes.edit("src/main.rs", |path, text| {
        with_statement(path, text, "run", |manager| format!("{krate}::webhook::add_to(&mut {manager}, config)?;"))
    })?;
    changes.edit("config/rbac/kustomization.yaml", |_, text| Ok(with_resource(text, "webhook_role.yaml")))?;
    changes.edit("config/network-policy/kustomization.yaml", |_, text| {
        Ok(with_resource(text, "allow-webhook-traffic.yaml"))
    })?;
    changes.edit("config/default/kustomization.yaml", |_, text| Ok(with_resource(text, "../webhook")))
}

/// Registers the webhooks of a module.
fn serve(changes: &mut Changes, module: &str) -> Result<(), Error> {
    changes.edit("src/webhook.rs", |path, text| {
        let text = with_module(path, text, module)?;
        with_statement(path, &text, "build", |webhooks| format!("let {webhooks} = {module}::register({webhooks});"))
    })
}

/// Adds an object that receives the CA bundle of the webhook certificates.
fn inject_ca(changes: &mut Changes, call: impl Fn(&str) -> String) -> Result<(), Error> {
    changes.edit("src/webhook.rs", |path, text| {
        with_statement(path, text, "serving", |certificates| format!("let {certificates} = {};", call(certificates)))
    })
}

/// Adds an admission webhook to its configuration, which also receives the CA bundle.
fn admit(changes: &mut Changes, webhook: &Webhook<'_>, values: &Value) -> Result<(), Error> {
    webhook.declare(changes)?;
    let (target, resource) = match webhook.purpose {
        Purpose::Defaulting => ("mutating", "mutatingwebhookconfigurations"),
        Purpose::Validating => ("validating", "validatingwebhookconfigurations"),
    };
    inject_ca(changes, |certificates| {
        format!("{certificates}.inject_into([windlass::runtime::webhook::CaBundleTarget::{target}(CONFIGURATION)])")
    })?;
    let rule = named(rule("admissionregistration.k8s.io", resource, "get,patch"), webhook.project);
    grant(changes, values, &format!("crate::webhook::{}::RULES", webhook.module), &[rule])?;
    changes.edit("config/webhook/kustomization.yaml", |_, text| Ok(with_resource(text, "manifests.yaml")))
}
