//! What merging has to know of a type: which lists have keys, which objects are one value.
//!
//! Built-in types come from the recorded OpenAPI schemas, each compiled when it is first met; those of custom resources
//! from the schema of the definition. What nothing is said of is deduced from the value: objects by field, lists whole.

use std::{
    collections::HashMap,
    sync::{LazyLock, OnceLock},
};

use parking_lot::RwLock;
use serde_json::Value;

use crate::{openapi, registry::Tree};

/// A type: one or more of the forms that a value may have.
#[derive(Debug, Default)]
pub(crate) struct Type {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListType>,
    pub(super) map: Option<MapType>,
}

/// What a single value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Untyped,
}

/// A list.
#[derive(Debug)]
pub(super) struct ListType {
    pub(super) kind: ListKind,
    pub(super) element: TypeRef,
}

/// What tells the elements of a list apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// Nothing: the list is one value.
    Atomic,
    /// Their value.
    Set,
    /// These fields.
    Map(Vec<Box<str>>),
}

/// An object.
#[derive(Debug)]
pub(super) struct MapType {
    /// It is one value.
    pub(super) atomic: bool,
    fields: HashMap<Box<str>, FieldType>,
    /// Of fields that are not named; none: there must be none.
    other: Option<TypeRef>,
}

#[derive(Debug)]
struct FieldType {
    ty: TypeRef,
    /// Counts where the field is part of a key.
    default: Option<Value>,
}

/// A type, or where it is found.
#[derive(Debug)]
pub(super) enum TypeRef {
    /// One of the recorded schemas.
    Named {
        name: String,
        atomic: Option<bool>,
        found: OnceLock<&'static Type>,
    },
    Inline(Box<Type>),
    /// Whatever the value is.
    Deduced,
    /// Whatever the value is, as one value.
    Opaque,
}

/// The fields of every object of the API, wherever its schema stands.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The type of a built-in kind.
pub(crate) fn built_in(group: &str, version: &str, kind: &str) -> &'static Type {
    openapi::schema_of_kind(group, version, kind).map_or_else(|| &*DEDUCED, |name| named(name, None))
}

/// The type of a custom resource with this schema.
pub(crate) fn custom(schema: &Value) -> Type {
    Type::compile(schema, false, true)
}

static DEDUCED: LazyLock<Type> = LazyLock::new(|| Type {
    scalar: Some(Scalar::Untyped),
    list: Some(ListType { kind: ListKind::Atomic, element: TypeRef::Opaque }),
    map: Some(MapType { atomic: false, fields: HashMap::new(), other: Some(TypeRef::Deduced) }),
});

static OPAQUE: LazyLock<Type> = LazyLock::new(|| Type {
    scalar: Some(Scalar::Untyped),
    list: Some(ListType { kind: ListKind::Atomic, element: TypeRef::Opaque }),
    map: Some(MapType { atomic: true, fields: HashMap::new(), other: Some(TypeRef::Opaque) }),
});

/// A recorded schema, compiled; `atomic` overrides what it says of itself.
fn named(name: &str, atomic: Option<bool>) -> &'static Type {
    // Bounded by the recorded schemas, and kept for the life of the process.
    static TYPES: OnceLock<RwLock<HashMap<(String, Option<bool>), &'static Type>>> = OnceLock::new();
    let types = TYPES.get_or_init(RwLock::default);
    let key = (name.to_owned(), atomic);
    if let Some(ty) = types.read().get(&key) {
        return ty;
    }
    let mut ty = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Type::scalar(Scalar::Untyped),
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => return &OPAQUE,
        name => match openapi::schema(name).and_then(|schema| serde_json::from_str::<Value>(schema).ok()) {
            Some(schema) => Type::compile(&schema, false, false),
            None => return &DEDUCED,
        },
    };
    if let (Some(atomic), Some(map)) = (atomic, &mut ty.map) {
        map.atomic = atomic;
    }
    types.write().entry(key).or_insert_with(|| Box::leak(Box::new(ty)))
}

// === impl Type ===

impl Type {
    fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), ..Self::default() }
    }

    /// `preserve`: unknown fields are kept. `object`: the schema describes an object of the API.
    fn compile(schema: &Value, preserve: bool, object: bool) -> Self {
        let preserve = preserve || schema.flag(&["x-kubernetes-preserve-unknown-fields"]);
        let object = object || schema.flag(&["x-kubernetes-embedded-resource"]);
        let map = || Some(MapType::compile(schema, preserve, object));
        let list = || Some(ListType::compile(schema, preserve));
        match (schema.text(&["type"]), schema.text(&["format"])) {
            ("object", _) => Self { map: map(), ..Self::default() },
            ("array", _) => Self { list: list(), ..Self::default() },
            ("integer" | "number", _) => Self::scalar(Scalar::Numeric),
            ("boolean", _) => Self::scalar(Scalar::Boolean),
            ("string", "" | "byte") => Self::scalar(Scalar::Text),
            ("string", _) => Self::scalar(Scalar::Untyped),
            _ => Self { scalar: Some(Scalar::Untyped), list: list(), map: map() },
        }
    }

    /// Whether a value of this type may be of one form only.
    fn is_plain(&self) -> bool {
        usize::from(self.scalar.is_some()) + usize::from(self.list.is_some()) + usize::from(self.map.is_some()) == 1
    }

    /// The form that the value has, if the type allows it; otherwise the form that is looked at first.
    pub(super) fn form(&self, value: Option<&Value>) -> Form<'_> {
        if !self.is_plain() {
            match (value, &self.scalar, &self.list, &self.map) {
                (Some(Value::Number(_) | Value::String(_) | Value::Bool(_)), Some(scalar), _, _) => {
                    return Form::Scalar(*scalar);
                }
                (Some(Value::Array(_)), _, Some(list), _) => return Form::List(list),
                (Some(Value::Object(_)), _, _, Some(map)) => return Form::Map(map),
                _ => {}
            }
        }
        match (&self.map, self.scalar, &self.list) {
            (Some(map), _, _) => Form::Map(map),
            (None, Some(scalar), _) => Form::Scalar(scalar),
            (None, None, Some(list)) => Form::List(list),
            (None, None, None) => Form::Scalar(Scalar::Untyped),
        }
    }

    /// An object of which nothing is known.
    pub(super) fn is_deduced_map(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.fields.is_empty() && matches!(map.other, Some(TypeRef::Deduced)))
    }
}

