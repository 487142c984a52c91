//! Decoding with detection of unknown and duplicate fields.

use std::{collections::HashSet, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_ignored::Path;

use super::{AnyObject, Strictness};
use crate::Object;

/// Decodes an object. Strict decoding returns an error for unknown and duplicate fields.
pub(super) fn decode<K: Object>(
    json: &[u8],
    strictness: Strictness,
) -> serde_json::Result<(Box<dyn AnyObject>, Vec<String>)> {
    if strictness == Strictness::Lenient {
        return Ok((Box::new(serde_json::from_slice::<K>(json)?), Vec::new()));
    }
    // Types may reject duplicate fields themselves, without the path, so search for duplicates first.
    let mut findings = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    Duplicates { path: String::new(), found: &mut findings }.deserialize(&mut reader)?;
    reader.end()?;
    // Text again: decoding from a `Value` would compile a second decoder for each type.
    let last_of_each = if findings.is_empty() {
        None
    } else {
        Some(serde_json::to_vec(&serde_json::from_slice::<serde_json::Value>(json)?)?)
    };
    let json = last_of_each.as_deref().unwrap_or(json);
    let mut unknown = |path: Path<'_>| {
        let path = written(&path);
        // A type need not contain `apiVersion` and `kind`.
        if !matches!(path.as_str(), "apiVersion" | "kind") {
            findings.push(format!("unknown field {path:?}"));
        }
    };
    let object: K = serde_ignored::deserialize(&mut serde_json::Deserializer::from_slice(json), &mut unknown)?;
    Ok((Box::new(object), findings))
}

/// Writes a path as Go does: `spec.containers[0].image`.
fn written(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", written(parent)),
        Path::Map { parent, key } => below(&written(parent), key),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => written(parent),
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Scans JSON and collects duplicate fields.
struct Duplicates<'f> {
    path: String,
    found: &'f mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Duplicates<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Scalars have no fields.
macro_rules! scalars {
    ($($visit:ident: $ty:ty;)*) => {$(
        fn $visit<E>(self, _: $ty) -> Result<(), E> {
            Ok(())
        }
    )*};
}

impl<'de> Visitor<'de> for Duplicates<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    scalars! {
        visit_bool: bool;
        visit_i64: i64;
        visit_u64: u64;
        visit_f64: f64;
        visit_str: &str;
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { path, found } = self;
        let mut index = 0;
        while items.next_element_seed(Duplicates { path: format!("{path}[{index}]"), found: &mut *found })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Self { path, found } = self;
        let mut seen = HashSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = below(&path, &key);
            if !seen.insert(key) {
                found.push(format!("duplicate field {path:?}"));
            }
            fields.next_value_seed(Duplicates { path, found: &mut *found })?;
        }
        Ok(())
    }
}
