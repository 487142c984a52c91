//! Ownership of replicas through the scale subresource.
//!
//! A scale has an entry for each manager that owns the replicas of its object. A write of the scale changes these
//! entries, and the changes are transferred to the object.

use super::{
    element::Element,
    managers::{Fields, Manager, Managers},
    set::Set,
};

/// The paths of a kind's replicas field.
pub(crate) struct ReplicasPaths<'p> {
    /// The version of the request.
    pub(crate) api_version: &'p str,
    /// Returns the path in a version: `None` for an unknown version, empty for a version that is not scalable.
    pub(crate) path: &'p dyn Fn(&str) -> Option<Vec<String>>,
}

const SCALE: &str = "autoscaling/v1";

impl ReplicasPaths<'_> {
    fn find(&self, api_version: &str) -> Option<Vec<Element>> {
        (self.path)(api_version).map(|path| path.iter().map(|name| Element::field(name)).collect())
    }

    /// Returns the managers of the scale.
    pub(super) fn of_scale(&self, parent: &Managers) -> Managers {
        let mut managers = Managers::default();
        for manager in &parent.entries {
            let path = self.find(&manager.api_version).unwrap_or_default();
            if manager.fields.to_set().has(&path) {
                let mut manager = Manager {
                    api_version: SCALE.to_owned(),
                    fields: Fields::Set(Set::of_fields(&[&["spec", "replicas"]])),
                    ..manager.clone()
                };
                // The version is a part of an updater's identity, and the scale has another version.
                if !manager.identity.api_version.is_empty() {
                    SCALE.clone_into(&mut manager.identity.api_version);
                }
                managers.put(manager);
            }
        }
        managers
    }

    /// Returns the managers of the object after a write of its scale, given the managers of the scale.
    pub(super) fn of_object(&self, parent: &Managers, mut scale: Managers) -> Managers {
        let mut managers = Managers::default();
        for manager in &parent.entries {
            let Some(path) = self.find(&manager.api_version) else { continue };
            let set = manager.fields.to_set();
            if path.is_empty() || !set.has(&path) {
                managers.entries.push(manager.clone());
            } else if let Some(at) = scale.entries.iter().position(|other| other.identity == manager.identity) {
                scale.entries.remove(at);
                managers.entries.push(manager.clone());
            } else {
                let set = set.difference(&Set::of(&path));
                if !set.is_empty() {
                    managers.entries.push(Manager { fields: Fields::Set(set), ..manager.clone() });
                }
            }
        }
        let replicas = [Element::field("spec"), Element::field("replicas")];
        let path = self.find(self.api_version).unwrap_or_default();
        for manager in scale.entries.into_iter().filter(|manager| manager.fields.to_set().has(&replicas)) {
            let time = parent.find(&manager.identity).and_then(|known| known.time.clone());
            managers.entries.push(Manager {
                api_version: self.api_version.to_owned(),
                fields: Fields::Set(Set::of(&path)),
                time,
                ..manager
            });
        }
        managers
    }
}
