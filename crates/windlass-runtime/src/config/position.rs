//! The position of a field in a YAML text. It is looked up after an error: to decode values with their positions would
//! compile the YAML parser for each type.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_path_to_error::{Path, Segment};
use serde_saphyr::{Options, Spanned};

/// Returns the line and column of the value at `path`, or of the innermost value around it that can be found.
pub(super) fn of(text: &str, options: Options, path: &Path) -> Option<(u64, u64)> {
    let path: Vec<&Segment> = path.iter().collect();
    (0..=path.len()).rev().find_map(|length| {
        let found = serde_saphyr::with_deserializer_from_str_with_options(text, options.clone(), |deserializer| {
            At(&path[..length]).deserialize(deserializer)
        });
        found.ok().flatten()
    })
}

/// Finds the position of the value at a path.
struct At<'a>(&'a [&'a Segment]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<(u64, u64)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => {
                let at = <Spanned<IgnoredAny> as serde::Deserialize>::deserialize(deserializer)?.referenced;
                Ok(Some((at.line(), at.column())))
            }
            [Segment::Map { .. }, ..] => deserializer.deserialize_map(self),
            [Segment::Seq { .. }, ..] => deserializer.deserialize_seq(self),
            _ => Err(D::Error::custom("no such value")),
        }
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<(u64, u64)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            match self.0 {
                [Segment::Map { key }, inner @ ..] if *key == name => found = map.next_value_seed(At(inner))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        for at in 0.. {
            let more = match self.0 {
                [Segment::Seq { index }, inner @ ..] if *index == at => {
                    list.next_element_seed(At(inner))?.map(|position| found = position)
                }
                _ => list.next_element::<IgnoredAny>()?.map(drop),
            };
            if more.is_none() {
                break;
            }
        }
        Ok(found)
    }
}
