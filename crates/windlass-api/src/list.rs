//! A list of objects, held whole.

use serde::Deserialize;

use crate::ListMeta;

/// What a list request answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "K: serde::de::DeserializeOwned"))]
pub struct ObjectList<K> {
    /// Version of the list, and where it goes on if it is a page.
    pub metadata: ListMeta,
    /// The objects, in the order of the server.
    pub items: Vec<K>,
}

impl<K> IntoIterator for ObjectList<K> {
    type Item = K;
    type IntoIter = std::vec::IntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'l, K> IntoIterator for &'l ObjectList<K> {
    type Item = &'l K;
    type IntoIter = std::slice::Iter<'l, K>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<K> ObjectList<K> {
    /// The objects by reference.
    pub fn iter(&self) -> std::slice::Iter<'_, K> {
        self.items.iter()
    }

    /// How many objects this page holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether this page holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
