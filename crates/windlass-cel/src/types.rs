//! The types of expressions, and their assignability.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use crate::schema::{Format, Object, Schema, Shape};

/// The static type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Any type. Checked at run time.
    Dyn,
    /// The type of an expression with an error. It is assignable to every type, so that an error is reported only once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// The type of types.
    Meta,
    List(Arc<Self>),
    Map(Arc<(Self, Self)>),
    Optional(Arc<Self>),
    Object(Arc<Object>),
    /// The composed variables, with their types.
    Variables(VariableTypes),
    /// A type of objects that expressions construct, by its name: `Object.spec`, `JSONPatch`.
    Struct(Arc<str>),
    /// A Kubernetes type by its full name.
    Extension(&'static str),
    /// A type parameter. Those of functions have low numbers until they are replaced for a call.
    Param(u32),
}

/// The types of composed variables, in order. Clones share them, and do not see the variables that are added later.
#[derive(Clone, Default)]
pub(crate) struct VariableTypes {
    all: Arc<RwLock<HashMap<String, Vec<(usize, Type)>>>>,
    /// The number of variables.
    count: usize,
}

impl VariableTypes {
    /// Adds a variable. It replaces one with the same name.
    pub(crate) fn insert(&mut self, name: &str, ty: Type) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.entry(name.to_owned()).or_default().push((self.count, ty));
        self.count += 1;
    }

    /// Returns the type of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<Type> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let last = all.get(name)?.iter().rev().find(|(index, _)| *index < self.count);
        last.map(|(_, ty)| ty.clone())
    }
}

#[cfg(test)]
impl VariableTypes {
    /// Returns the number of clones that share the types.
    pub(crate) fn sharers(&self) -> usize {
        Arc::strong_count(&self.all)
    }
}

impl PartialEq for VariableTypes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.all, &other.all) && self.count == other.count
    }
}

impl fmt::Debug for VariableTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VariableTypes").field("count", &self.count).finish_non_exhaustive()
    }
}

/// The types bound to parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings(HashMap<u32, Type>);

impl Type {
    /// Returns the type of a schema's values in expressions.
    pub(crate) fn of(schema: &Schema) -> Self {
        match &schema.shape {
            Shape::Any | Shape::IntOrString => Self::Dyn,
            Shape::Bool => Self::Bool,
            Shape::Int => Self::Int,
            Shape::Double => Self::Double,
            Shape::String(Format::Text) => Self::String,
            Shape::String(Format::Bytes) => Self::Bytes,
            Shape::String(Format::Duration) => Self::Duration,
            Shape::String(Format::Date | Format::DateTime) => Self::Timestamp,
            Shape::List { item, .. } => Self::list(Self::of(item)),
            Shape::Map(entry) => Self::map(Self::String, Self::of(entry)),
            Shape::Object(object) => Self::Object(Arc::clone(object)),
        }
    }

    pub(crate) fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    pub(crate) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(crate) fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// Returns the type that a composed variable with this value declares. Objects are not declared.
    pub(crate) fn declared(&self) -> Self {
        match self {
            Self::List(item) => Self::list(item.declared()),
            Self::Map(entry) => Self::map(entry.0.declared(), entry.1.declared()),
            Self::Null
            | Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::String
            | Self::Bytes
            | Self::Timestamp
            | Self::Duration => self.clone(),
            _ => Self::Dyn,
        }
    }

