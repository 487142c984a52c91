//! `windlass edit`: what a project is deployed with, turned on and off.

use std::path::Path;

use minijinja::context;

use crate::{
    Changes, Error, Overwrite,
    kustomization::{List, with, without},
    project::Project,
    templates::{Template, create, templates},
};

/// What all of a project is put together by.
const DEFAULT: &str = "config/default/kustomization.yaml";

/// What keeps the operator in its namespace.
const NAMESPACED: &[Template] = templates!("edit":
    Scaffold "config/namespaced/kustomization.yaml" from "namespaced.yaml",
);

/// Whether something is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// It is.
    On,
    /// It is not; its files stay.
    Off,
}

/// `windlass edit`.
#[derive(Clone, Debug, Default)]
#[must_use = "a command does nothing before it is planned"]
pub struct Edit {
    namespaced: Option<Switch>,
    network_policy: Option<Switch>,
    prometheus: Option<Switch>,
    overwrite: Overwrite,
}

impl Edit {
    /// The operator looks at its own namespace only, and its role counts there only.
    pub const fn namespaced(mut self, switch: Switch) -> Self {
        self.namespaced = Some(switch);
        self
    }

    /// Only who is allowed to reaches the metrics.
    pub const fn network_policy(mut self, switch: Switch) -> Self {
        self.network_policy = Some(switch);
        self
    }

    /// Prometheus' operator is told where the metrics are.
    pub const fn prometheus(mut self, switch: Switch) -> Self {
        self.prometheus = Some(switch);
        self
    }

    /// What to do where a file is there, and is otherwise.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// What it would do to the project in the folder.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut project = Project::of(folder)?;
        let mut changes = Changes::of(folder, self.overwrite);
        if (self.namespaced, self.network_policy, self.prometheus) == (None, None, None) {
            let needs = "nothing is asked for: --namespaced, --network-policy, --prometheus or several of them";
            return Err(Error::Needs { what: "windlass edit".to_owned(), needs: needs.to_owned() });
        }
        if let Some(switch) = self.namespaced {
            if switch == Switch::On {
                project.may_be_namespaced()?;
                create(&mut changes, NAMESPACED, &context! { project => project.project_name })?;
            }
            turn(&mut changes, List::Components, "../namespaced", switch)?;
            project.namespaced = switch == Switch::On;
            project.write(&mut changes)?;
        }
        for (part, switch) in [("../network-policy", self.network_policy), ("../prometheus", self.prometheus)] {
            if let Some(switch) = switch {
                turn(&mut changes, List::Resources, part, switch)?;
            }
        }
        changes.checked()
    }
}

/// Puts an entry into a list of what is deployed, or takes it out.
fn turn(changes: &mut Changes, list: List, entry: &str, switch: Switch) -> Result<(), Error> {
    changes.edit(DEFAULT, |path, text| match switch {
        Switch::On => with(path, text, list, entry),
        Switch::Off => without(path, text, list, entry),
    })
}
