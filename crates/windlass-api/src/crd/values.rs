//! The schemas of types of the standard library and of JSON values.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::{Schema, schema_of};

/// Returns the schema of a type, with a format unless it is empty.
pub(super) fn of_type(name: &str, format: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(name.to_owned()),
        format: (!format.is_empty()).then(|| format.to_owned()),
        ..JSONSchemaProps::default()
    }
}

fn list_of<T: Schema>() -> JSONSchemaProps {
    let items = JSONSchemaPropsOrArray::Schema(Box::new(schema_of::<T>()));
    JSONSchemaProps { items: Some(items), ..of_type("array", "") }
}

/// Returns the schema of a list without duplicates.
fn set_of<T: Schema>() -> JSONSchemaProps {
    JSONSchemaProps { x_kubernetes_list_type: Some("set".to_owned()), ..list_of::<T>() }
}

fn map_of<V: Schema>() -> JSONSchemaProps {
    let values = JSONSchemaPropsOrBool::Schema(Box::new(schema_of::<V>()));
    JSONSchemaProps { additional_properties: Some(values), ..of_type("object", "") }
}

/// Returns the schema of any JSON value.
pub(super) fn anything() -> JSONSchemaProps {
    JSONSchemaProps { x_kubernetes_preserve_unknown_fields: Some(true), ..JSONSchemaProps::default() }
}

macro_rules! plain {
    ($($type:ty: $name:literal, $format:literal $(, $field:ident = $bound:expr)*;)*) => {$(
        impl Schema for $type {
            fn schema() -> JSONSchemaProps {
                JSONSchemaProps { $($field: Some($bound),)* ..of_type($name, $format) }
            }
        }
    )*};
}

// The formats are those that API servers support. Bounds restrict the other types.
plain! {
    bool: "boolean", "";
    String: "string", "";
    str: "string", "";
    char: "string", "", min_length = 1, max_length = 1;
    i8: "integer", "int32", minimum = -128.0, maximum = 127.0;
    i16: "integer", "int32", minimum = -32_768.0, maximum = 32_767.0;
    i32: "integer", "int32";
    i64: "integer", "int64";
    isize: "integer", "int64";
    u8: "integer", "int32", minimum = 0.0, maximum = 255.0;
    u16: "integer", "int32", minimum = 0.0, maximum = 65_535.0;
    u32: "integer", "int64", minimum = 0.0, maximum = 4_294_967_295.0;
    u64: "integer", "int64", minimum = 0.0;
    usize: "integer", "int64", minimum = 0.0;
    f32: "number", "float";
    f64: "number", "double";
    serde_json::Map<String, serde_json::Value>: "object", "", x_kubernetes_preserve_unknown_fields = true;
}

macro_rules! through {
    ($($pointer:ty),*) => {$(
        impl<T: Schema + ?Sized> Schema for $pointer {
            const OPTIONAL: bool = T::OPTIONAL;

            fn schema() -> JSONSchemaProps {
                T::schema()
            }
        }
    )*};
}

through!(&T, Box<T>, Rc<T>, Arc<T>);

impl<T: Schema + ToOwned + ?Sized> Schema for Cow<'_, T> {
    const OPTIONAL: bool = T::OPTIONAL;

    fn schema() -> JSONSchemaProps {
        T::schema()
    }
}

impl<T: Schema> Schema for Option<T> {
    const OPTIONAL: bool = true;

    fn schema() -> JSONSchemaProps {
        T::schema()
    }
}

impl<T: Schema> Schema for Vec<T> {
    fn schema() -> JSONSchemaProps {
        list_of::<T>()
    }
}

impl<T: Schema> Schema for [T] {
    fn schema() -> JSONSchemaProps {
        list_of::<T>()
    }
}

impl<T: Schema> Schema for VecDeque<T> {
    fn schema() -> JSONSchemaProps {
        list_of::<T>()
    }
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    fn schema() -> JSONSchemaProps {
        let length = i64::try_from(N).ok();
        JSONSchemaProps { min_items: length, max_items: length, ..list_of::<T>() }
    }
}

impl<T: Schema> Schema for BTreeSet<T> {
    fn schema() -> JSONSchemaProps {
        set_of::<T>()
    }
}

impl<T: Schema, S> Schema for HashSet<T, S> {
    fn schema() -> JSONSchemaProps {
        set_of::<T>()
    }
}

impl<K, V: Schema> Schema for BTreeMap<K, V> {
    fn schema() -> JSONSchemaProps {
        map_of::<V>()
    }
}

impl<K, V: Schema, S> Schema for HashMap<K, V, S> {
    fn schema() -> JSONSchemaProps {
        map_of::<V>()
    }
}

impl Schema for serde_json::Value {
    fn schema() -> JSONSchemaProps {
        anything()
    }
}
