//! Hashes of the content of objects, to derive names from content and to detect changes.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The alphabet of short forms: without vowels, to avoid words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The number of characters in a short form, which encode 47 bits.
const SHORT: usize = 10;

/// A hash of the content of a value.
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
/// - Values with equal content have equal hashes, whatever the order of their fields, and whether an empty field is
///   null or absent. Therefore a typed object and the same object as a [`DynamicObject`](crate::DynamicObject) have
///   equal hashes, and a new optional field in a type does not change existing hashes.
/// - The hash of a value is the same in every process, on every machine, and in every version of this crate.
///
/// # What is not
///
/// - Fields that a server adds, in particular defaults, change the hash. Hash the desired state and compare it with the
///   hash stored at the last apply, not with the hash of the server's object.
/// - An empty list or map differs from an absent one, and `1` differs from `1.0`, because they may have different
///   meanings in the API.
/// - Short forms of different values may collide. If you derive object names from them, resolve collisions with
///   [`salted`](Self::salted).
///
/// These hashes differ from those of Kubernetes (`pod-template-hash`, `controller-revision-hash`). Kubernetes hashes
/// all fields of a Go struct in declaration order, including unset ones, to 32 bits. Its hashes change with the types,
/// and other programs should not compute them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Returns the hash of a value that can be serialized as JSON. Returns an error for other values, such as maps
    /// whose keys are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        let mut digest = Sha256::new();
        write(&mut digest, &serde_json::to_value(value)?);
        Ok(Self(digest.finalize().into()))
    }

    /// Returns another hash of the same value, to use after this number of collisions. 0 returns the hash itself.
    #[must_use]
    pub fn salted(self, collisions: u32) -> Self {
        if collisions == 0 {
            return self;
        }
        Self(Sha256::new().chain_update(self.0).chain_update(collisions.to_be_bytes()).finalize().into())
    }

    /// Returns ten letters and digits that are valid in names and labels, as in the names of ReplicaSets.
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

/// Writes a value in its canonical form: fields ordered by name, without null fields.
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
    /// Writes 64 hexadecimal digits. This form is suitable for annotations, but too long for label values.
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
    fn equal_content_has_the_same_hash() {
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
    fn different_content_has_a_different_hash() {
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
    fn hashes_are_stable() {
        // SHA-256 of `{"a":[1,],"b":"x",}`
        let known = hash(json!({"b": "x", "a": [1]}));
        assert_eq!(known.to_string(), "5c86aa870775eb164d8dc8eb597cdc5e9aa497ea2e62b2beb7e6b5f14f5ba40c");
        assert_eq!(known.short(), "tn96zvct6g");
        assert_eq!(known.salted(1).short(), "cflhfh6jqs");
        assert_eq!(known.salted(0), known);
        assert_ne!(known.salted(1), known.salted(2));
    }
}
