//! The hub of a kind and its spokes.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde_json::Value;
use windlass_api::{ApiResource, BoxError, GroupKind, GroupVersion, Resource};

use super::{Convert, Converter};

/// The versions of a kind: `H` is the hub, to which the others convert.
///
/// The compiler ensures that every spoke converts in both directions, and that there is one hub.
#[must_use]
pub struct Hub<H> {
    versions: BTreeMap<Cow<'static, str>, Version<H>>,
    /// Spokes of another kind, and duplicate versions.
    pub(crate) misplaced: Vec<ApiResource>,
}

struct Version<H> {
    to_hub: fn(Value) -> Result<H, BoxError>,
    from_hub: fn(H) -> Result<Value, BoxError>,
}

impl<H: Resource> Hub<H> {
    /// Creates a hub without spokes.
    pub fn new() -> Self {
        let version = Version { to_hub: decode::<H>, from_hub: |hub| encode(&hub) };
        Self { versions: BTreeMap::from([(H::api_resource().version, version)]), misplaced: Vec::new() }
    }

    /// Adds a version of the same kind.
    pub fn spoke<S: Convert<H>>(mut self) -> Self {
        let (hub, spoke) = (H::api_resource(), S::api_resource());
        let version = Version {
            to_hub: |object| {
                let (from, to) = (S::api_resource(), H::api_resource());
                decode::<S>(object)?.to_hub().map_err(|error| failed(&from, "to hub version", &to, error))
            },
            from_hub: |object| {
                let (from, to) = (H::api_resource(), S::api_resource());
                encode(&S::from_hub(object).map_err(|error| failed(&to, "from hub version", &from, error))?)
            },
        };
        let same_kind = (&hub.group, &hub.kind) == (&spoke.group, &spoke.kind);
        if !same_kind || self.versions.contains_key(&spoke.version) {
            self.misplaced.push(spoke);
        } else {
            self.versions.insert(spoke.version, version);
        }
        self
    }

    /// Returns the kind of all versions.
    pub(crate) fn kind() -> GroupKind {
        H::api_resource().gvk().group_kind()
    }

    fn version(&self, version: &str) -> Result<&Version<H>, BoxError> {
        self.versions.get(version).ok_or_else(|| {
            let kind = Self::kind();
            format!("no kind {:?} is registered for version {:?}", kind.kind, format!("{}/{version}", kind.group))
                .into()
        })
    }
}

impl<H: Resource> Converter for Hub<H> {
    async fn convert(&self, object: Value, to: &GroupVersion) -> Result<Value, BoxError> {
        let from: GroupVersion = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().parse()?;
        let (from, to) = (self.version(&from.version)?, self.version(&to.version)?);
        (to.from_hub)((from.to_hub)(object)?)
    }
}

impl<H: Resource> Default for Hub<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> fmt::Debug for Hub<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("versions", &self.versions.keys()).finish_non_exhaustive()
    }
}

fn decode<K: Resource>(object: Value) -> Result<K, BoxError> {
    Ok(crate::body::from_value(&object)?)
}

fn encode<K: Resource>(object: &K) -> Result<Value, BoxError> {
    Ok(serde_json::to_value(object)?)
}

fn failed(what: &ApiResource, direction: &str, hub: &ApiResource, error: BoxError) -> BoxError {
    let (what, hub) = (what.gvk(), hub.gvk());
    format!("{what} failed to convert {direction} {hub}: {}", windlass_api::ErrorChain(&*error)).into()
}
