//! A kind and its versions, as the field manager sees them.

use std::{cell::RefCell, collections::BTreeMap, fmt, ops::Deref, sync::Arc};

use serde_json::Value;
use windlass_api::Status;

use super::{compare::Changes, items::BadItem, schema::Type, set::Set};

/// The type of a built-in kind or of a custom resource.
#[derive(Clone, Debug)]
pub(crate) enum TypeHandle {
    BuiltIn(&'static Type),
    Custom(Arc<Type>),
}

/// The target of a write: a kind in the version of the request, with access to its other versions.
pub(crate) struct Kind<'k> {
    /// The apiVersion, such as `apps/v1`.
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) ty: TypeHandle,
    /// The fields that this write resets. Its manager does not own them.
    pub(crate) reset: Set,
    /// The subresource; empty for the object itself.
    pub(crate) subresource: &'k str,
    /// An empty object of the kind.
    pub(crate) empty: Value,
    /// `true` if the types may have changed since managedFields were written.
    pub(crate) is_evolving: bool,
    /// `true` if an update whose managers cannot be computed keeps those of the replaced object, as since 1.37.
    pub(crate) keeps_managers: bool,
    /// Finds the kind in another version. `None` means that a built-in kind has no such version; its managers are
    /// dropped. An error fails an apply; an update then keeps or clears the managedFields.
    pub(crate) other: &'k dyn Fn(&str) -> Result<Option<Version>, Status>,
}

/// Another version of a kind.
pub(crate) struct Version {
    pub(crate) ty: TypeHandle,
    pub(crate) reset: Set,
    /// `true` if conversions can fail because a webhook performs them.
    pub(crate) is_fallible: bool,
    /// Converts from the version of the request; `back` converts to it.
    pub(crate) convert: Convert,
    pub(crate) back: Convert,
}

/// Converts an object between two versions.
pub(crate) type Convert = Box<dyn Fn(Value) -> Result<Value, Status>>;

/// The difference between two states of an object, computed on demand in each requested version.
pub(super) struct Difference<'d> {
    kind: &'d Kind<'d>,
    old: &'d Value,
    new: &'d Value,
    /// The computed differences by version; `None` if the version is not served.
    known: RefCell<BTreeMap<String, Option<Arc<ChangedFields>>>>,
}

/// The reason why two states cannot be compared.
#[derive(Debug)]
pub(super) enum CompareError {
    Items(BadItem),
    /// The states could not be converted.
    Version(Box<Status>),
}

/// The changed fields. Other managers that own them lose them.
#[derive(Debug)]
pub(super) struct ChangedFields {
    pub(super) changes: Changes,
    /// The modified and added fields.
    pub(super) set: Set,
    /// All changed fields.
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
    /// Converts an object between versions. Returns `None` if one of the versions does not exist.
    pub(super) fn convert(&self, value: &Value, from: &str, to: &str) -> Result<Option<Value>, Status> {
        let mut value = value.clone();
        if from == to {
            return Ok(Some(value));
        }
        if from != self.api_version {
            let Some(version) = (self.other)(from)? else { return Ok(None) };
            value = (version.back)(value)?;
        }
        if to != self.api_version {
            let Some(version) = (self.other)(to)? else { return Ok(None) };
            value = (version.convert)(value)?;
        }
        Ok(Some(value))
    }

    /// Returns an error if an object in the version of the request cannot be converted to another version.
    pub(super) fn check_version(&self, api_version: &str, object: &Value) -> Result<(), Status> {
        match (self.other)(api_version)? {
            Some(version) if version.is_fallible => (version.convert)(object.clone()).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the type of a version, or `None` if the version does not exist.
    pub(super) fn type_in(&self, api_version: &str) -> Result<Option<TypeHandle>, Status> {
        if api_version == self.api_version {
            return Ok(Some(self.ty.clone()));
        }
        Ok((self.other)(api_version)?.map(|version| version.ty))
    }

    /// Formats group, version and kind as the real server does: `/v1, Kind=Pod`.
    pub(super) fn format_gvk(&self) -> String {
        show(&self.api_version, &self.kind)
    }
}

impl fmt::Debug for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({}, {:?})", self.format_gvk(), self.subresource)
    }
}

/// Formats an apiVersion and a kind: `/v1, Kind=Pod`. An invalid apiVersion gives an empty version and kind.
pub(crate) fn show(api_version: &str, kind: &str) -> String {
    match api_version.matches('/').count() {
        0 => format!("/{api_version}, Kind={kind}"),
        1 => format!("{api_version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

impl<'d> Difference<'d> {
    /// Creates the difference between two states in the version of the request.
    pub(super) fn new(kind: &'d Kind<'d>, old: &'d Value, new: &'d Value) -> Self {
        Self { kind, old, new, known: RefCell::default() }
    }

    /// Returns the version of the request.
    pub(super) fn own_version(&self) -> &str {
        &self.kind.api_version
    }

    /// Returns the difference in the version of the request.
    pub(super) fn own(&self) -> Result<Arc<ChangedFields>, CompareError> {
        let lost = self.in_version(&self.kind.api_version)?;
        Ok(lost.unwrap_or_else(|| Arc::new(ChangedFields::of(Changes::default()))))
    }

    /// Returns the difference in any version; `None` if the version is not served.
    pub(super) fn in_version(&self, api_version: &str) -> Result<Option<Arc<ChangedFields>>, CompareError> {
        if let Some(lost) = self.known.borrow().get(api_version) {
            return Ok(lost.clone());
        }
        let changes = if api_version == self.kind.api_version {
            let changes = Changes::between_objects(self.old, self.new, &self.kind.ty)?;
            Some(changes.without(&self.kind.reset))
        } else {
            match (self.kind.other)(api_version)? {
                None => None,
                Some(version) => {
                    let (old, new) = ((version.convert)(self.old.clone()), (version.convert)(self.new.clone()));
                    let old = old.map_err(during("failed to convert old object"))?;
                    let new = new.map_err(during("failed to convert new object"))?;
                    let changes = Changes::between_objects(&old, &new, &version.ty)?;
                    Some(changes.without(&version.reset))
                }
            }
        };
        let lost = changes.map(ChangedFields::of).map(Arc::new);
        self.known.borrow_mut().insert(api_version.to_owned(), lost.clone());
        Ok(lost)
    }
}

/// Prefixes an error with the step in which it occurred.
pub(super) fn during(step: impl fmt::Display) -> impl FnOnce(Status) -> Status {
    move |mut status| {
        status.message = format!("{step}: {}", status.message);
        status
    }
}

// === impl CompareError ===

impl CompareError {
    pub(super) fn into_status(self) -> Status {
        match self {
            Self::Items(bad) => Status::unclassified(format!("failed to compare objects: {bad}")),
            Self::Version(status) => *status,
        }
    }
}

impl From<BadItem> for CompareError {
    fn from(bad: BadItem) -> Self {
        Self::Items(bad)
    }
}

impl From<Status> for CompareError {
    fn from(status: Status) -> Self {
        Self::Version(Box::new(status))
    }
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items(bad) => bad.fmt(f),
            Self::Version(status) => f.write_str(&status.message),
        }
    }
}

impl ChangedFields {
    fn of(changes: Changes) -> Self {
        let set = changes.set_fields();
        let all = set.union(&changes.removed);
        Self { changes, set, all }
    }
}
