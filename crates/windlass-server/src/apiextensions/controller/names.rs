//! The names of custom resources. Within a group, each name belongs to one CRD.

use std::collections::{BTreeSet, HashMap};

use crate::{apiextensions::crd::Names, codec::go_quote};

/// The accepted names of all CRDs.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    groups: HashMap<String, Group>,
}

/// The names in one group, each with the CRDs that use it. There can be several only if a client wrote the status.
#[derive(Debug, Default)]
struct Group {
    /// Plural, singular and short names.
    resources: HashMap<String, BTreeSet<String>>,
    kinds: HashMap<String, BTreeSet<String>>,
    /// The CRDs that did not get all requested names.
    waiting: BTreeSet<String>,
}

/// A name that another CRD uses: the reason and the message of the condition.
pub(super) type Conflict = (&'static str, String);

impl NameTable {
    /// Replaces the accepted names of a CRD. Returns the CRDs that may now get the released names.
    pub(super) fn replace(&mut self, group: &str, definition: &str, old: &Names, new: &Names) -> Vec<String> {
        if old == new {
            return Vec::new();
        }
        let names = self.groups.entry(group.to_owned()).or_default();
        let (kept, kept_kinds): (BTreeSet<_>, BTreeSet<_>) = (resources(new).collect(), kinds(new).collect());
        let released = release(&mut names.resources, definition, resources(old).filter(|name| !kept.contains(name)))
            | release(&mut names.kinds, definition, kinds(old).filter(|name| !kept_kinds.contains(name)));
        for name in resources(new) {
            names.resources.entry(name.to_owned()).or_default().insert(definition.to_owned());
        }
        for name in kinds(new) {
            names.kinds.entry(name.to_owned()).or_default().insert(definition.to_owned());
        }
        if released { names.waiting.iter().filter(|name| *name != definition).cloned().collect() } else { Vec::new() }
    }

    /// Removes a deleted CRD. Returns the CRDs that may now get its names.
    pub(super) fn remove(&mut self, group: &str, definition: &str, names: &Names) -> Vec<String> {
        let freed = self.replace(group, definition, names, &Names::default());
        if let Some(names) = self.groups.get_mut(group) {
            names.waiting.remove(definition);
            if names.resources.is_empty() && names.kinds.is_empty() && names.waiting.is_empty() {
                self.groups.remove(group);
            }
        }
        freed
    }

    /// Returns the names that a CRD gets of those that it requests, and the conflict if one is taken. For a taken name,
    /// the CRD keeps its previous one.
    pub(super) fn grant(
        &mut self,
        group: &str,
        definition: &str,
        requested: &Names,
        accepted: &Names,
    ) -> (Names, Option<Conflict>) {
        let names = self.groups.entry(group.to_owned()).or_default();
        let is_resource = |name: &str| is_taken(&names.resources, name, definition);
        let is_kind = |name: &str| is_taken(&names.kinds, name, definition);
        let mut granted = accepted.clone();
        let mut conflict = None;
        let in_use = |name: &str| format!("{} is already in use", go_quote(name));
        let mut grant = |requested: &str, granted: &mut String, taken: bool, reason: &'static str| {
            if requested != granted.as_str() && taken {
                conflict = Some((reason, in_use(requested)));
            } else {
                requested.clone_into(granted);
            }
        };
        grant(&requested.plural, &mut granted.plural, is_resource(&requested.plural), "PluralConflict");
        grant(&requested.singular, &mut granted.singular, is_resource(&requested.singular), "SingularConflict");
        grant(&requested.kind, &mut granted.kind, is_kind(&requested.kind), "KindConflict");
        grant(&requested.list_kind, &mut granted.list_kind, is_kind(&requested.list_kind), "ListKindConflict");
        let held: BTreeSet<&String> = accepted.short_names.iter().collect();
        let new = requested.short_names.iter().filter(|short| !held.contains(short));
        let taken = new.filter(|short| is_resource(short)).map(|short| in_use(short)).collect::<Vec<_>>();
        match &taken[..] {
            [] => granted.short_names.clone_from(&requested.short_names),
            // Conflicts of kinds take precedence over those of short names.
            _ if conflict.as_ref().is_some_and(|(reason, _)| reason.ends_with("KindConflict")) => {}
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
        }
        granted.categories.clone_from(&requested.categories);
        if conflict.is_some() {
            names.waiting.insert(definition.to_owned());
        } else {
            names.waiting.remove(definition);
        }
        (granted, conflict)
    }
}

fn is_taken(names: &HashMap<String, BTreeSet<String>>, name: &str, by: &str) -> bool {
    names.get(name).is_some_and(|users| users.iter().any(|user| user != by))
}

/// Releases names of a CRD. Reports whether it owned one of them.
fn release<'n>(
    names: &mut HashMap<String, BTreeSet<String>>,
    definition: &str,
    released: impl Iterator<Item = &'n str>,
) -> bool {
    let mut any = false;
    for name in released {
        let Some(users) = names.get_mut(name) else { continue };
        any |= users.remove(definition);
        if users.is_empty() {
            names.remove(name);
        }
    }
    any
}

fn resources(names: &Names) -> impl Iterator<Item = &str> {
    let short = names.short_names.iter().map(String::as_str);
    [&*names.plural, &*names.singular].into_iter().chain(short).filter(|name| !name.is_empty())
}

fn kinds(names: &Names) -> impl Iterator<Item = &str> {
    [&*names.kind, &*names.list_kind].into_iter().filter(|name| !name.is_empty())
}
