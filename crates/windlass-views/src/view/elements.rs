//! The elements of an object or list, one after the other.

use std::borrow::Cow;

use windlass_protobuf::{Elements as Parts, Node, Reading};

use super::{Document, Place, View};
use crate::json::{Cursor, RawText};

/// The elements of an object or list. Ends at damaged text, which is an error of the document.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a> {
    pub(super) document: &'a Document<'a>,
    /// The position of the object or list.
    pub(super) place: Place<'a>,
    /// `None` after the end.
    pub(super) state: Option<State<'a>>,
}

#[derive(Clone, Copy)]
pub(super) enum State<'a> {
    Json(Cursor<'a>),
    Parts(&'a Reading<'a>, Parts<'a>),
    /// The members of a message, from this number on.
    Members {
        reading: &'a Reading<'a>,
        node: View<'a>,
        next: usize,
    },
}

/// The key of a member.
#[derive(Clone, Copy)]
pub(crate) enum Key<'a> {
    Json(RawText<'a>),
    Protobuf(&'a [u8]),
}

impl<'a> Key<'a> {
    /// Returns the key; `None` if it is not valid.
    pub(crate) fn decoded(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(text) => text.decoded(),
            Self::Protobuf(bytes) => Some(windlass_protobuf::text(bytes)),
        }
    }

    pub(super) fn is(self, other: &str) -> bool {
        match self {
            Self::Json(text) => text.is(other),
            Self::Protobuf(_) => self.decoded().is_some_and(|text| text == other),
        }
    }
}

impl<'a> Elements<'a> {
    /// Returns a property of the next key, and the value.
    pub(crate) fn next_member<T>(&mut self, key: impl FnOnce(Key<'a>) -> T) -> Option<(T, View<'a>)> {
        let member = self.member();
        self.state = self.state.filter(|_| member.is_some());
        member.map(|(text, value)| (key(text), value))
    }

    fn member(&mut self) -> Option<(Key<'a>, View<'a>)> {
        let Self { document, place, state } = self;
        let (document, place) = (*document, *place);
        match state.as_mut()? {
            State::Json(cursor) => {
                let member = document.succeed(place, cursor.next_member()).flatten()?;
                Some((Key::Json(member.key), View::at(document, place.moved(member.value))))
            }
            State::Parts(reading, parts) => {
                let (key, node) = document.understand(place, reading.next_entry(parts)).flatten()?;
                Some((Key::Protobuf(key), View::at(document, Place::Protobuf(reading, node))))
            }
            State::Members { reading, node, next } => {
                let Place::Protobuf(_, Node::Message(message)) = place else { return None };
                for name in reading.names(message).skip(*next) {
                    *next += 1;
                    let value = node.field(name);
                    // Null members are passed here instead of by the caller.
                    if value.is_present() {
                        return Some((Key::Protobuf(name.as_bytes()), value));
                    }
                }
                None
            }
        }
    }

    /// Returns a key, or reports that it is not valid.
    pub(crate) fn checked<T>(&self, key: Option<T>) -> Option<T> {
        if let (None, Some(State::Json(cursor))) = (&key, &self.state) {
            self.document.fail(self.place.moved(cursor.at()), "a key is not valid");
        }
        key
    }

    pub(crate) fn next_item(&mut self) -> Option<View<'a>> {
        let (document, place) = (self.document, self.place);
        let item = match self.state.as_mut()? {
            State::Json(cursor) => {
                let item = document.succeed(place, cursor.next_item()).flatten();
                item.map(|at| View::at(document, place.moved(at)))
            }
            State::Parts(reading, parts) => {
                let item = document.understand(place, reading.next_item(parts)).flatten();
                item.map(|node| View::at(document, Place::Protobuf(reading, node)))
            }
            State::Members { .. } => None,
        };
        self.state = self.state.filter(|_| item.is_some());
        item
    }
}
