//! The definitions of configurations, from a table with their fields.
//!
//! Methods are inlined, so that a program compiles those that it uses, and this crate compiles none.

/// Defines the configuration of a kind.
macro_rules! kind {
    ($source:ident $name:ident $($field:ident $json:literal $type:ty,)*) => {
        configuration! { $source $name { metadata } { $($field $json $type,)* } }

        impl $name {
            /// Creates a configuration of the object with this name.
            #[inline]
            pub fn named(name: impl Into<String>) -> Self {
                let mut this = <Self as Default>::default();
                this.metadata.name = Some(name.into());
                this
            }

            /// Sets the namespace.
            #[inline]
            pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
                self.metadata.namespace = Some(namespace.into());
                self
            }

            /// Adds a label.
            #[inline]
            pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.metadata.labels.get_or_insert_default().insert(key.into(), value.into());
                self
            }

            /// Adds an annotation.
            #[inline]
            pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
                self
            }

            /// Sets the controller of the object. Without a namespace, the object gets the owner's.
            #[inline]
            pub fn controlled_by<O: Resource>(mut self, owner: &O) -> Self {
                set_controller(&mut self.metadata, owner);
                self
            }
        }
    };
}

/// Defines the configuration of a part of an object.
macro_rules! part {
    ($source:ident $name:ident $($field:ident $json:literal $type:ty,)*) => {
        configuration! { $source $name { } { $($field $json $type,)* } }

        impl $name {
            /// Creates a configuration without fields.
            #[inline]
            pub fn new() -> Self {
                <Self as Default>::default()
            }
        }
    };
}

/// Adds the builder methods of templates, which contain metadata.
macro_rules! template {
    ($($name:ident)*) => {$(
        impl $name {
            /// Adds a label.
            #[inline]
            pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                let metadata = self.metadata.get_or_insert_default();
                metadata.labels.get_or_insert_default().insert(key.into(), value.into());
                self
            }

            /// Adds an annotation.
            #[inline]
            pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                let metadata = self.metadata.get_or_insert_default();
                metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
                self
            }
        }
    )*};
}

/// Defines a type with optional fields, their setters and their encoding.
macro_rules! configuration {
    ($source:ident $name:ident { $($metadata:ident)? } { $($field:ident $json:literal $type:ty,)* }) => {
        #[doc = concat!(" The fields of a `", stringify!($source), "` that an apply sets and owns. A field that is not set is not sent.")]
        #[derive(Clone, Debug, Default, PartialEq)]
        #[must_use]
        pub struct $name {
            $(
                /// The metadata of the object. Its name is required.
                pub $metadata: ObjectMeta,
            )?
            $(
                #[doc = concat!(" The field `", $json, "`.")]
                pub $field: Option<$type>,
            )*
            /// Fields of other minor versions of Kubernetes.
            pub other: OtherFields,
        }

        #[allow(clippy::should_implement_trait, reason = "setters have the names of their fields, such as `add`")]
        impl $name {
            $(
                #[doc = concat!(" Sets `", $json, "`, which the apply then owns.")]
                #[inline]
                pub fn $field(mut self, value: impl Into<$type>) -> Self {
                    self.$field = Some(value.into());
                    self
                }
            )*

            /// Sets a field that has no method, because it belongs to another minor version of Kubernetes.
            #[inline]
            pub fn other(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
                self.other.set(name, value);
                self
            }
        }

        impl serde::Serialize for $name {
            #[inline]
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $(fields::write(&mut map, stringify!($metadata), Some(&self.$metadata))?;)?
                $(fields::write(&mut map, $json, self.$field.as_ref())?;)*
                self.other.write(&mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            #[inline]
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                fields::deserialize(deserializer)
            }
        }

        impl Fields for $name {
            const NAME: &'static str = stringify!($name);

            #[inline]
            fn read<'de, A: serde::de::MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
                match name {
                    $(
                        stringify!($metadata) => self.$metadata = map.next_value::<Option<_>>()?.unwrap_or_default(),
                        // The client sets them.
                        "apiVersion" | "kind" => drop(map.next_value::<serde::de::IgnoredAny>()?),
                    )?
                    $($json => self.$field = map.next_value()?,)*
                    _ => self.other.read(name, map)?,
                }
                Ok(())
            }
        }

        #[cfg(test)]
        impl crate::tests::Complete for $name {
            fn complete() -> Self {
                Self {
                    $($metadata: crate::tests::Complete::complete(),)?
                    $($field: Some(crate::tests::Complete::complete()),)*
                    other: OtherFields::default(),
                }
            }
        }
    };
}

/// Connects configurations to the types of k8s-openapi.
macro_rules! sources {
    (
        $module:ident $($path:ident)::+
        kinds { $($kind:ident $kind_apply:ident,)* }
        parts { $($part:ident $part_apply:ident,)* }
    ) => {
        mod $module {
            use $($path)::+ as types;

            use super::*;

            $(
                impl ApplyConfiguration for $kind_apply {
                    type Object = types::$kind;

                    #[inline]
                    fn body(&self) -> Body<'_, types::$kind> {
                        Body::of_fields(self)
                    }
                }

                sources! { @from $kind $kind_apply }
            )*

            $(sources! { @from $part $part_apply })*

            #[test]
            fn configurations_with_all_fields_equal_their_sources() {
                $(crate::tests::check_kind::<types::$kind, $kind_apply>();)*
                $(crate::tests::check::<types::$part, $part_apply>();)*
            }
        }
    };
    (@from $source:ident $name:ident) => {
        impl From<types::$source> for $name {
            #[inline]
            fn from(source: types::$source) -> Self {
                fields::from_source(&source)
            }
        }
    };
}