    pub(crate) fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns the inner type of an optional, and whether it was optional.
    pub(crate) fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    /// Reports whether all values of the type have the size one.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Timestamp | Self::Duration | Self::Null
        )
    }

    /// Replaces the parameters of the type.
    pub(crate) fn with_params(&self, change: &mut dyn FnMut(u32) -> Self) -> Self {
        match self {
            Self::Param(number) => change(*number),
            Self::List(item) => Self::list(item.with_params(change)),
            Self::Map(entry) => Self::map(entry.0.with_params(change), entry.1.with_params(change)),
            Self::Optional(inner) => Self::optional(inner.with_params(change)),
            other => other.clone(),
        }
    }

    /// Reports whether this type is equally or more general than the other.
    fn is_no_more_specific_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Error | Self::Param(_), _) => true,
            (_, Self::Dyn | Self::Error | Self::Param(_)) => false,
            (Self::List(a), Self::List(b)) | (Self::Optional(a), Self::Optional(b)) => a.is_no_more_specific_than(b),
            (Self::Map(a), Self::Map(b)) => a.0.is_no_more_specific_than(&b.0) && a.1.is_no_more_specific_than(&b.1),
            (a, b) => a == b,
        }
    }

    /// Reports whether null is assignable to the type.
    fn takes_null(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Optional(_)
                | Self::Object(_)
                | Self::Variables(_)
                | Self::Struct(_)
                | Self::Extension(_)
                | Self::Duration
                | Self::Timestamp
        )
    }
}

/// Returns the more general of two compatible types.
pub(crate) fn most_general(a: &Type, b: &Type) -> Type {
    if a.is_no_more_specific_than(b) { a.clone() } else { b.clone() }
}

// === impl Bindings ===

impl Bindings {
    /// Reports whether the first types are assignable to the second ones, pair by pair. Binds their parameters if so.
    pub(crate) fn fit<'t>(&mut self, pairs: impl IntoIterator<Item = (&'t Type, &'t Type)>) -> bool {
        let mut tried = self.clone();
        let fits = pairs.into_iter().all(|(from, to)| tried.assign(from, to));
        if fits {
            *self = tried;
        }
        fits
    }

    fn assign(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Param(number) = to {
            match self.bind(from, *number) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(number) = from {
            return self.bind(to, *number).0;
        }
        match (from, to) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => other.takes_null(),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assign(a, b),
            (Type::Map(a), Type::Map(b)) => self.assign(&a.0, &b.0) && self.assign(&a.1, &b.1),
            (a, b) => a == b,
        }
    }

    /// Binds a parameter to a type. Returns whether that is possible, and whether the parameter was already bound.
    fn bind(&mut self, ty: &Type, number: u32) -> (bool, bool) {
        if *ty == Type::Param(number) {
            return (true, true);
        }
        let Some(bound) = self.0.get(&number).cloned() else {
            let free = !self.mentions(ty, number);
            if free {
                self.0.insert(number, ty.clone());
            }
            return (free, false);
        };
        if *ty == bound {
            return (true, true);
        }
        if !self.assign(ty, &bound) {
            return (false, true);
        }
        let general = most_general(ty, &bound);
        if !self.mentions(&general, number) {
            self.0.insert(number, general);
        }
        (true, true)
    }

    fn mentions(&self, ty: &Type, number: u32) -> bool {
        match ty {
            Type::Param(other) if *other == number => true,
            Type::Param(other) => self.0.get(other).is_some_and(|bound| self.mentions(bound, number)),
            Type::List(item) | Type::Optional(item) => self.mentions(item, number),
            Type::Map(entry) => self.mentions(&entry.0, number) || self.mentions(&entry.1, number),
            _ => false,
        }
    }

    /// Replaces the bound parameters of the type. Unbound parameters stay.
    pub(crate) fn resolve(&self, ty: &Type) -> Type {
        ty.with_params(&mut |number| self.0.get(&number).map_or(Type::Param(number), |bound| self.resolve(bound)))
    }

    /// Replaces the bound parameters of the type, and unbound ones by `dyn`.
    pub(crate) fn settle(&self, ty: &Type) -> Type {
        self.resolve(ty).with_params(&mut |_| Type::Dyn)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Meta => f.write_str("type"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Object(object) => f.write_str(object.name()),
            Self::Variables(_) => f.write_str("kubernetes.variables"),
            Self::Struct(name) => f.write_str(name),
            Self::Extension(name) => f.write_str(name),
            Self::Param(number) => write!(f, "_var{number}"),
        }
    }
}
