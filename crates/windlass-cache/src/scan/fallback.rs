//! The fallback of the scanner, which parses objects with serde.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Returns the object without `metadata.managedFields`, and its `kind`; for objects that [`survey`] cannot read.
///
/// If `metadata` occurs several times, the last one is used and the others are dropped, as in `Meta`.
pub(crate) fn rewrite(object: &[u8]) -> Result<(Vec<u8>, Option<String>), serde_json::Error> {
    let members: Members<'_> = serde_json::from_slice(object)?;
    let metadata = members.0.iter().rposition(|(key, _)| key == "metadata");
    let kind = members.0.iter().rfind(|(key, _)| key == "kind");
    let kind = kind.and_then(|(_, value)| serde_json::from_str(value.get()).ok());
    let mut out = Writer::new(object.len());
    for (at, (key, value)) in members.0.iter().enumerate() {
        if key != "metadata" {
            out.member(key, value.get())?;
        } else if metadata == Some(at) {
            match serde_json::from_str::<Members<'_>>(value.get()) {
                Err(_) => out.member(key, value.get())?,
                Ok(inner) => {
                    let mut kept = Writer::new(value.get().len());
                    for (key, value) in inner.0.iter().filter(|(key, _)| key != "managedFields") {
                        kept.member(key, value.get())?;
                    }
                    out.member(key, &kept.finish())?;
                }
            }
        }
    }
    Ok((out.finish().into_bytes(), kind))
}

/// Finds a value in objects that [`find`] cannot read. Returns the text of the value.
pub(crate) fn find_fallback(object: &[u8], path: &[&str]) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let mut value: &RawValue = serde_json::from_slice(object)?;
    for key in path {
        let Ok(members) = serde_json::from_str::<Members<'_>>(value.get()) else { return Ok(None) };
        match members.0.into_iter().rfind(|(known, _)| known == key) {
            Some((_, found)) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value.get().as_bytes().to_vec()))
}

/// The members of an object in their order, including duplicates.
struct Members<'j>(Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    members.push((Cow::Owned(key), map.next_value::<&RawValue>()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

struct Writer(String);

impl Writer {
    fn new(capacity: usize) -> Self {
        let mut text = String::with_capacity(capacity);
        text.push('{');
        Self(text)
    }

    fn member(&mut self, key: &str, value: &str) -> Result<(), serde_json::Error> {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&serde_json::to_string(key)?);
        self.0.push(':');
        self.0.push_str(value);
        Ok(())
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}
