//! Paths of fields, as error messages show them.

use std::fmt;

/// The path of a field, such as `spec.containers[0].name` or `data[key]`. It lives on the stack and is only formatted
/// for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Self>,
    part: Part<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Part<'p> {
    Name(&'p str),
    Index(usize),
    Key(&'p str),
}

impl<'p> Path<'p> {
    /// A top-level field of the object; the name may contain dots.
    pub(crate) const fn new(name: &'p str) -> Self {
        Self { parent: None, part: Part::Name(name) }
    }

    /// A field of the value at this path; the name may contain dots.
    pub(crate) const fn child(&'p self, name: &'p str) -> Self {
        Self { parent: Some(self), part: Part::Name(name) }
    }

    /// An element of the list at this path.
    pub(crate) const fn index(&'p self, index: usize) -> Self {
        Self { parent: Some(self), part: Part::Index(index) }
    }

    /// An entry of the map at this path.
    pub(crate) const fn key(&'p self, key: &'p str) -> Self {
        Self { parent: Some(self), part: Part::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.map(Path::to_string).unwrap_or_default();
        match self.part {
            Part::Name(name) if parent.is_empty() => f.write_str(name),
            Part::Name("") => f.write_str(&parent),
            Part::Name(name) => write!(f, "{parent}.{name}"),
            Part::Index(index) => write!(f, "{parent}[{index}]"),
            Part::Key(key) => write!(f, "{parent}[{key}]"),
        }
    }
}
