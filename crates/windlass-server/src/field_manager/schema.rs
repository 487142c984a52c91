//! Types for merging: which lists have keys, and which objects are atomic.
//!
//! Built-in types come from the recorded OpenAPI schemas, each compiled on first use. Types of custom resources come
//! from the schema in the CustomResourceDefinition. Types without a schema are deduced from the value: objects merge by
//! field, lists are atomic.

use std::{
    collections::HashMap,
    sync::{LazyLock, OnceLock},
};

use parking_lot::RwLock;
use serde_json::Value;

use crate::{kubernetes::KubernetesVersion, object::Tree, schemas};

/// A type, with the forms that its values may have.
#[derive(Debug, Default)]
pub(crate) struct Type {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListType>,
    pub(super) map: Option<MapType>,
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Untyped,
}

/// A list type.
#[derive(Debug)]
pub(super) struct ListType {
    pub(super) kind: ListKind,
    pub(super) element: TypeRef,
    /// Items may omit some of the key fields, but not all. Since 1.34.
    pub(super) partial_keys: bool,
}

/// The identity of list items.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// The list is atomic.
    Atomic,
    /// Items are identified by their value.
    Set,
    /// Items are identified by these key fields.
    Map(Vec<Box<str>>),
}

/// An object type.
#[derive(Debug)]
pub(super) struct MapType {
    /// `true` if the object is replaced as a whole.
    pub(super) atomic: bool,
    fields: HashMap<Box<str>, FieldType>,
    /// The type of undeclared fields; `None` if they are not allowed.
    other: Option<TypeRef>,
}

#[derive(Debug)]
struct FieldType {
    ty: TypeRef,
    /// The default value, used if the field is part of a key.
    default: Option<Value>,
}

/// A type, or a reference to one.
#[derive(Debug)]
pub(super) enum TypeRef {
    /// A recorded schema.
    Named {
        kubernetes: KubernetesVersion,
        name: String,
        atomic: Option<bool>,
        found: OnceLock<&'static Type>,
    },
    Inline(Box<Type>),
    /// Deduced from the value.
    Deduced,
    /// Deduced from the value, which is atomic.
    Opaque,
}

/// The schema of the metadata of every API object.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the type of a built-in kind.
pub(crate) fn built_in(kubernetes: KubernetesVersion, group: &str, version: &str, kind: &str) -> &'static Type {
    let name = schemas::of(kubernetes).of_kind(group, version, kind);
    name.map_or_else(|| &*DEDUCED, |name| named(kubernetes, name, None))
}

/// Compiles the type of a custom resource from its schema.
pub(crate) fn custom(kubernetes: KubernetesVersion, schema: &Value) -> Type {
    Type::compile(kubernetes, schema, false, true)
}

static DEDUCED: LazyLock<Type> = LazyLock::new(|| Type {
    scalar: Some(Scalar::Untyped),
    list: Some(ListType { kind: ListKind::Atomic, element: TypeRef::Opaque, partial_keys: true }),
    map: Some(MapType { atomic: false, fields: HashMap::new(), other: Some(TypeRef::Deduced) }),
});

static OPAQUE: LazyLock<Type> = LazyLock::new(|| Type {
    scalar: Some(Scalar::Untyped),
    list: Some(ListType { kind: ListKind::Atomic, element: TypeRef::Opaque, partial_keys: true }),
    map: Some(MapType { atomic: true, fields: HashMap::new(), other: Some(TypeRef::Opaque) }),
});

/// Returns the compiled form of a recorded schema; `atomic` overrides the schema's own setting.
fn named(kubernetes: KubernetesVersion, name: &str, atomic: Option<bool>) -> &'static Type {
    // The recorded schemas bound the number of types, and types are never freed.
    static TYPES: OnceLock<RwLock<HashMap<(KubernetesVersion, String, Option<bool>), &'static Type>>> = OnceLock::new();
    let types = TYPES.get_or_init(RwLock::default);
    let key = (kubernetes, name.to_owned(), atomic);
    if let Some(ty) = types.read().get(&key) {
        return ty;
    }
    let mut ty = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Type::scalar(Scalar::Untyped),
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => return &OPAQUE,
        name => {
            match schemas::of(kubernetes).schema(name).and_then(|schema| serde_json::from_str::<Value>(schema).ok()) {
                Some(schema) => Type::compile(kubernetes, &schema, false, false),
                None => return &DEDUCED,
            }
        }
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

    /// Compiles a schema. `preserve` keeps unknown fields; `object` marks the schema of an API object.
    fn compile(kubernetes: KubernetesVersion, schema: &Value, preserve: bool, object: bool) -> Self {
        let preserve = preserve || schema.flag(&["x-kubernetes-preserve-unknown-fields"]);
        let object = object || schema.flag(&["x-kubernetes-embedded-resource"]);
        let map = || Some(MapType::compile(kubernetes, schema, preserve, object));
        let list = || Some(ListType::compile(kubernetes, schema, preserve));
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

    /// Reports whether values of this type have only one form.
    fn is_plain(&self) -> bool {
        usize::from(self.scalar.is_some()) + usize::from(self.list.is_some()) + usize::from(self.map.is_some()) == 1
    }

    /// Returns the form of a value if the type allows it. Otherwise returns the type's first form: map, scalar, list.
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

    /// Reports whether the type is an object without a schema.
    pub(super) fn is_deduced_map(&self) -> bool {
        self.map.as_ref().is_some_and(|map| map.fields.is_empty() && matches!(map.other, Some(TypeRef::Deduced)))
    }
}

