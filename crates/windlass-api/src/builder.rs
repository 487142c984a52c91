//! Building objects in one expression.

use crate::Object;

/// Builder methods for objects to create and, in particular, to apply, where only the set fields matter.
///
/// ```
/// use windlass_api::ObjectBuilder as _;
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
///
/// let config = ConfigMap::named("settings").in_namespace("shop").label("app", "web").with(|config| {
///     config.data.get_or_insert_default().insert("color".to_owned(), "blue".to_owned());
/// });
/// assert_eq!(config.metadata.namespace.as_deref(), Some("shop"));
/// ```
///
/// An apply omits required fields that are not set, such as `spec.selector` and `spec.template` of a Deployment, by the
/// rule in [`apply`](crate::apply).
pub trait ObjectBuilder: Object + Default {
    /// Creates an object with a name.
    #[must_use]
    fn named(name: impl Into<String>) -> Self {
        Self::default().with(|object| object.metadata_mut().name = Some(name.into()))
    }

    /// Creates an object whose name the server generates from a prefix.
    #[must_use]
    fn with_generated_name(prefix: impl Into<String>) -> Self {
        Self::default().with(|object| object.metadata_mut().generate_name = Some(prefix.into()))
    }

    /// Sets the namespace.
    #[must_use]
    fn in_namespace(self, namespace: impl Into<String>) -> Self {
        self.with(|object| object.metadata_mut().namespace = Some(namespace.into()))
    }

    /// Adds a label.
    #[must_use]
    fn label(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|object| {
            object.metadata_mut().labels.get_or_insert_default().insert(key.into(), value.into());
        })
    }

    /// Adds an annotation.
    #[must_use]
    fn annotation(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|object| {
            object.metadata_mut().annotations.get_or_insert_default().insert(key.into(), value.into());
        })
    }

    /// Adds a finalizer, unless it is already present.
    #[must_use]
    fn finalizer(self, name: impl Into<String>) -> Self {
        self.with(|object| {
            let (name, finalizers) = (name.into(), object.metadata_mut().finalizers.get_or_insert_default());
            if !finalizers.contains(&name) {
                finalizers.push(name);
            }
        })
    }

    /// Applies any other change.
    #[must_use]
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl<K: Object + Default> ObjectBuilder for K {}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::ObjectExt as _;

    #[test]
    fn objects_are_put_together() {
        let pod = Pod::named("p").in_namespace("n").label("a", "1").label("b", "2").annotation("c", "3").finalizer("f");
        let pod = pod.finalizer("f").with(|pod| pod.spec.get_or_insert_default().node_name = Some("x".to_owned()));
        assert_eq!((pod.object_ref().to_string().as_str(), pod.labels().len()), ("n/p", 2));
        assert_eq!((pod.annotations()["c"].as_str(), pod.finalizers()), ("3", &["f".to_owned()][..]));
        assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("x"));
        assert_eq!(Pod::with_generated_name("p-").metadata.generate_name.as_deref(), Some("p-"));
    }
}
