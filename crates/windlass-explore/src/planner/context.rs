//! The facts of the runs without faults that the choice of plans needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::target;
use crate::{
    normal::is_bootstrap,
    plan::Point,
    record::{Actor, Change, ChangeVerb, ObjectName, Record},
};

/// The number of changes with equal content after which they count as periodic.
const PERIODIC: usize = 6;

/// The facts of the runs without faults.
pub(super) struct Context<'r> {
    /// The changes of the first run that are in all runs.
    pub(super) changes: Vec<&'r Change>,
    /// The number of changes of the first run that matter to the program, but are not in all runs.
    pub(super) uncommon: usize,
    /// The watched resources with the namespace of each watch, which is empty for all namespaces.
    watched: BTreeSet<(String, String)>,
    /// The resources that the program reads in a way that allows an answer from a cache.
    stale: BTreeSet<String>,
    /// `true` if the program writes leases, so it has leader election.
    pub(super) has_leases: bool,
    /// The number of updates by object and fields.
    updates: BTreeMap<(&'r ObjectName, &'r [String]), usize>,
}

impl<'r> Context<'r> {
    /// Returns `None` without runs.
    pub(super) fn new(clean: &'r [Record]) -> Option<Self> {
        let (first, others) = clean.split_first()?;
        let mut context = Self {
            changes: Vec::new(),
            uncommon: 0,
            watched: BTreeSet::new(),
            stale: BTreeSet::new(),
            has_leases: false,
            updates: BTreeMap::new(),
        };
        for request in clean.iter().flat_map(|record| &record.requests) {
            let Some(target) = target::parse(&request.target) else { continue };
            let is_write = request.method != "GET" && request.method != "HEAD";
            context.has_leases |= is_write && target.resource == "leases.coordination.k8s.io";
            if target.may_be_stale && !is_write {
                context.stale.insert(target.resource.clone());
            }
            if target.is_watch {
                context.watched.insert((target.resource, target.namespace));
            }
        }
        let points = |record: &'r Record| record.changes.iter().map(|change| &change.point).collect::<BTreeSet<_>>();
        let others: Vec<BTreeSet<&Point>> = others.iter().map(points).collect();
        for change in first.changes.iter().filter(|change| !is_bootstrap(&change.object)) {
            if change.verb == ChangeVerb::Update {
                *context.updates.entry((&change.object, &change.point.fields)).or_default() += 1;
            }
            if others.iter().all(|points| points.contains(&change.point)) {
                context.changes.push(change);
            } else if is_by_program(change) || context.is_watched(change) {
                context.uncommon += 1;
            }
        }
        Some(context)
    }

    /// Returns `true` if the program watches the object of the change.
    pub(super) fn is_watched(&self, change: &Change) -> bool {
        let ObjectName { resource, namespace, .. } = &change.object;
        let has = |namespace: &str| self.watched.contains(&(resource.clone(), namespace.to_owned()));
        has("") || has(namespace)
    }

    /// Returns `true` if reads of the resource can be answered with an earlier state.
    pub(super) fn can_be_stale(&self, resource: &str) -> bool {
        self.stale.contains(resource)
    }

    /// Returns `true` if the read of any watched resource can be answered with an earlier state.
    pub(super) fn has_stale_reads(&self) -> bool {
        self.watched.iter().any(|(resource, _)| self.stale.contains(resource))
    }

    /// Returns `true` if the change is one of many of the same content.
    pub(super) fn is_periodic(&self, change: &Change) -> bool {
        let number = self.updates.get(&(&change.object, change.point.fields.as_slice()));
        change.verb == ChangeVerb::Update && number.is_some_and(|number| *number >= PERIODIC)
    }
}

/// Returns `true` if the program made the change.
pub(super) fn is_by_program(change: &Change) -> bool {
    matches!(change.actor, Actor::Program(_))
}

/// Returns `true` if the later update sets the fields of the earlier one back to their values before it.
pub(super) fn reverts(earlier: &Change, later: &Change) -> bool {
    let (Some(before), Some(after)) = (earlier.before.as_deref(), later.after.as_deref()) else { return false };
    let is_update = earlier.verb == ChangeVerb::Update && later.verb == ChangeVerb::Update;
    let fields = &earlier.point.fields;
    is_update && !fields.is_empty() && fields.iter().all(|path| field(before, path) == field(after, path))
}

/// Returns the field with a path of at most two levels, joined by a dot. The second name may have dots.
fn field<'v>(object: &'v Value, path: &str) -> &'v Value {
    match path.split_once('.') {
        Some((first, second)) => &object[first][second],
        None => &object[path],
    }
}
