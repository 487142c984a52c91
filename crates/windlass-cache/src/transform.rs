//! Transforms, which change objects before they are stored.

use std::{fmt, sync::Arc};

use serde_json::Value;
use windlass_api::{BoxError, Object};

/// A change that is applied to each object before it is stored, usually to remove unused fields.
///
/// It runs once for each received object, on the informer's task, before the event queue: handlers and the store see
/// only its result. The object has no managedFields unless they are kept.
///
/// A transform must be fast and deterministic. It must not change the object's identity (name, namespace, UID, resource
/// version). If it does, or fails or panics, the object is skipped. If the cache has the object, its old state is
/// retained until the next list. A deletion is still delivered. Each failure is reported to the error hook.
#[derive(Clone)]
pub struct Transform {
    apply: Arc<ApplyFn>,
}

type ApplyFn = dyn Fn(&[u8]) -> Result<Vec<u8>, BoxError> + Send + Sync;

impl Transform {
    /// Creates a transform of the object's JSON, for any kind.
    ///
    /// ```
    /// use windlass_cache::{InformerOptions, Transform};
    ///
    /// let names_only = Transform::on_json(|object| {
    ///     object.as_object_mut().ok_or("no object")?.remove("data");
    ///     Ok(())
    /// });
    /// let options = InformerOptions::default().transform(names_only);
    /// # drop(options);
    /// ```
    pub fn on_json(change: impl Fn(&mut Value) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        Self::from_fn(move |object| {
            let mut object = serde_json::from_slice(object)?;
            change(&mut object)?;
            Ok(serde_json::to_vec(&object)?)
        })
    }

    /// Creates a transform of the decoded object. This is slow, and fields unknown to `K` are lost. An object that
    /// cannot be decoded as `K` is skipped.
    pub fn on_object<K: Object>(change: impl Fn(&mut K) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        Self::from_fn(move |object| {
            let mut object = serde_json::from_slice::<K>(object)?;
            change(&mut object)?;
            Ok(serde_json::to_vec(&object)?)
        })
    }

    /// Creates a transform that removes these fields, given as JSON pointers: `/data`, `/metadata/annotations`.
    pub fn without<P: Into<String>>(pointers: impl IntoIterator<Item = P>) -> Self {
        let pointers: Vec<String> = pointers.into_iter().map(Into::into).collect();
        Self::on_json(move |object| {
            for pointer in &pointers {
                if let Some((parent, member)) = pointer.rsplit_once('/')
                    && let Some(Value::Object(parent)) = object.pointer_mut(parent)
                {
                    parent.shift_remove(&member.replace("~1", "/").replace("~0", "~"));
                }
            }
            Ok(())
        })
    }

    fn from_fn(apply: impl Fn(&[u8]) -> Result<Vec<u8>, BoxError> + Send + Sync + 'static) -> Self {
        Self { apply: Arc::new(apply) }
    }

    pub(crate) fn apply(&self, object: &[u8]) -> Result<Vec<u8>, BoxError> {
        crate::panics::catch_panic(|| (self.apply)(object)).unwrap_or_else(|panic| Err(panic.into()))
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    const MAP: &[u8] = br#"{"metadata":{"name":"a","annotations":{"a/b":"x","c":"y"}},"data":{"k":"v"},"odd":1}"#;

    fn applied(transform: &Transform) -> String {
        String::from_utf8(transform.apply(MAP).unwrap()).unwrap()
    }

    #[test]
    fn transform_removes_members_by_pointer_if_present() {
        let transform = Transform::without(["/metadata/annotations/a~1b", "/data", "/none/at/all", "/odd/1", ""]);
        assert_eq!(applied(&transform), r#"{"metadata":{"name":"a","annotations":{"c":"y"}},"odd":1}"#);
    }

    #[test]
    fn typed_transform_keeps_fields_of_the_type() {
        let transform = Transform::on_object(|map: &mut ConfigMap| {
            map.data = None;
            map.metadata.annotations = None;
            Ok(())
        });
        let object: Value = serde_json::from_str(&applied(&transform)).unwrap();
        assert_eq!(object["metadata"], serde_json::json!({"name": "a"}));
        assert!(object.get("data").is_none() && object.get("odd").is_none());
    }

    #[test]
    fn a_failure_and_a_panic_are_errors() {
        let fails = Transform::on_json(|_| Err("no".into()));
        let panics = Transform::on_json(|_| panic!("never"));
        assert_eq!(fails.apply(MAP).unwrap_err().to_string(), "no");
        assert_eq!(panics.apply(MAP).unwrap_err().to_string(), "never");
    }
}