/// The form of a value.
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
    fn compile(kubernetes: KubernetesVersion, schema: &Value, preserve: bool) -> Self {
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
        let element =
            schema.at(&["items"]).map_or(TypeRef::Opaque, |items| TypeRef::compile(kubernetes, items, preserve));
        Self { kind, element, partial_keys: kubernetes >= KubernetesVersion::V1_34 }
    }

    pub(super) fn is_atomic(&self) -> bool {
        self.kind == ListKind::Atomic
    }
}

impl MapType {
    fn compile(kubernetes: KubernetesVersion, schema: &Value, preserve: bool, object: bool) -> Self {
        let field = |schema: &Value| FieldType {
            ty: TypeRef::compile(kubernetes, schema, preserve),
            default: schema.get("default").filter(|default| !default.is_object()).cloned(),
        };
        let mut fields: HashMap<Box<str>, FieldType> =
            schema.entries(&["properties"]).map(|(name, schema)| (name.as_str().into(), field(schema))).collect();
        if object {
            for name in ["apiVersion", "kind"] {
                let ty = TypeRef::Inline(Box::new(Type::scalar(Scalar::Text)));
                fields.insert(name.into(), FieldType { ty, default: None });
            }
            fields.insert(
                "metadata".into(),
                FieldType { ty: TypeRef::named(kubernetes, OBJECT_META, None), default: None },
            );
        }
        let other = match schema.at(&["additionalProperties"]) {
            None if preserve || fields.is_empty() => Some(TypeRef::Deduced),
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(TypeRef::Deduced),
            Some(schema) => Some(TypeRef::compile(kubernetes, schema, preserve)),
        };
        Self { atomic: schema.text(&["x-kubernetes-map-type"]) == "atomic", fields, other }
    }

    /// Reports whether the schema declares the field.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Returns the type of a field; `None` if the field is not allowed.
    pub(super) fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name).map(|field| field.ty.get()).or_else(|| self.other())
    }

    /// Like [`Self::field`], but deduces the type of a field that is not allowed.
    pub(super) fn field_or_deduced(&self, name: &str) -> &Type {
        self.field(name).unwrap_or(&DEDUCED)
    }

    /// Returns the type of undeclared fields.
    pub(super) fn other(&self) -> Option<&Type> {
        self.other.as_ref().map(TypeRef::get)
    }

    /// Returns the default value of a key field.
    pub(super) fn default(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)?.default.as_ref()
    }
}

impl TypeRef {
    fn named(kubernetes: KubernetesVersion, name: &str, atomic: Option<bool>) -> Self {
        Self::Named { kubernetes, name: name.to_owned(), atomic, found: OnceLock::new() }
    }

    fn compile(kubernetes: KubernetesVersion, schema: &Value, preserve: bool) -> Self {
        let reference = match schema.items(&["allOf"]) {
            [only] => only.text(&["$ref"]),
            _ => "",
        };
        let reference = if reference.is_empty() { schema.text(&["$ref"]) } else { reference };
        if reference.is_empty() {
            return Self::Inline(Box::new(Type::compile(kubernetes, schema, preserve, false)));
        }
        let name = reference.rsplit('/').next().unwrap_or_default();
        let atomic = match schema.text(&["x-kubernetes-map-type"]) {
            "atomic" => Some(true),
            "granular" => Some(false),
            _ => None,
        };
        Self::named(kubernetes, name, atomic)
    }

    pub(super) fn get(&self) -> &Type {
        match self {
            Self::Named { kubernetes, name, atomic, found } => found.get_or_init(|| named(*kubernetes, name, *atomic)),
            Self::Inline(ty) => ty,
            Self::Deduced => &DEDUCED,
            Self::Opaque => &OPAQUE,
        }
    }
}
