//! Keys of objects in caches and queues.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    str::FromStr,
    sync::Arc,
};

use thiserror::Error;

/// The namespace and name of an object of any kind. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace. `None` for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// The name, unique within the namespace and kind.
    pub name: Arc<str>,
}

/// The key of an object of kind `K`.
///
/// It refers to an object by name: the object may not exist any more, or may have been recreated.
pub struct ObjectRef<K> {
    key: ObjectKey,
    kind: PhantomData<fn() -> K>,
}

/// The error of a text that is not `name` or `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not an object key: expected NAME or NAMESPACE/NAME")]
pub struct ObjectKeyError(pub String);

// === impl ObjectKey ===

impl ObjectKey {
    /// Creates a key without a namespace.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// Returns this key in a namespace. The empty namespace stands for none.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<Arc<str>>) -> Self {
        let namespace = namespace.into();
        self.namespace = if namespace.is_empty() { None } else { Some(namespace) };
        self
    }
}

impl fmt::Display for ObjectKey {
    /// Writes `namespace/name`, or the name alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl FromStr for ObjectKey {
    type Err = ObjectKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ObjectKeyError(text.to_owned());
        let key = match text.split_once('/') {
            None => Self::new(text),
            Some(("", _)) => return Err(error()),
            Some((namespace, name)) => Self::new(name).within(namespace),
        };
        if key.name.is_empty() || key.name.contains('/') { Err(error()) } else { Ok(key) }
    }
}

// === impl ObjectRef ===

impl<K> ObjectRef<K> {
    /// Creates a reference by name, without a namespace.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        ObjectKey::new(name).into()
    }

    /// Returns this reference in a namespace. The empty namespace stands for none.
    #[must_use]
    pub fn within(self, namespace: impl Into<Arc<str>>) -> Self {
        self.key.within(namespace).into()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.key.name
    }

    /// Returns the namespace; `None` for cluster-scoped objects and if it is not set.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_deref()
    }

    /// Returns the key without the kind.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Converts the reference to a key without the kind.
    #[must_use]
    pub fn into_key(self) -> ObjectKey {
        self.key
    }

    /// Converts the reference to one of another kind with the same key.
    #[must_use]
    pub fn cast<L>(self) -> ObjectRef<L> {
        self.key.into()
    }
}

impl<K> From<ObjectKey> for ObjectRef<K> {
    fn from(key: ObjectKey) -> Self {
        Self { key, kind: PhantomData }
    }
}

impl<K> From<&str> for ObjectRef<K> {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl<K> From<String> for ObjectRef<K> {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

impl<K> From<&Self> for ObjectRef<K> {
    fn from(other: &Self) -> Self {
        other.clone()
    }
}

impl<K> FromStr for ObjectRef<K> {
    type Err = ObjectKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<ObjectKey>().map(Self::from)
    }
}

impl<K> fmt::Display for ObjectRef<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

// Implemented by hand, because a derive would require `K: Clone`.
impl<K> Clone for ObjectRef<K> {
    fn clone(&self) -> Self {
        self.key.clone().into()
    }
}

impl<K> fmt::Debug for ObjectRef<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectRef({})", self.key)
    }
}

impl<K> PartialEq for ObjectRef<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<K> Eq for ObjectRef<K> {}

impl<K> Hash for ObjectRef<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl<K> PartialOrd for ObjectRef<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for ObjectRef<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_and_print_alike() {
        for text in ["a", "ns/a"] {
            assert_eq!(text.parse::<ObjectKey>().unwrap().to_string(), text);
        }
        for odd in ["", "/a", "a/", "a/b/c"] {
            assert!(odd.parse::<ObjectKey>().is_err(), "{odd}");
        }
    }

    #[test]
    fn the_empty_namespace_is_no_namespace() {
        assert_eq!(ObjectRef::<()>::new("a").within("").namespace(), None);
    }
}
