//! Which events are worth a reconcile.
//!
//! Predicates see metadata and, if they ask for it, the decoded object; see [`Cached`].

use std::collections::BTreeMap;

use windlass_api::{LabelSelector, Object};
use windlass_cache::Cached;

/// Decides whether an event of a watch leads to keys. Everything passes unless a method says otherwise.
///
/// Closures over the old and the new state are predicates that let every creation and deletion pass.
pub trait Predicate<T: Object>: Send + Sync + 'static {
    /// The object is new in the cache.
    fn added(&self, object: &Cached<T>) -> bool {
        let _ = object;
        true
    }

    /// The object changed.
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        let _ = (old, new);
        true
    }

    /// The object is gone; this is its last known state.
    fn deleted(&self, object: &Cached<T>) -> bool {
        let _ = object;
        true
    }
}

impl<T: Object, F: Fn(&Cached<T>, &Cached<T>) -> bool + Send + Sync + 'static> Predicate<T> for F {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        self(old, new)
    }
}

/// See [`generation_changed`].
#[derive(Clone, Copy, Debug)]
pub struct GenerationChanged;

/// See [`labels_changed`].
#[derive(Clone, Copy, Debug)]
pub struct LabelsChanged;

/// See [`annotations_changed`].
#[derive(Clone, Copy, Debug)]
pub struct AnnotationsChanged;

/// See [`labelled`].
#[derive(Clone, Debug)]
pub struct Labelled(LabelSelector);

/// See [`version_changed`].
#[derive(Clone, Copy, Debug)]
pub struct VersionChanged;

/// See [`and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

/// See [`or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// See [`not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<P>(P);

/// Updates that change the desired state.
///
/// It hides every change of metadata and status, which includes labels, annotations and the beginning of a deletion of
/// kinds whose servers do not count that as a generation. Kinds without generations never pass.
#[must_use]
pub fn generation_changed() -> GenerationChanged {
    GenerationChanged
}

/// Updates that change labels.
#[must_use]
pub fn labels_changed() -> LabelsChanged {
    LabelsChanged
}

/// Updates that change annotations. They are looked up in the object's text, twice for each update.
#[must_use]
pub fn annotations_changed() -> AnnotationsChanged {
    AnnotationsChanged
}

/// Objects whose labels match, when they are added, changed and deleted; of a change the new ones count.
#[must_use]
pub fn labelled(selector: LabelSelector) -> Labelled {
    Labelled(selector)
}

/// Updates that are changes at all, not resyncs.
#[must_use]
pub fn version_changed() -> VersionChanged {
    VersionChanged
}

/// Both must agree.
#[must_use]
pub fn and<A, B>(a: A, b: B) -> And<A, B> {
    And(a, b)
}

/// One suffices.
#[must_use]
pub fn or<A, B>(a: A, b: B) -> Or<A, B> {
    Or(a, b)
}

/// The opposite, for creations and deletions too.
#[must_use]
pub fn not<P>(predicate: P) -> Not<P> {
    Not(predicate)
}

impl<T: Object> Predicate<T> for GenerationChanged {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        old.meta().generation() != new.meta().generation()
    }
}

impl<T: Object> Predicate<T> for LabelsChanged {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        // Servers write labels in the order of their keys; another order would only cost a reconcile.
        old.meta().labels() != new.meta().labels()
    }
}

impl<T: Object> Predicate<T> for AnnotationsChanged {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        let annotations = |object: &Cached<T>| object.at::<BTreeMap<String, String>>(&["metadata", "annotations"]);
        match (annotations(old), annotations(new)) {
            (Ok(old), Ok(new)) => old.unwrap_or_default() != new.unwrap_or_default(),
            // What cannot be read is for the reconciler to see.
            _ => true,
        }
    }
}

impl Labelled {
    fn matches<T>(&self, object: &Cached<T>) -> bool {
        self.0.matches(|key| object.meta().label(key))
    }
}

impl<T: Object> Predicate<T> for Labelled {
    fn added(&self, object: &Cached<T>) -> bool {
        self.matches(object)
    }

    fn updated(&self, _: &Cached<T>, new: &Cached<T>) -> bool {
        self.matches(new)
    }

    fn deleted(&self, object: &Cached<T>) -> bool {
        self.matches(object)
    }
}

impl<T: Object> Predicate<T> for VersionChanged {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        old.meta().resource_version() != new.meta().resource_version()
    }
}

impl<T: Object, A: Predicate<T>, B: Predicate<T>> Predicate<T> for And<A, B> {
    fn added(&self, object: &Cached<T>) -> bool {
        self.0.added(object) && self.1.added(object)
    }

    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        self.0.updated(old, new) && self.1.updated(old, new)
    }

    fn deleted(&self, object: &Cached<T>) -> bool {
        self.0.deleted(object) && self.1.deleted(object)
    }
}

impl<T: Object, A: Predicate<T>, B: Predicate<T>> Predicate<T> for Or<A, B> {
    fn added(&self, object: &Cached<T>) -> bool {
        self.0.added(object) || self.1.added(object)
    }

    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        self.0.updated(old, new) || self.1.updated(old, new)
    }

    fn deleted(&self, object: &Cached<T>) -> bool {
        self.0.deleted(object) || self.1.deleted(object)
    }
}

impl<T: Object, P: Predicate<T>> Predicate<T> for Not<P> {
    fn added(&self, object: &Cached<T>) -> bool {
        !self.0.added(object)
    }

    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        !self.0.updated(old, new)
    }

    fn deleted(&self, object: &Cached<T>) -> bool {
        !self.0.deleted(object)
    }
}
