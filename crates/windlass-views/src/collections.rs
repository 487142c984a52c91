//! Views of lists and maps.

use std::{borrow::Cow, fmt, marker::PhantomData};

use crate::{
    FromView, View,
    view::{Elements, Key},
};

/// A view of a list. An absent list is empty.
pub struct List<'a, T> {
    view: View<'a>,
    items: PhantomData<fn() -> T>,
}

/// A view of a map with string keys. An absent map is empty.
pub struct Map<'a, T> {
    view: View<'a>,
    values: PhantomData<fn() -> T>,
}

/// An iterator over the items of a [`List`].
pub struct Items<'a, T> {
    elements: Option<Elements<'a>>,
    items: PhantomData<fn() -> T>,
}

/// An iterator over the keys and values of a [`Map`], without null values.
pub struct Members<'a, T> {
    elements: Option<Elements<'a>>,
    values: PhantomData<fn() -> T>,
}

// === impl List ===

impl<'a, T: FromView<'a>> List<'a, T> {
    /// Returns an iterator over the items.
    #[must_use]
    pub fn iter(self) -> Items<'a, T> {
        Items { elements: self.view.cursor(), items: PhantomData }
    }

    /// Returns the item at an index. Passes the items before it.
    #[must_use]
    pub fn get(self, index: usize) -> Option<T> {
        self.iter().nth(index)
    }

    /// Returns the first item.
    #[must_use]
    pub fn first(self) -> Option<T> {
        self.iter().next()
    }
}

impl<'a, T> List<'a, T> {
    /// Returns the number of items. Passes all of them.
    #[must_use]
    pub fn len(self) -> usize {
        let Some(mut elements) = self.view.cursor() else { return 0 };
        std::iter::from_fn(|| elements.next_item()).count()
    }

    /// Reports whether there are no items.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.view.cursor().is_none_or(|mut elements| elements.next_item().is_none())
    }

    /// Returns the list as a value of any type.
    #[must_use]
    pub const fn view(self) -> View<'a> {
        self.view
    }
}

impl<'a, T> FromView<'a> for List<'a, T> {
    #[inline]
    fn from_view(view: View<'a>) -> Self {
        Self { view: if view.is_present() { view.list() } else { view }, items: PhantomData }
    }
}

impl<'a, T: FromView<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Items<'a, T> {
        self.iter()
    }
}

impl<'a, T: FromView<'a>> Iterator for Items<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.elements.as_mut()?.next_item().map(T::from_view)
    }

    fn nth(&mut self, index: usize) -> Option<T> {
        let elements = self.elements.as_mut()?;
        for _ in 0..index {
            elements.next_item()?;
        }
        self.next()
    }
}

// === impl Map ===

impl<'a, T: FromView<'a>> Map<'a, T> {
    /// Returns the value of a key; `None` if it is absent or null.
    #[must_use]
    pub fn get(self, key: &str) -> Option<T> {
        let value = self.view.entry(key);
        value.is_present().then(|| T::from_view(value))
    }

    /// Returns an iterator over the keys and values, in their order in the text.
    #[must_use]
    pub fn iter(self) -> Members<'a, T> {
        Members { elements: self.view.cursor(), values: PhantomData }
    }
}

impl<'a, T> Map<'a, T> {
    /// Reports whether the key has a value other than null.
    #[must_use]
    pub fn contains_key(self, key: &str) -> bool {
        self.view.entry(key).is_present()
    }

    /// Returns the number of keys, duplicates included. Passes all of them.
    #[must_use]
    pub fn len(self) -> usize {
        Members::<View<'a>> { elements: self.view.cursor(), values: PhantomData }.count()
    }

    /// Reports whether there are no keys.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the map as a value of any type.
    #[must_use]
    pub const fn view(self) -> View<'a> {
        self.view
    }
}

impl<'a, T> FromView<'a> for Map<'a, T> {
    #[inline]
    fn from_view(view: View<'a>) -> Self {
        Self { view: if view.is_present() { view.as_object() } else { view }, values: PhantomData }
    }
}

impl<'a, T: FromView<'a>> IntoIterator for Map<'a, T> {
    type Item = (Cow<'a, str>, T);
    type IntoIter = Members<'a, T>;

    fn into_iter(self) -> Members<'a, T> {
        self.iter()
    }
}

impl<'a, T: FromView<'a>> Iterator for Members<'a, T> {
    type Item = (Cow<'a, str>, T);

    fn next(&mut self) -> Option<Self::Item> {
        let elements = self.elements.as_mut()?;
        loop {
            let (key, value) = elements.next_member(Key::decoded)?;
            // A key that is not valid is an error of the document.
            if let Some(key) = elements.checked(key)
                && value.is_present()
            {
                return Some((key, T::from_view(value)));
            }
        }
    }
}

// Implemented by hand because a derive would require the same trait of `T`.

macro_rules! copied {
    ($($name:ident $label:literal)*) => {$(
        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple($label).field(&self.view).finish()
            }
        }
    )*};
}

copied! { List "List" Map "Map" }

macro_rules! iterators {
    ($($name:ident $label:literal)*) => {$(
        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($label).finish_non_exhaustive()
            }
        }
    )*};
}

iterators! { Items "Items" Members "Members" }
