//! The effect of an update on the ownership of fields.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_api::Status;

use super::{
    apply::Conflict,
    kind::{CompareError, Difference, Kind},
    managers::{Fields, Identity, Manager, Managers},
};

/// Returns the managers after an update. The updating manager owns the fields that it has changed, and removed fields
/// lose all owners.
pub(super) fn updated(
    kind: &Kind<'_>,
    old: &Value,
    new: &Value,
    mut managers: Managers,
    manager: &str,
    now: &str,
) -> Result<Managers, CompareError> {
    let difference = Difference::new(kind, old, new);
    let own = difference.own()?;
    let identity = Identity::update(manager, &kind.api_version, kind.subresource);
    managers.remove_changed(&identity, &difference)?;
    match managers.find_mut(&identity) {
        Some(known) => {
            if known.fields.intersects(&own.changes.removed) || !known.fields.contains(&own.set) {
                known.fields = Fields::Set(known.fields.to_set().difference(&own.changes.removed).union(&own.set));
            }
            if !own.set.is_empty() {
                known.time = Some(now.to_owned());
            }
        }
        None if own.set.is_empty() => {}
        None => managers.put(Manager {
            identity,
            api_version: kind.api_version.clone(),
            fields: Fields::Set(own.set.clone()),
            time: Some(now.to_owned()),
        }),
    }
    managers.drop_empty();
    managers.merge_oldest_updaters();
    Ok(managers)
}

impl Managers {
    /// Removes the changed and removed fields from all managers except `but`. Managers of versions that are no longer
    /// served are dropped.
    pub(super) fn remove_changed(&mut self, but: &Identity, difference: &Difference<'_>) -> Result<(), CompareError> {
        self.request_conversions(difference)?;
        let mut kept = Vec::with_capacity(self.entries.len());
        for mut manager in std::mem::take(&mut self.entries) {
            if manager.identity != *but {
                let Some(lost) = difference.in_version(&manager.api_version)? else { continue };
                if manager.fields.intersects(&lost.all) {
                    manager.fields = Fields::Set(manager.fields.to_set().difference(&lost.all));
                }
            }
            kept.push(manager);
        }
        self.entries = kept;
        Ok(())
    }

    /// Returns the fields that a write would take from other managers, in the order of the error message.
    pub(super) fn conflicts(&self, but: &Identity, difference: &Difference<'_>) -> Result<Vec<Conflict>, CompareError> {
        let mut managers: Vec<&Manager> = self.entries.iter().filter(|manager| manager.identity != *but).collect();
        managers.sort_by(|a, b| a.identity.rank().cmp(&b.identity.rank()));
        self.request_conversions(difference)?;
        let mut conflicts = Vec::new();
        for manager in managers {
            let Some(lost) = difference.in_version(&manager.api_version)? else { continue };
            if manager.fields.intersects(&lost.set) {
                let fields = manager.fields.to_set().intersection(&lost.set);
                let conflict = |path| Conflict { manager: manager.identity.clone(), path };
                conflicts.extend(fields.paths().into_iter().map(conflict));
            }
        }
        Ok(conflicts)
    }

    /// Returns an error if the object cannot be converted to the version of one of its managers.
    pub(super) fn check_versions(&self, kind: &Kind<'_>, object: &Value) -> Result<(), Status> {
        let versions = self.other_versions(&kind.api_version).into_iter();
        // Tries all versions, so that one pass requests all necessary conversions.
        versions.map(|version| kind.check_version(version, object)).fold(Ok(()), Result::and)
    }

    /// Compares in all versions at once, also to request all conversions in one pass.
    fn request_conversions(&self, difference: &Difference<'_>) -> Result<(), CompareError> {
        let versions = self.other_versions(difference.own_version()).into_iter();
        versions.map(|version| difference.in_version(version).map(drop)).fold(Ok(()), Result::and)
    }

    fn other_versions(&self, own: &str) -> BTreeSet<&str> {
        self.entries.iter().map(|manager| manager.api_version.as_str()).filter(|version| *version != own).collect()
    }

    /// Adjusts fields that were stored under older types.
    pub(super) fn reconcile(&mut self, kind: &Kind<'_>) -> Result<(), Status> {
        for manager in &mut self.entries {
            let Some(ty) = kind.type_in(&manager.api_version)? else { continue };
            let mut set = manager.fields.to_set();
            let before = set.clone();
            set.reconcile(&ty);
            if set != before {
                manager.fields = Fields::Set(set);
            }
        }
        Ok(())
    }
}
