//! A complete list of objects.

use serde::Deserialize;

use crate::ListMeta;

/// The response to a list request.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound(deserialize = "K: serde::de::DeserializeOwned"))]
pub struct ObjectList<K> {
    /// The metadata of the list: its resource version and, for a page, the continue token.
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
    /// Returns an iterator over the objects.
    pub fn iter(&self) -> std::slice::Iter<'_, K> {
        self.items.iter()
    }

    /// Returns the number of objects in this page.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Reports whether this page is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
