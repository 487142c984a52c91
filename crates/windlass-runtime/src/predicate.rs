//! Predicates: filters for the events that lead to a reconcile.
//!
//! Predicates receive metadata, and can decode the object; see [`Cached`].

use std::collections::BTreeMap;

use windlass_api::{LabelSelector, Object};
use windlass_cache::Cached;
use windlass_views::HasView;

/// Decides whether an event of a watch leads to keys. The default methods let every event pass.
///
/// Closures over the old and the new state are predicates that filter updates and let every creation and deletion pass.
pub trait Predicate<T: Object>: Send + Sync + 'static {
    /// Decides about an object that was added to the cache.
    fn added(&self, object: &Cached<T>) -> bool {
        let _ = object;
        true
    }

    /// Decides about an object that was updated.
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        let _ = (old, new);
        true
    }

    /// Decides about an object that was deleted, given its last known state.
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

/// The predicate returned by [`generation_changed`].
#[derive(Clone, Copy, Debug)]
pub struct GenerationChanged;

/// The predicate returned by [`labels_changed`].
#[derive(Clone, Copy, Debug)]
pub struct LabelsChanged;

/// The predicate returned by [`annotations_changed`].
#[derive(Clone, Copy, Debug)]
pub struct AnnotationsChanged;

/// The predicate returned by [`labeled`].
#[derive(Clone, Debug)]
pub struct Labeled(LabelSelector);

/// The predicate returned by [`version_changed`].
#[derive(Clone, Copy, Debug)]
pub struct VersionChanged;

/// The predicate returned by [`and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

/// The predicate returned by [`or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// The predicate returned by [`not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<P>(P);

/// Passes updates that change the generation, and so the desired state.
///
/// It drops updates that change only metadata or status, including labels and annotations. It also drops the start of a
/// deletion if the server does not increment the generation for it. Updates of kinds without generations never pass.
#[must_use]
pub fn generation_changed() -> GenerationChanged {
    GenerationChanged
}

/// Passes updates that change labels.
#[must_use]
pub fn labels_changed() -> LabelsChanged {
    LabelsChanged
}

/// Passes updates that change annotations. The annotations are read from the encoded objects, twice per update.
#[must_use]
pub fn annotations_changed() -> AnnotationsChanged {
    AnnotationsChanged
}

/// Passes additions, updates and deletions of objects whose labels match. For updates, the new labels are compared.
#[must_use]
pub fn labeled(selector: LabelSelector) -> Labeled {
    Labeled(selector)
}

/// Passes updates that change the resource version, which excludes resyncs.
#[must_use]
pub fn version_changed() -> VersionChanged {
    VersionChanged
}

/// Passes events that pass both predicates.
#[must_use]
pub fn and<A, B>(a: A, b: B) -> And<A, B> {
    And(a, b)
}

/// Passes events that pass at least one of the predicates.
#[must_use]
pub fn or<A, B>(a: A, b: B) -> Or<A, B> {
    Or(a, b)
}

/// Passes events that do not pass the predicate, including additions and deletions.
#[must_use]
pub fn not<P>(predicate: P) -> Not<P> {
    Not(predicate)
}

/// Returns the predicate of [`Watch::filter_view`](crate::Watch::filter_view).
pub(crate) const fn viewed<T: HasView, F: for<'a> Fn(T::View<'a>) -> bool>(matches: F) -> Viewed<F> {
    Viewed(matches)
}

/// Returns the predicate of [`Watch::filter_view_changes`](crate::Watch::filter_view_changes).
pub(crate) fn view_changed<T: Object + HasView, V: PartialEq>(
    value: impl for<'a> Fn(T::View<'a>) -> V + Send + Sync + 'static,
) -> impl Predicate<T> {
    move |old: &Cached<T>, new: &Cached<T>| match (old.view(&value), new.view(&value)) {
        (Ok(old), Ok(new)) => old != new,
        // The reconciler handles objects that cannot be read.
        _ => true,
    }
}

/// Passes objects that match a function of their view.
pub(crate) struct Viewed<F>(F);

impl<F> Viewed<F> {
    /// Objects that cannot be read pass: the reconciler handles them.
    fn matches<T: HasView>(&self, object: &Cached<T>) -> bool
    where
        F: for<'a> Fn(T::View<'a>) -> bool,
    {
        object.view(&self.0).unwrap_or(true)
    }
}

impl<T, F> Predicate<T> for Viewed<F>
where
    T: Object + HasView,
    F: for<'a> Fn(T::View<'a>) -> bool + Send + Sync + 'static,
{
    fn added(&self, object: &Cached<T>) -> bool {
        self.matches(object)
    }

    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        self.matches(old) || self.matches(new)
    }

    fn deleted(&self, object: &Cached<T>) -> bool {
        self.matches(object)
    }
}

impl<T: Object> Predicate<T> for GenerationChanged {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        old.meta().generation() != new.meta().generation()
    }
}

impl<T: Object> Predicate<T> for LabelsChanged {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        // Servers write labels in the order of their keys. A different order would only cause an extra reconcile.
        old.meta().labels() != new.meta().labels()
    }
}

impl<T: Object> Predicate<T> for AnnotationsChanged {
    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        let annotations = |object: &Cached<T>| object.at::<BTreeMap<String, String>>(&["metadata", "annotations"]);
        match (annotations(old), annotations(new)) {
            (Ok(old), Ok(new)) => old.unwrap_or_default() != new.unwrap_or_default(),
            // The reconciler handles objects that cannot be decoded.
            _ => true,
        }
    }
}

impl Labeled {
    fn matches<T>(&self, object: &Cached<T>) -> bool {
        self.0.matches(|key| object.meta().label(key))
    }
}

impl<T: Object> Predicate<T> for Labeled {
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
