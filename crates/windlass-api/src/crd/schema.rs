//! Structural schemas of types.

use std::{any::type_name, cell::RefCell};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

/// A type with a structural schema, usually from `#[derive(Schema)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no schema",
    note = "for a type of your own, `#[derive(Schema)]`; for another's, say what is written: `#[schema(as = Type)]`, or \
            `#[schema(schemaless)]` for anything"
)]
pub trait Schema {
    /// `true` if fields of this type are optional, as for `Option`.
    const OPTIONAL: bool = false;

    /// Returns the schema. For the parts of a type, call [`schema_of`], which detects recursive types.
    fn schema() -> JSONSchemaProps;
}

thread_local! {
    /// The types whose schemas are being built, outermost first.
    static OPEN: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Returns the schema of a type. The schema of a recursive type is [`unsupported_schema`].
///
/// ```
/// use windlass_api::crd::schema_of;
///
/// let list = schema_of::<Vec<i32>>();
/// assert_eq!(serde_json::to_value(&list)?, serde_json::json!({
///     "type": "array", "items": {"type": "integer", "format": "int32"},
/// }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn schema_of<T: Schema + ?Sized>() -> JSONSchemaProps {
    let name = type_name::<T>();
    if OPEN.with_borrow(|open| open.contains(&name)) {
        return unsupported_schema(format!(
            "{name} contains itself, and a structural schema ends: #[schema(schemaless)] leaves a field open"
        ));
    }
    OPEN.with_borrow_mut(|open| open.push(name));
    let schema = T::schema();
    OPEN.with_borrow_mut(Vec::pop);
    schema
}

/// Returns a placeholder for a schema that cannot exist, with the reason. Servers reject it.
#[must_use]
pub fn unsupported_schema(why: impl Into<String>) -> JSONSchemaProps {
    JSONSchemaProps { ref_path: Some(why.into()), ..JSONSchemaProps::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tree;

    impl Schema for Tree {
        fn schema() -> JSONSchemaProps {
            schema_of::<Vec<Self>>()
        }
    }

    #[test]
    fn recursive_type_is_reported_and_ends() {
        let schema = serde_json::to_value(schema_of::<Tree>()).unwrap();
        assert!(schema["items"]["$ref"].as_str().unwrap().contains("Tree contains itself"), "{schema}");
        // The next schema starts without state.
        assert_eq!(serde_json::to_value(schema_of::<Tree>()).unwrap(), schema);
    }
}
