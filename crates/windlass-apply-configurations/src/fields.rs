//! The encoding of configurations. The generated types only list their fields.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserializer, Serialize,
    de::{DeserializeOwned, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::{Map, Value};

/// A type with optional fields.
pub(crate) trait Fields: Default {
    /// The name of the type, for errors.
    const NAME: &'static str;

    /// Reads the value of a field.
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

/// The fields of a configuration that its type does not list, by their names in JSON. Usually, they belong to another
/// minor version of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherFields(Option<Box<Map<String, Value>>>);

impl OtherFields {
    /// Returns the value of a field; `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.as_ref()?.get(name)
    }

    /// Sets a field.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.get_or_insert_default().insert(name.into(), value.into());
    }

    pub(crate) fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        if let Some(value) = map.next_value::<Option<Value>>()? {
            self.set(name, value);
        }
        Ok(())
    }

    pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.iter().flat_map(|fields| fields.iter()).try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

/// Reads a configuration from a map.
pub(crate) fn deserialize<'de, T: Fields, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct OfMap<T>(PhantomData<T>);

    impl<'de, T: Fields> Visitor<'de> for OfMap<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "struct {}", T::NAME)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let mut read = T::default();
            while let Some(name) = map.next_key::<String>()? {
                read.read(&name, &mut map)?;
            }
            Ok(read)
        }
    }

    deserializer.deserialize_map(OfMap(PhantomData))
}

/// Writes a field if it is set.
pub(crate) fn write<T: Serialize, M: SerializeMap>(
    map: &mut M,
    name: &'static str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, value))
}

/// Converts a type of k8s-openapi to its configuration.
pub(crate) fn from_source<S: Serialize, T: DeserializeOwned>(source: &S) -> T {
    // Types of k8s-openapi have string keys and no custom errors. The configurations have the same fields with the same
    // types, and keep others: the tests of the generated module convert each type.
    let value = serde_json::to_value(source).expect("a type of k8s-openapi is encoded without errors");
    serde_json::from_value(value).expect("a configuration has the field types of its source")
}
