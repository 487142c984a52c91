//! `windlass create webhook`: what the API server asks before it writes objects of a kind, or converts them.

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
    conversion: Option<Vec<Version>>,
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
            conversion: None,
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

    /// Converts the other versions of the kind to this one, the hub, and back.
    pub fn conversion(mut self) -> Self {
        self.conversion.get_or_insert_default();
        self
    }

    /// Converts this version, and what else is named so, and not all others that there are.
    pub fn spoke(mut self, version: &str) -> Result<Self, Error> {
        self.conversion.get_or_insert_default().push(Version::new(version)?);
        Ok(self)
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
        let spokes = self.spokes(&project)?;
        let group = project.qualified(&self.group);
        let (module, plural, krate) = (self.kind.module(), resource.plural.clone(), project.krate());
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
            ..scope(&self.kind)
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
            convert(&mut changes, &self.kind, &spokes, &values)?;
            serve(&mut changes, &format!("{module}_conversion"))?;
            trust(&mut changes, |certificates| format!("{module}_conversion::trusted({certificates})"))?;
        }
        project.put(resource);
        project.write(&mut changes)?;
        changes.checked()
    }

    /// Reports whether the kind has this version alone.
    fn is_alone(&self, project: &Project) -> bool {
        project.versions(&self.group, &self.kind).all(|there| there.version == self.version.as_str())
    }

    /// Returns what the command leaves out: the conversion, where the kind has one version and other webhooks are asked for.
    pub fn warning(&self, folder: &Path) -> Result<Option<String>, Error> {
        let project = Project::of(folder)?;
        let asks = self.conversion.as_ref().is_some_and(Vec::is_empty) && (self.defaulting || self.validation);
        Ok((asks && self.is_alone(&project)).then(|| {
            let Self { kind, version, .. } = self;
            format!(
                "{kind} has no other version than {version}: no conversion is written; add a version with `windlass create api` and repeat the command with --conversion"
            )
        }))
    }

    /// The versions that are to convert to this one; none if nobody asks for that.
    fn spokes(&self, project: &Project) -> Result<Vec<Version>, Error> {
        let Some(named) = &self.conversion else { return Ok(Vec::new()) };
        let needs = |needs: String| Error::Needs {
            what: format!("the conversion of {}/{}, {}", self.group, self.version, self.kind),
            needs,
        };
        let mut others = Vec::new();
        for other in project.versions(&self.group, &self.kind).filter(|there| there.version != self.version.as_str()) {
            if other.webhooks.as_ref().is_some_and(|webhooks| webhooks.conversion) {
                return Err(needs(format!("version {} is the hub", other.version)));
            }
            others.push(Version::new(&other.version)?);
        }
        if others.is_empty() && named.is_empty() && (self.defaulting || self.validation) {
            // There is nothing to convert yet; `warning` says so.
            return Ok(others);
        }
        if others.is_empty() {
            return Err(needs("there is no other version; windlass create api makes one".to_owned()));
        }
        if named.is_empty() {
            let there = project.resource(&self.group, &self.version, &self.kind);
            let webhooks = there.and_then(|there| there.webhooks.as_ref());
            // What converts already is the user's.
            let converts = |other: &Version| {
                webhooks.is_some_and(|webhooks| webhooks.spoke.iter().any(|spoke| spoke == other.as_str()))
            };
            others.retain(|other| self.overwrite == Overwrite::Force || !converts(other));
            return Ok(others);
        }
        match named.iter().find(|version| !others.contains(version)) {
            Some(version) => {
                Err(needs(format!("there is no version {version} beside it; windlass create api makes it")))
            }
            None => Ok(named.clone()),
        }
    }

    /// What the PROJECT file will say of it, and whether its objects are in namespaces.
    fn recorded(&self, project: &Project) -> Result<(Resource, bool), Error> {
        let what = || format!("webhooks of {}/{}, {}", self.group, self.version, self.kind);
        let needs = |needs: &str| Error::Needs { what: what(), needs: needs.to_owned() };
        let admits = self.defaulting || self.validation;
        if !admits && self.conversion.is_none() {
            return Err(needs(
                "nothing is asked for: --defaulting, --programmatic-validation, --conversion or several of them",
            ));
        }
        let there = project.resource(&self.group, &self.version, &self.kind);
        let Some((there, api)) = there.and_then(|there| Some((there, there.api.as_ref()?))) else {
            return Err(needs("there is no such API; windlass create api makes it"));
        };
        let mut webhooks = there.webhooks.clone().unwrap_or_default();
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
        Ok((Resource { webhooks: Some(webhooks), ..there.clone() }, api.namespaced))
    }
}

/// Makes webhooks known to the program and to the cluster.
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

/// Puts those of a module among the others.
fn serve(changes: &mut Changes, module: &str) -> Result<(), Error> {
    changes.edit("src/webhook.rs", |path, text| {
        let text = with_module(path, text, module)?;
        with_statement(path, &text, "build", |webhooks| format!("let {webhooks} = {module}::register({webhooks});"))
    })
}

/// Somebody more is told whose certificates to trust.
fn trust(changes: &mut Changes, trusted: impl Fn(&str) -> String) -> Result<(), Error> {
    changes.edit("src/webhook.rs", |path, text| {
        with_statement(path, text, "serving", |certificates| format!("let {certificates} = {};", trusted(certificates)))
    })
}

/// Tells the API server of a webhook, and that one whom to trust.
fn admit(changes: &mut Changes, webhook: &Webhook<'_>, values: &Value) -> Result<(), Error> {
    webhook.declare(changes)?;
    let (trustee, resource) = match webhook.purpose {
        Purpose::Defaulting => ("mutating", "mutatingwebhookconfigurations"),
        Purpose::Validating => ("validating", "validatingwebhookconfigurations"),
    };
    trust(changes, |certificates| {
        format!("{certificates}.trusted_by([windlass::runtime::webhook::Trustee::{trustee}(CONFIGURATION)])")
    })?;
    let rule = named(rule("admissionregistration.k8s.io", resource, "get,patch"), webhook.project);
    grant(changes, values, &format!("crate::webhook::{}::RULES", webhook.module), &[rule])?;
    changes.edit("config/webhook/kustomization.yaml", |_, text| Ok(with_resource(text, "manifests.yaml")))
}
