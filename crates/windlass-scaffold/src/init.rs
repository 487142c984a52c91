//! `windlass init`: creates an empty project that builds.

use std::path::{Path, PathBuf};

use minijinja::{Value, context};

use crate::{
    Changes, Domain, Error, Overwrite, ProjectName,
    cargo::{Source, with_dependency},
    project::{self, Project},
    templates::{Owner, Template, templates},
};

const FILES: &[Template] = templates!("init":
    User "src/lib.rs",
    User "src/main.rs",
    User "src/api.rs",
    User "src/controller.rs",
    User "src/manifests.rs",
    User "src/bin/manifests.rs",
    User "tests/manifests.rs",
    User "Cargo.toml",
    User "README.md",
    Scaffold "rustfmt.toml",
    Scaffold "deny.toml",
    Scaffold "Dockerfile",
    Scaffold ".dockerignore",
    Scaffold ".gitignore",
    Scaffold ".github/workflows/ci.yml",
    User "config/crd/kustomization.yaml",
    User "config/default/kustomization.yaml",
    User "config/manager/kustomization.yaml",
    Scaffold "config/manager/manager.yaml",
    Scaffold "config/manager/metrics_service.yaml",
    Scaffold "config/network-policy/allow-metrics-traffic.yaml",
    User "config/network-policy/kustomization.yaml",
    Scaffold "config/prometheus/kustomization.yaml",
    Scaffold "config/prometheus/monitor.yaml",
    User "config/rbac/kustomization.yaml",
    Scaffold "config/rbac/leader_election_role.yaml",
    Scaffold "config/rbac/metrics_role.yaml",
    Scaffold "config/rbac/service_account.yaml",
    User "config/samples/kustomization.yaml",
);

/// The source of Windlass for a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Windlass {
    /// A release on crates.io, with this version.
    Released(String),
    /// A release in another registry.
    In {
        /// The name of the registry in cargo's configuration.
        registry: String,
        /// The version.
        version: String,
    },
    /// A local copy of Windlass' repository; the path of its root.
    At(PathBuf),
}

impl Default for Windlass {
    fn default() -> Self {
        Self::Released(env!("CARGO_PKG_VERSION").to_owned())
    }
}

impl Windlass {
    /// Uses the release of this version in a registry that cargo's configuration defines.
    #[must_use]
    pub fn in_registry(name: &str) -> Self {
        Self::In { registry: name.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Uses a local copy of the repository. Returns an error if `folder` is not its root.
    pub fn at(folder: &Path) -> Result<Self, Error> {
        let manifest = folder.join(CRATE).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).unwrap_or_default();
        if !text.lines().any(|line| line.trim() == "name = \"windlass\"") {
            return Err(Error::NoWindlass { manifest });
        }
        // The path is stored as given: a relative path stays valid if both folders are moved, or copied to another
        // machine.
        Ok(Self::At(folder.to_owned()))
    }

    /// Returns the keys and values for the dependency on a crate of Windlass in Cargo.toml.
    pub(crate) fn source(&self, name: &str) -> Source {
        match self {
            Self::Released(version) => vec![("version", version.clone())],
            Self::In { registry, version } => vec![("version", version.clone()), ("registry", registry.clone())],
            Self::At(folder) => vec![("path", folder.join("crates").join(name).display().to_string())],
        }
    }

    fn dependency(&self) -> String {
        let fields = self.source("windlass").into_iter().map(|(key, value)| format!("{key} = {value:?}"));
        fields.collect::<Vec<_>>().join(", ")
    }
}

/// The path of the facade crate in Windlass' repository.
const CRATE: &str = "crates/windlass";

/// The command `windlass init`.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing until it is planned"]
pub struct Init {
    domain: Domain,
    name: ProjectName,
    /// Defaults to the release of this version.
    windlass: Option<Windlass>,
    overwrite: Overwrite,
}

impl Init {
    /// Creates the command for a project whose groups end in `domain`.
    pub fn new(domain: &str, project_name: &str) -> Result<Self, Error> {
        Ok(Self {
            domain: Domain::new(domain)?,
            name: ProjectName::new(project_name)?,
            windlass: None,
            overwrite: Overwrite::Never,
        })
    }

    /// Sets the source of Windlass. Defaults to the release of this version. If an existing project is overwritten, its
    /// Cargo.toml is changed.
    pub fn windlass(mut self, windlass: Windlass) -> Self {
        self.windlass = Some(windlass);
        self
    }

    /// Sets whether an existing project and existing files are overwritten. Sources, and files that other commands
    /// extend, are kept if they were changed.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Computes the changes to `folder`.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let existing = Project::find(folder)?;
        if let (Some(project), Overwrite::Never) = (&existing, self.overwrite) {
            return Err(Error::Initialized { path: folder.join(project::FILE), project: project.project_name.clone() });
        }
        let mut project = Project::new(self.domain.as_str(), self.name.as_str());
        let mut before = None;
        if let Some(existing) = existing {
            if existing.domain != project.domain && !existing.resources.is_empty() {
                let what = format!("the domain {}", project.domain);
                let needs = format!(
                    "the project has kinds of {}, and types and manifests contain this domain",
                    existing.domain
                );
                return Err(Error::Needs { what, needs });
            }
            before = Some(self.values(&existing));
            (project.resources, project.namespaced) = (existing.resources, existing.namespaced);
        }
        let mut changes = Changes::of(folder, self.overwrite);
        project.write(&mut changes)?;
        let values = self.values(&project);
        for template in FILES {
            let (path, text) = template.render(&values)?;
            if template.owner == Owner::Scaffold || self.overwrite == Overwrite::Never {
                changes.create(path, text)?;
                continue;
            }
            // An unchanged file can be replaced.
            let written = before.as_ref().map(|before| template.render(before)).transpose()?;
            match (changes.text(&path)?, written) {
                (Some(existing), Some((_, written))) if existing == written => changes.set(path, text)?,
                _ => changes.create_or_keep(path, text)?,
            }
        }
        if let (Some(windlass), Overwrite::Force) = (&self.windlass, self.overwrite) {
            changes.edit("Cargo.toml", |path, text| {
                with_dependency(path, text, "windlass", &windlass.source("windlass"))
            })?;
        }
        changes.checked()
    }

    /// Returns a project's values for templates.
    fn values(&self, project: &Project) -> Value {
        context! {
            domain => project.domain,
            project => project.project_name,
            krate => project.krate(),
            windlass => self.windlass.clone().unwrap_or_default().dependency(),
        }
    }
}
