//! The numbers of watches, by which the work of a write is estimated: each write is sent to all watches of its object.

use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;
use windlass_api::FieldSelector;

use crate::request::{Query, RequestInfo, ResourcePath};

/// Counts the watches of each resource, namespace and object.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchCounts(Arc<Mutex<HashMap<OwnedScope, usize>>>);

/// A watch that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedWatch {
    counts: WatchCounts,
    /// `None` for a watch that most writes are not sent to.
    scope: Option<OwnedScope>,
}

/// The objects of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Scope<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OwnedScope {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl WatchCounts {
    /// Counts a watch.
    pub(crate) fn register(&self, info: &RequestInfo, query: &Query) -> CountedWatch {
        let scope = info.resource.as_ref().filter(|path| !watches_one_node(path, query)).map(|path| {
            let scope = Scope {
                group: &path.group,
                resource: &path.resource,
                namespace: path.namespace.as_deref().unwrap_or_default(),
                name: path.requested_name(),
            };
            scope.to_owned_scope()
        });
        if let Some(scope) = &scope {
            *self.0.lock().entry(scope.clone()).or_default() += 1;
        }
        CountedWatch { counts: self.clone(), scope }
    }

    /// Returns the number of watches that a write to an object can be sent to.
    pub(super) fn interested(&self, path: &ResourcePath) -> usize {
        let counts = self.0.lock();
        if counts.is_empty() {
            return 0;
        }
        let count = |namespace: &str, name: &str| {
            counts
                .get(&Scope { group: &path.group, resource: &path.resource, namespace, name })
                .copied()
                .unwrap_or_default()
        };
        let (namespace, name) = (path.namespace.as_deref().unwrap_or_default(), path.requested_name());
        let in_namespace = if namespace.is_empty() { 0 } else { count(namespace, "") };
        let of_object = if name.is_empty() { 0 } else { count(namespace, name) };
        count("", "") + in_namespace + of_object
    }
}

/// Reports whether a watch selects the pods of one node. The watch cache sends it only their events.
fn watches_one_node(path: &ResourcePath, query: &Query) -> bool {
    path.resource == "pods"
        && query
            .text("fieldSelector")
            .and_then(|text| text.parse::<FieldSelector>().ok())
            .is_some_and(|selector| selector.exact("spec.nodeName").is_some_and(|node| !node.is_empty()))
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let Some(scope) = &self.scope else { return };
        let mut counts = self.counts.0.lock();
        if let Some(count) = counts.get_mut(scope) {
            *count -= 1;
            if *count == 0 {
                counts.remove(scope);
            }
        }
    }
}

impl Scope<'_> {
    fn to_owned_scope(self) -> OwnedScope {
        let Self { group, resource, namespace, name } = self;
        OwnedScope {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl Equivalent<OwnedScope> for Scope<'_> {
    fn equivalent(&self, owned: &OwnedScope) -> bool {
        let OwnedScope { group, resource, namespace, name } = owned;
        *self == Scope { group, resource, namespace, name }
    }
}
