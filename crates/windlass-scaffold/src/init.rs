//! `windlass init`: a project that builds, and does nothing yet.

use std::path::{Path, PathBuf};

use minijinja::context;

use crate::{
    Changes, Domain, Error, Overwrite, ProjectName,
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
    Scaffold "config/rbac/role.yaml",
    Scaffold "config/rbac/service_account.yaml",
    User "config/samples/kustomization.yaml",
);

/// Where a project finds Windlass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Windlass {
    /// In the registry, at this version.
    Released(String),
    /// In a folder: the root of Windlass' repository.
    At(PathBuf),
}

impl Default for Windlass {
    fn default() -> Self {
        Self::Released(env!("CARGO_PKG_VERSION").to_owned())
    }
}

impl Windlass {
    /// As a key and a value of Cargo.toml.
    fn dependency(&self) -> String {
        match self {
            Self::Released(version) => format!("version = \"{version}\""),
            Self::At(folder) => format!("path = {:?}", folder.join("crates/windlass").display().to_string()),
        }
    }
}

/// `windlass init`.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing before it is planned"]
pub struct Init {
    domain: Domain,
    name: ProjectName,
    windlass: Windlass,
    overwrite: Overwrite,
}

impl Init {
    /// A project whose groups end in the domain.
    pub fn new(domain: &str, project_name: &str) -> Result<Self, Error> {
        Ok(Self {
            domain: Domain::new(domain)?,
            name: ProjectName::new(project_name)?,
            windlass: Windlass::default(),
            overwrite: Overwrite::Never,
        })
    }

    /// Another Windlass than the released one of this version.
    pub fn windlass(mut self, windlass: Windlass) -> Self {
        self.windlass = windlass;
        self
    }

    /// What to do where a project, or a file, is there. What grows with the project, and the sources, are kept in any case.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// What it would do to the folder.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let there = Project::find(folder)?;
        if let (Some(project), Overwrite::Never) = (&there, self.overwrite) {
            return Err(Error::Initialised { path: folder.join(project::FILE), project: project.project_name.clone() });
        }
        let mut project = Project::new(self.domain.as_str(), self.name.as_str());
        if let Some(there) = there {
            (project.resources, project.namespaced) = (there.resources, there.namespaced);
        }
        let mut changes = Changes::of(folder, self.overwrite);
        project.write(&mut changes)?;
        let values = context! {
            domain => self.domain.as_str(),
            project => self.name.as_str(),
            krate => self.name.krate(),
            windlass => self.windlass.dependency(),
        };
        for template in FILES {
            let (path, text) = template.render(&values)?;
            match (template.owner, self.overwrite) {
                (Owner::User, Overwrite::Force) => changes.create_or_keep(path, text)?,
                _ => changes.create(path, text)?,
            }
        }
        changes.checked()
    }
}
