//! Patches from two states of an object.

use serde_json::{Value, json};

use super::{DiffError, merge_diff};
use crate::{Object, Patch};
#[cfg(feature = "schema")]
use crate::{Resource, schema::Schema};

/// Creates a patch from the changes to an object: clone it, change it, and send the difference.
///
/// ```
/// use windlass_api::{ObjectExt as _, patch::PatchFrom};
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut config = ConfigMap::default();
/// let before = config.clone();
/// config.labels_mut().insert("app".to_owned(), "web".to_owned());
/// let patch = PatchFrom::new(&before).merge(&config)?;
/// assert_eq!(patch.body().to_string(), r#"{"metadata":{"labels":{"app":"web"}}}"#);
/// # Ok::<_, windlass_api::patch::DiffError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is compared before `merge` or `strategic`"]
pub struct PatchFrom<'o, K> {
    before: &'o K,
    lock: Lock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Open,
    Optimistic,
}

impl<'o, K: Object> PatchFrom<'o, K> {
    /// Starts from the object before the change.
    pub const fn new(before: &'o K) -> Self {
        Self { before, lock: Lock::Open }
    }

    /// Restricts the patch to the resource version of the object. If the object has changed, the server answers with a
    /// conflict.
    pub const fn optimistic_lock(mut self) -> Self {
        self.lock = Lock::Optimistic;
        self
    }

    /// Returns a JSON merge patch, for any kind. Lists are replaced as a whole.
    pub fn merge(self, after: &K) -> Result<Patch, DiffError> {
        let patch = merge_diff(&value_of(self.before)?, &value_of(after)?);
        self.locked(patch).map(Patch::Merge)
    }

    /// Returns a strategic merge patch, for built-in kinds. Lists with keys are merged.
    #[cfg(feature = "schema")]
    pub fn strategic(self, after: &K) -> Result<Patch, DiffError>
    where
        K: Resource,
    {
        let gvk = K::api_resource().gvk();
        let schema = Schema::of(&gvk).ok_or_else(|| DiffError::NotBuiltIn { kind: gvk.to_string() })?;
        let patch = super::strategic_diff(&value_of(self.before)?, &value_of(after)?, schema)?;
        self.locked(patch).map(Patch::Strategic)
    }

    fn locked(self, mut patch: Value) -> Result<Value, DiffError> {
        if self.lock == Lock::Optimistic {
            let version = self.before.metadata().resource_version.as_deref().unwrap_or_default();
            if version.is_empty() {
                return Err(DiffError::NoVersion);
            }
            let metadata = patch.as_object_mut().map(|patch| patch.entry("metadata").or_insert_with(|| json!({})));
            if let Some(metadata) = metadata {
                metadata["resourceVersion"] = json!(version);
            }
        }
        Ok(patch)
    }
}

/// Encodes the object without its resource version, which only the server changes. The patch may contain it as a
/// precondition.
fn value_of<K: Object>(object: &K) -> Result<Value, DiffError> {
    let mut value = serde_json::to_value(object).map_err(|error| DiffError::Encode { message: error.to_string() })?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("resourceVersion");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(json: Value) -> Pod {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn patch_has_the_version_only_on_request() {
        let before = pod(json!({"metadata": {"name": "p", "resourceVersion": "7"}}));
        let mut after = before.clone();
        after.metadata.resource_version = Some("9".to_owned());
        after.metadata.generate_name = Some("x".to_owned());
        let patch = PatchFrom::new(&before).merge(&after).unwrap();
        assert_eq!(patch, Patch::Merge(json!({"metadata": {"generateName": "x"}})));
        let patch = PatchFrom::new(&before).optimistic_lock().merge(&before).unwrap();
        assert_eq!(patch, Patch::Merge(json!({"metadata": {"resourceVersion": "7"}})));
        let error = PatchFrom::new(&Pod::default()).optimistic_lock().merge(&after).unwrap_err();
        assert_eq!(error, DiffError::NoVersion);
    }

    #[cfg(feature = "schema")]
    #[test]
    fn built_in_kinds_are_merged_by_their_keys() {
        let with = |image: &str| {
            pod(
                json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": image}, {"name": "b"}]}}),
            )
        };
        let patch = PatchFrom::new(&with("1")).strategic(&with("2")).unwrap();
        assert_eq!(patch.body()["spec"]["containers"], json!([{"image": "2", "name": "a"}]));
        let merge = PatchFrom::new(&with("1")).merge(&with("2")).unwrap();
        assert_eq!(merge.body()["spec"]["containers"].as_array().unwrap().len(), 2);
    }
}
