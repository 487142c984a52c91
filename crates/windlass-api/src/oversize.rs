//! Objects above the size limit of a reader.

use std::fmt;

use crate::{EventType, Meta};

/// An object that was skipped in a list or watch, because it exceeds the reader's size limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// The position in the response.
    pub place: Place,
    /// The name, namespace, UID and resource version. `None` if the part that was read does not contain them.
    pub meta: Option<Meta>,
    /// The size of the encoded object in bytes.
    pub size: u64,
    /// The size limit in bytes.
    pub limit: usize,
}

/// The position of an object in a response, starting at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The number among the items of a list or of a page.
    Item(u64),
    /// The number among the events of a watch.
    Event(u64, EventType),
}

impl fmt::Display for Oversize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(meta) = &self.meta {
            write!(f, ", {},", meta.key())?;
        }
        write!(f, " has {} bytes, and no more than {} are read of an object", self.size, self.limit)
    }
}

impl std::error::Error for Oversize {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item(number) => write!(f, "item {number} of the list"),
            Self::Event(number, event_type) => write!(f, "event {number} of the watch ({event_type})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_place_and_object_if_known() {
        let meta = Meta::new("default/big".parse().unwrap());
        let place = Place::Event(7, EventType::Modified);
        let mut oversize = Oversize { place, meta: Some(meta), size: 104_857_600, limit: 16_777_216 };
        assert_eq!(
            oversize.to_string(),
            "event 7 of the watch (MODIFIED), default/big, has 104857600 bytes, and no more than 16777216 are read of an object"
        );
        (oversize.place, oversize.meta) = (Place::Item(3), None);
        assert!(oversize.to_string().starts_with("item 3 of the list has 104857600 bytes"));
    }
}
