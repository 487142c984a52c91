//! The definitions of views, from a table with their fields.
//!
//! Methods are inlined, so that a program compiles those that it uses, and this crate compiles none.

/// Defines a view and its accessors.
macro_rules! view {
    ($life:lifetime $source:ident $name:ident $($field:ident $json:literal $type:ty,)*) => {
        #[doc = concat!("A view of an encoded `", stringify!($source), "`.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<$life>(View<$life>);

        #[allow(clippy::should_implement_trait, reason = "accessors have the names of their fields, such as `add`")]
        impl<$life> $name<$life> {
            $(
                #[doc = concat!("Returns the field `", $json, "`.")]
                #[inline]
                #[must_use]
                pub fn $field(self) -> $type {
                    self.0.get($json)
                }
            )*
        }

        impl<$life> FromView<$life> for $name<$life> {
            #[inline]
            fn from_view(view: View<$life>) -> Self {
                Self(if view.is_present() { view.as_object() } else { view })
            }
        }

        impl<$life> std::ops::Deref for $name<$life> {
            type Target = View<$life>;

            #[inline]
            fn deref(&self) -> &View<$life> {
                &self.0
            }
        }

        #[cfg(test)]
        impl<$life> crate::tests::Complete for $name<$life> {
            fn complete() -> serde_json::Value {
                crate::tests::complete(
                    stringify!($name),
                    &[$(($json, <$type as crate::tests::Complete>::complete)),*],
                )
            }

            fn encode(&self) -> serde_json::Value {
                let mut fields = serde_json::Map::new();
                $(if self.0.get::<View<'_>>($json).is_present() {
                    fields.insert($json.to_owned(), crate::tests::Complete::encode(&self.$field()));
                })*
                fields.into()
            }
        }
    };
}

/// Connects views to the types of k8s-openapi.
macro_rules! sources {
    ($module:ident $($path:ident)::+ { $($source:ident $name:ident,)* }) => {
        mod $module {
            use $($path)::+ as types;

            use super::*;

            $(
                impl HasView for types::$source {
                    type Optional<'a> = $name<'a>;
                    type View<'a> = $name<'a>;
                }
            )*

            #[test]
            fn views_of_complete_objects_equal_their_sources() {
                $(crate::tests::check::<types::$source>();)*
            }
        }
    };
    // Values of any shape.
    ($module:ident $($path:ident)::+ any { $($source:ident,)* }) => {
        mod $module {
            use $($path)::+ as types;

            use super::*;

            $(
                impl HasView for types::$source {
                    type Optional<'a> = View<'a>;
                    type View<'a> = View<'a>;
                }
            )*
        }
    };
}
