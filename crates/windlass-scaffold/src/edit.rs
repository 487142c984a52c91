//! `windlass edit`: turns parts of a project's deployment on and off.

use std::path::Path;

use minijinja::context;

use crate::{
    Changes, Error, Overwrite,
    kustomization::{List, with, without},
    project::Project,
    templates::{Template, create, templates},
};

/// The kustomization that deploys the whole project.
const DEFAULT: &str = "config/default/kustomization.yaml";

/// The kustomize component that restricts the operator to its namespace.
const NAMESPACED: &[Template] = templates!("edit":
    Scaffold "config/namespaced/kustomization.yaml" from "namespaced.yaml",
);

/// Specifies whether a part is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The part is deployed.
    On,
    /// The part is not deployed; its files are kept.
    Off,
}

/// The command `windlass edit`.
#[derive(Clone, Debug, Default)]
#[must_use = "a command does nothing until it is planned"]
pub struct Edit {
    namespaced: Option<Switch>,
    network_policy: Option<Switch>,
    prometheus: Option<Switch>,
    overwrite: Overwrite,
}

impl Edit {
    /// Restricts the operator and its role to the operator's own namespace.
    pub const fn namespaced(mut self, switch: Switch) -> Self {
        self.namespaced = Some(switch);
        self
    }

    /// Restricts access to the metrics with a NetworkPolicy.
    pub const fn network_policy(mut self, switch: Switch) -> Self {
        self.network_policy = Some(switch);
        self
    }

    /// Deploys a ServiceMonitor for the Prometheus operator.
    pub const fn prometheus(mut self, switch: Switch) -> Self {
        self.prometheus = Some(switch);
        self
    }

    /// Sets whether files that differ are overwritten.
    pub const fn overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Computes the changes to the project in `folder`.
    pub fn plan(&self, folder: &Path) -> Result<Changes, Error> {
        let mut project = Project::of(folder)?;
        let mut changes = Changes::of(folder, self.overwrite);
        if (self.namespaced, self.network_policy, self.prometheus) == (None, None, None) {
            let needs = "nothing to do: set --namespaced, --network-policy, --prometheus or several of them";
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

/// Adds an entry to a list of deployed parts, or removes it.
fn turn(changes: &mut Changes, list: List, entry: &str, switch: Switch) -> Result<(), Error> {
    changes.edit(DEFAULT, |path, text| match switch {
        Switch::On => with(path, text, list, entry),
        Switch::Off => without(path, text, list, entry),
    })
}
