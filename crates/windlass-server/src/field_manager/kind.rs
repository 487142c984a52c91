//! A kind of objects in its versions, as far as ownership goes.

use std::{cell::RefCell, fmt, ops::Deref, sync::Arc};

use serde_json::Value;

use super::{compare::Changes, items::BadItem, schema::Type, set::Set};

/// A type, of a built-in kind or of a custom resource.
#[derive(Clone, Debug)]
pub(crate) enum TypeHandle {
    BuiltIn(&'static Type),
    Custom(Arc<Type>),
}

/// What a write is about: a kind in the version of the request, and the way to its other versions.
pub(crate) struct Kind<'k> {
    /// `apps/v1`
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) ty: TypeHandle,
    /// What this sort of write does not change, and so does not own.
    pub(crate) reset: Set,
    /// Empty for the object itself.
    pub(crate) subresource: &'k str,
    /// An object without content.
    pub(crate) empty: Value,
    /// The kind in another version; none: it is not served.
    pub(crate) other: &'k dyn Fn(&str) -> Option<Version>,
}

/// Another version of a kind.
pub(crate) struct Version {
    pub(crate) ty: TypeHandle,
    pub(crate) reset: Set,
    /// From the version of the request, and back to it.
    pub(crate) convert: Convert,
    pub(crate) back: Convert,
}

/// Makes an object of one version one of another.
pub(crate) type Convert = Box<dyn Fn(Value) -> Value>;

/// How two states of an object differ, in each version that anybody asks for.
pub(super) struct Difference<'d> {
    kind: &'d Kind<'d>,
    old: &'d Value,
    new: &'d Value,
    /// None: the version is not served.
    known: RefCell<Vec<(String, Option<Arc<Lost>>)>>,
}

/// The fields that differ, as somebody sees it who owned them.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) changes: Changes,
    /// Modified or added.
    pub(super) set: Set,
    /// All of them.
    pub(super) all: Set,
}

impl Deref for TypeHandle {
    type Target = Type;

    fn deref(&self) -> &Type {
        match self {
            Self::BuiltIn(ty) => ty,
            Self::Custom(ty) => ty,
        }
    }
}

impl Kind<'_> {
    /// An object of one version in another one; none: one of them is not served.
    pub(super) fn convert(&self, value: &Value, from: &str, to: &str) -> Option<Value> {
        if from == to {
            return Some(value.clone());
        }
        let own = if from == self.api_version { value.clone() } else { ((self.other)(from)?.back)(value.clone()) };
        Some(if to == self.api_version { own } else { ((self.other)(to)?.convert)(own) })
    }

    /// The type of a version.
    pub(super) fn type_in(&self, api_version: &str) -> Option<TypeHandle> {
        if api_version == self.api_version {
            return Some(self.ty.clone());
        }
        Some((self.other)(api_version)?.ty)
    }

    /// Group, version and kind as the real server writes them: `/v1, Kind=Pod`.
    pub(super) fn shown(&self) -> String {
        show(&self.api_version, &self.kind)
    }
}

impl fmt::Debug for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({}, {:?})", self.shown(), self.subresource)
    }
}

/// `/v1, Kind=Pod`; an apiVersion that is none leaves nothing of both.
pub(crate) fn show(api_version: &str, kind: &str) -> String {
    match api_version.matches('/').count() {
        0 => format!("/{api_version}, Kind={kind}"),
        1 => format!("{api_version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

impl<'d> Difference<'d> {
    /// Between two states in the version of the request.
    pub(super) fn new(kind: &'d Kind<'d>, old: &'d Value, new: &'d Value) -> Self {
        Self { kind, old, new, known: RefCell::default() }
    }

    /// In the version of the request.
    pub(super) fn own(&self) -> Result<Arc<Lost>, BadItem> {
        let lost = self.in_version(&self.kind.api_version)?;
        Ok(lost.unwrap_or_else(|| Arc::new(Lost::of(Changes::default()))))
    }

    /// In any version; none: it is not served.
    pub(super) fn in_version(&self, api_version: &str) -> Result<Option<Arc<Lost>>, BadItem> {
        if let Some((_, lost)) = self.known.borrow().iter().find(|(known, _)| known == api_version) {
            return Ok(lost.clone());
        }
        let changes = if api_version == self.kind.api_version {
            let changes = Changes::between_objects(self.old, self.new, &self.kind.ty)?;
            Some(changes.without(&self.kind.reset))
        } else {
            match (self.kind.other)(api_version) {
                None => None,
                Some(version) => {
                    let (old, new) = ((version.convert)(self.old.clone()), (version.convert)(self.new.clone()));
                    let changes = Changes::between_objects(&old, &new, &version.ty)?;
                    Some(changes.without(&version.reset))
                }
            }
        };
        let lost = changes.map(Lost::of).map(Arc::new);
        self.known.borrow_mut().push((api_version.to_owned(), lost.clone()));
        Ok(lost)
    }
}

impl Lost {
    fn of(changes: Changes) -> Self {
        let set = changes.set_fields();
        let all = set.union(&changes.removed);
        Self { changes, set, all }
    }
}
