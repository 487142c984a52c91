//! A hash of what an object, or a part of one, says: to name what is made of it, and to see whether it has changed.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The letters of short forms: no vowels, so no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many letters a short form has: 47 bits.
const SHORT: usize = 10;

/// A hash of what a value says.
///
/// ```
/// use windlass_api::ContentHash;
/// # use windlass_api::k8s_openapi::api::core::v1::PodTemplateSpec;
/// # fn example(template: &PodTemplateSpec, annotation: Option<&str>) -> Result<(), serde_json::Error> {
/// let hash = ContentHash::of(template)?;
/// let name = format!("web-{}", hash.short()); // web-7d4fxz9kqb
/// let is_as_wanted = annotation == Some(&*hash.to_string()); // 64 digits
/// # let _ = (name, is_as_wanted);
/// # Ok(())
/// # }
/// ```
///
/// # What is guaranteed
///
/// - Values that say the same have the same hash: whatever the order of their fields, and whether a field that says nothing
///   is null or left out. So a typed object and the same one as a [`DynamicObject`](crate::DynamicObject) agree, and a type that gets
///   another optional field keeps its hashes.
/// - The hash of a value is the same in every process, on every machine, and in every version of this crate.
///
/// # What is not
///
/// - What a server adds (defaults, above all) is part of what an object says afterwards: hash what is wanted, and compare it
///   with the hash that was written down when it was last applied, not with that of what a server has made of it.
/// - An empty list or map is not the same as none, nor `1` as `1.0`: to the API they need not mean the same.
/// - Short forms can be the same for different values; who names objects after them sees to that with [`salted`](Self::salted).
///
/// Kubernetes' own (`pod-template-hash`, `controller-revision-hash`) are 32 bits over the fields of a Go struct in the order of
/// its declaration, unset ones too: they change with the types, nobody is to compute them, and these are not the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of whatever can be written as JSON. Fails where that cannot be, such as with maps whose keys are no text.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        let mut digest = Sha256::new();
        write(&mut digest, &serde_json::to_value(value)?);
        Ok(Self(digest.finalize().into()))
    }

    /// Another hash of the same value: after the first of several have turned out to be taken. 0 is the hash itself.
    #[must_use]
    pub fn salted(self, collisions: u32) -> Self {
        if collisions == 0 {
            return self;
        }
        Self(Sha256::new().chain_update(self.0).chain_update(collisions.to_be_bytes()).finalize().into())
    }

    /// Ten letters and digits, fit for names and labels, as those in the names of replica sets.
    #[must_use]
    pub fn short(self) -> String {
        let mut rest = self.0.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
        let letters = (0..SHORT).map(|_| {
            let letter = ALPHABET[usize::try_from(rest % 27).unwrap_or_default()];
            rest /= 27;
            char::from(letter)
        });
        letters.collect()
    }
}

/// Writes a value in the one form that it has here: fields in the order of their names, without those that are null.
fn write(digest: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            digest.update(b"{");
            for (name, value) in fields {
                digest.update(Value::from(name.as_str()).to_string());
                digest.update(b":");
                write(digest, value);
                digest.update(b",");
            }
            digest.update(b"}");
        }
        Value::Array(items) => {
            digest.update(b"[");
            for item in items {
                write(digest, item);
                digest.update(b",");
            }
            digest.update(b"]");
        }
        scalar => digest.update(scalar.to_string()),
    }
}

impl fmt::Display for ContentHash {
    /// 64 hexadecimal digits: for annotations, too long for a label.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    fn hash(value: Value) -> ContentHash {
        ContentHash::of(&value).unwrap()
    }

    #[test]
    fn what_says_the_same_has_the_same_hash() {
        let text: Value = serde_json::from_str(r#"{"b": [1, {"y": "z", "x": null}], "a": "t"}"#).unwrap();
        assert_eq!(hash(text), hash(json!({"a": "t", "b": [1, {"y": "z"}], "c": null})));
    }

    #[cfg(feature = "k8s-openapi")]
    #[test]
    fn a_typed_object_and_the_same_one_without_a_type_agree() {
        use k8s_openapi::api::core::v1::ConfigMap;

        let mut typed = ConfigMap::default();
        typed.metadata.name = Some("a".to_owned());
        typed.data = Some([("k".to_owned(), "v".to_owned())].into());
        let dynamic = crate::DynamicObject::from_typed(&typed).unwrap();
        assert_eq!(ContentHash::of(&typed).unwrap(), ContentHash::of(&dynamic).unwrap());
    }

    #[test]
    fn what_says_something_else_has_another_hash() {
        let all = [
            json!({}),
            json!([]),
            json!(null),
            json!(""),
            json!({"a": {}}),
            json!({"a": []}),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": 1.0}),
            json!({"a": true}),
            json!([1, 2]),
            json!([2, 1]),
            json!([[1], 2]),
            json!([[1, 2]]),
            json!([null, 1]),
            json!({"a": "b", "c": "d"}),
            json!({"a": "b\",\"c\":\"d"}),
        ];
        let hashes: HashSet<_> = all.iter().cloned().map(hash).collect();
        assert_eq!(hashes.len(), all.len());
        assert_eq!(hashes.iter().map(|hash| hash.short()).collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn hashes_are_the_same_for_ever() {
        // sha256 of `{"a":[1,],"b":"x",}`
        let known = hash(json!({"b": "x", "a": [1]}));
        assert_eq!(known.to_string(), "5c86aa870775eb164d8dc8eb597cdc5e9aa497ea2e62b2beb7e6b5f14f5ba40c");
        assert_eq!(known.short(), "tn96zvct6g");
        assert_eq!(known.salted(1).short(), "cflhfh6jqs");
        assert_eq!(known.salted(0), known);
        assert_ne!(known.salted(1), known.salted(2));
    }
}