/// One form of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form<'t> {
    Scalar(Scalar),
    List(&'t ListType),
    Map(&'t MapType),
}

impl Form<'_> {
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl ListType {
    fn compile(schema: &Value, preserve: bool) -> Self {
        let keys =
            || schema.items(&["x-kubernetes-list-map-keys"]).iter().filter_map(Value::as_str).map(Box::from).collect();
        let kind = match (schema.text(&["x-kubernetes-list-type"]), schema.text(&["x-kubernetes-patch-strategy"])) {
            ("set", _) => ListKind::Set,
            ("map", _) => ListKind::Map(keys()),
            ("", "merge" | "merge,retainKeys") => match schema.text(&["x-kubernetes-patch-merge-key"]) {
                "" => ListKind::Set,
                key => ListKind::Map(vec![key.into()]),
            },
            _ => ListKind::Atomic,
        };
        let element = schema.at(&["items"]).map_or(TypeRef::Opaque, |items| TypeRef::compile(items, preserve));
        Self { kind, element }
    }

    pub(super) fn is_atomic(&self) -> bool {
        self.kind == ListKind::Atomic
    }
}

impl MapType {
    fn compile(schema: &Value, preserve: bool, object: bool) -> Self {
        let field = |schema: &Value| FieldType {
            ty: TypeRef::compile(schema, preserve),
            default: schema.get("default").filter(|default| !default.is_object()).cloned(),
        };
        let mut fields: HashMap<Box<str>, FieldType> =
            schema.entries(&["properties"]).map(|(name, schema)| (name.as_str().into(), field(schema))).collect();
        if object {
            for name in ["apiVersion", "kind"] {
                let ty = TypeRef::Inline(Box::new(Type::scalar(Scalar::Text)));
                fields.insert(name.into(), FieldType { ty, default: None });
            }
            fields.insert("metadata".into(), FieldType { ty: TypeRef::named(OBJECT_META, None), default: None });
        }
        let other = match schema.at(&["additionalProperties"]) {
            None if preserve || fields.is_empty() => Some(TypeRef::Deduced),
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(TypeRef::Deduced),
            Some(schema) => Some(TypeRef::compile(schema, preserve)),
        };
        Self { atomic: schema.text(&["x-kubernetes-map-type"]) == "atomic", fields, other }
    }

    /// Whether the field has a name in the schema.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// The type of a field; none: there must be no such field.
    pub(super) fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name).map(|field| field.ty.get()).or_else(|| self.other())
    }

    /// As [`Self::field`]; a field that must not be there is deduced.
    pub(super) fn field_or_deduced(&self, name: &str) -> &Type {
        self.field(name).unwrap_or(&DEDUCED)
    }

    /// The type of fields without a name in the schema.
    pub(super) fn other(&self) -> Option<&Type> {
        self.other.as_ref().map(TypeRef::get)
    }

    /// What counts as the value of a key's field that is not there.
    pub(super) fn default(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)?.default.as_ref()
    }
}

impl TypeRef {
    fn named(name: &str, atomic: Option<bool>) -> Self {
        Self::Named { name: name.to_owned(), atomic, found: OnceLock::new() }
    }

    fn compile(schema: &Value, preserve: bool) -> Self {
        let reference = match schema.items(&["allOf"]) {
            [only] => only.text(&["$ref"]),
            _ => "",
        };
        let reference = if reference.is_empty() { schema.text(&["$ref"]) } else { reference };
        if reference.is_empty() {
            return Self::Inline(Box::new(Type::compile(schema, preserve, false)));
        }
        let name = reference.rsplit('/').next().unwrap_or_default();
        let atomic = match schema.text(&["x-kubernetes-map-type"]) {
            "atomic" => Some(true),
            "granular" => Some(false),
            _ => None,
        };
        Self::named(name, atomic)
    }

    pub(super) fn get(&self) -> &Type {
        match self {
            Self::Named { name, atomic, found } => found.get_or_init(|| named(name, *atomic)),
            Self::Inline(ty) => ty,
            Self::Deduced => &DEDUCED,
            Self::Opaque => &OPAQUE,
        }
    }
}
