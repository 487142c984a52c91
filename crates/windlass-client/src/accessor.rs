//! Accessors: the verbs of one resource in one namespace, limited to the verbs that the API serves for it.
//!
//! The marker traits of [`can`] state which verbs a resource supports. The bodies of the verbs exist once for all
//! resources and call those of [`Resources`]. Calling a verb that a resource does not support is a compile error.

#[cfg(feature = "clientset")]
mod kind_verbs;

use std::{fmt, marker::PhantomData, sync::Arc};

use windlass_api::{
    ApplyConfiguration, DynamicObject, GroupVersionKind, GroupVersionResource, Object, ObjectExt as _, ObjectRef,
    PartialObject, Patch, Resource, Scope,
    k8s_openapi::api::{authentication::v1::TokenRequest, autoscaling::v1::Scale},
};

use crate::{
    Client,
    resources::Resources,
    verbs::{Apply, Create, Delete, DeleteCollection, Evict, Get, GetOpt, List, PatchOne, Submit, Update, Watch},
};

/// The objects of the resource `R`, in one namespace or cluster-scoped.
///
/// With the empty namespace, `list` and `watch` cover all namespaces, and every other verb uses the client's default
/// namespace.
pub struct Accessor<R: Served> {
    resources: Resources<R::Object>,
    /// The namespace, or an empty string for none.
    namespace: String,
}

/// A resource as a type, with the type that its objects are decoded into.
pub trait Served {
    /// The type of the objects.
    type Object: Object;
}

/// Marker traits for the verbs and subresources that a resource supports, one trait for each.
pub mod can {
    use super::Served;

    macro_rules! abilities {
        ($($(#[$doc:meta])* $ability:ident;)*) => {$(
            $(#[$doc])*
            pub trait $ability: Served {}
        )*};
    }

    abilities! {
        /// Objects can be read by name.
        Get;
        /// Objects can be listed.
        List;
        /// Objects can be watched.
        Watch;
        /// Objects can be created.
        Create;
        /// Objects can be posted without being stored; the response is a `Status`.
        Submit;
        /// Objects can be replaced.
        Update;
        /// Objects can be patched, including with server-side apply.
        Patch;
        /// Objects can be deleted by name.
        Delete;
        /// Objects can be deleted by selector.
        DeleteCollection;
        /// Objects have the `status` subresource.
        Status;
        /// Objects have the `scale` subresource.
        Scale;
        /// Objects can be approved and denied.
        Approval;
        /// Pods can be bound to nodes.
        Bind;
        /// Ephemeral containers can be added to a running pod.
        EphemeralContainers;
        /// Pods can be evicted.
        Evict;
        /// The finalizers of a namespace's spec can be written.
        Finalize;
        /// The resources of a running pod can be changed.
        Resize;
        /// Tokens can be issued.
        Token;
    }
}

/// A custom resource, with all verbs that a CustomResourceDefinition can serve.
///
/// The `status` and `scale` subresources exist only if the CustomResourceDefinition declares them; otherwise the server
/// answers 404.
pub struct Custom<K>(PhantomData<fn() -> K>);

/// Implements the marker traits for a resource.
macro_rules! served {
    ($($object:ty: $($ability:ident)*;)*) => {$(
        impl $crate::accessor::Served for $object {
            type Object = Self;
        }
        $crate::accessor::served!(@can [] $object: $($ability)*);
    )*};
    (@can [$($generics:tt)*] $object:ty:) => {};
    // The verbs that nearly every resource supports.
    (@can [$($generics:tt)*] $object:ty: All $($more:ident)*) => {
        $crate::accessor::served!(@can [$($generics)*] $object:
            Get List Watch Create Update Patch Delete DeleteCollection $($more)*);
    };
    (@can [$($generics:tt)*] $object:ty: $ability:ident $($more:ident)*) => {
        impl<$($generics)*> $crate::accessor::can::$ability for $object {}
        $crate::accessor::served!(@can [$($generics)*] $object: $($more)*);
    };
}

pub(crate) use served;

served! {
    DynamicObject: All Status Scale;
    PartialObject: Get List Watch Patch Delete DeleteCollection;
}
served!(@can [K: Resource] Custom<K>: All Status Scale);

impl<K: Resource> Served for Custom<K> {
    type Object = K;
}

// === Verbs ===

impl<R: Served> Accessor<R> {
    /// Returns the resource with all verbs and no fixed namespace, whether or not the API serves them.
    #[must_use]
    pub const fn resources(&self) -> &Resources<R::Object> {
        &self.resources
    }

    /// Returns the namespace; `None` stands for all namespaces or for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    pub(crate) const fn new(resources: Resources<R::Object>, namespace: String) -> Self {
        Self { resources, namespace }
    }

    fn key(&self, name: impl Into<Arc<str>>) -> ObjectRef<R::Object> {
        ObjectRef::new(name).within(self.namespace.as_str())
    }

    /// Returns the namespace of a write: the accessor's, or else the object's own.
    fn namespace_of(&self, object: &impl Object) -> String {
        self.namespace().or_else(|| object.namespace()).unwrap_or_default().to_owned()
    }
}

impl<R: Served<Object: Resource>> Accessor<R> {
    pub(crate) fn typed(client: &Client, namespace: impl Into<String>) -> Self {
        Self::new(client.resources(), namespace.into())
    }
}

impl<R: can::Get> Accessor<R> {
    /// Reads an object.
    pub fn get(&self, name: impl Into<Arc<str>>) -> Get<R::Object> {
        self.resources.get(self.key(name))
    }

    /// Reads an object. Returns `None` if it does not exist.
    pub fn get_opt(&self, name: impl Into<Arc<str>>) -> GetOpt<R::Object> {
        self.resources.get_opt(self.key(name))
    }
}

impl<R: can::List> Accessor<R> {
    /// Lists the objects.
    pub fn list(&self) -> List<R::Object> {
        self.resources.list().within(self.namespace.as_str())
    }
}

impl<R: can::Watch> Accessor<R> {
    /// Watches the objects.
    pub fn watch(&self) -> Watch<R::Object> {
        self.resources.watch().within(self.namespace.as_str())
    }
}

impl<R: can::Create> Accessor<R> {
    /// Creates an object.
    pub fn create(&self, object: &R::Object) -> Create<R::Object> {
        self.resources.create(object).within(self.namespace_of(object))
    }
}

impl<R: can::Submit> Accessor<R> {
    /// Posts an object that is not stored.
    pub fn submit(&self, object: &R::Object) -> Submit {
        self.resources.submit(object).within(self.namespace_of(object))
    }
}

impl<R: can::Update> Accessor<R> {
    /// Replaces an object. If the object has a `resourceVersion`, the update fails with a conflict unless this is the
    /// current version.
    pub fn update(&self, object: &R::Object) -> Update<R::Object> {
        self.resources.update(object).within(self.namespace_of(object))
    }
}

impl<R: can::Patch> Accessor<R> {
    /// Patches an object.
    pub fn patch(&self, name: impl Into<Arc<str>>, patch: Patch) -> PatchOne<R::Object> {
        self.resources.patch(self.key(name), patch)
    }

    /// Applies an object or an apply configuration (server-side apply), see [`Client::apply`].
    pub fn apply<C: ApplyConfiguration<Object = R::Object>>(&self, configuration: &C) -> Apply<R::Object> {
        self.resources.apply(configuration).within_any(&self.namespace)
    }
}

impl<R: can::Delete> Accessor<R> {
    /// Deletes an object.
    pub fn delete(&self, name: impl Into<Arc<str>>) -> Delete<R::Object> {
        self.resources.delete(self.key(name))
    }
}

impl<R: can::DeleteCollection> Accessor<R> {
    /// Deletes the objects of the namespace. Selectors on the returned builder restrict the deletion.
    pub fn delete_collection(&self) -> DeleteCollection<R::Object> {
        self.resources.delete_collection().within(self.namespace.as_str())
    }
}

// === Subresources ===

impl<R: can::Status> Accessor<R> {
    /// Reads an object through its `status` subresource. The response is the whole object.
    pub fn get_status(&self, name: impl Into<Arc<str>>) -> Get<R::Object> {
        self.resources.get(self.key(name)).subresource("status")
    }

    /// Replaces the status of an object and leaves its other fields unchanged.
    pub fn update_status(&self, object: &R::Object) -> Update<R::Object> {
        self.resources.update_status(object).within(self.namespace_of(object))
    }

    /// Patches the status of an object and leaves its other fields unchanged.
    pub fn patch_status(&self, name: impl Into<Arc<str>>, patch: Patch) -> PatchOne<R::Object> {
        self.resources.patch(self.key(name), patch).subresource("status")
    }

    /// Applies the status of an object or of an apply configuration (server-side apply).
    pub fn apply_status<C: ApplyConfiguration<Object = R::Object>>(&self, configuration: &C) -> Apply<R::Object> {
        self.resources.apply(configuration).within_any(&self.namespace).subresource("status")
    }
}

impl<R: can::Scale> Accessor<R> {
    /// Reads the scale of an object.
    pub fn get_scale(&self, name: impl Into<Arc<str>>) -> Get<Scale> {
        self.resources.get_scale(self.key(name))
    }

    /// Replaces the scale of an object. `scale` contains the object's name.
    pub fn update_scale(&self, scale: &Scale) -> Update<Scale> {
        self.resources.update_scale(scale).within(self.namespace_of(scale))
    }

    /// Patches the scale of an object.
    pub fn patch_scale(&self, name: impl Into<Arc<str>>, patch: Patch) -> PatchOne<Scale> {
        self.resources.patch_scale(self.key(name), patch)
    }

    /// Applies the scale of an object (server-side apply). `scale` contains the object's name.
    pub fn apply_scale(&self, scale: &Scale) -> Apply<Scale> {
        self.resources.apply_scale(scale).within_any(&self.namespace)
    }
}

impl<R: can::Approval> Accessor<R> {
    /// Replaces the approval conditions of a certificate signing request.
    pub fn update_approval(&self, object: &R::Object) -> Update<R::Object> {
        self.resources.update(object).subresource("approval")
    }
}

impl<R: can::Bind> Accessor<R> {
    /// Binds a pod to a node.
    pub fn bind(&self, pod: impl Into<Arc<str>>, node: &str) -> Submit {
        self.resources.bind(self.key(pod), node)
    }
}

impl<R: can::Evict> Accessor<R> {
    /// Evicts a pod: deletes it if its disruption budget allows.
    pub fn evict(&self, name: impl Into<Arc<str>>) -> Evict {
        self.resources.evict(self.key(name))
    }
}

impl<R: can::EphemeralContainers> Accessor<R> {
    /// Adds the ephemeral containers of `pod` that the running pod does not have yet.
    pub fn update_ephemeral_containers(&self, pod: &R::Object) -> Update<R::Object> {
        self.resources.update(pod).within(self.namespace_of(pod)).subresource("ephemeralcontainers")
    }
}

impl<R: can::Resize> Accessor<R> {
    /// Changes the resources of the containers of a running pod.
    pub fn update_resize(&self, pod: &R::Object) -> Update<R::Object> {
        self.resources.update(pod).within(self.namespace_of(pod)).subresource("resize")
    }
}

impl<R: can::Finalize> Accessor<R> {
    /// Replaces the finalizers of a namespace's spec. A terminating namespace without finalizers is removed.
    pub fn finalize(&self, namespace: &R::Object) -> Update<R::Object> {
        self.resources.update(namespace).subresource("finalize")
    }
}

impl<R: can::Token> Accessor<R> {
    /// Issues a token for a service account.
    pub fn create_token(&self, name: impl Into<Arc<str>>, request: &TokenRequest) -> Create<TokenRequest> {
        self.resources.create_token(self.key(name), request)
    }
}

// === Custom resources, and resources that are known only at run time ===

impl Client {
    /// Returns the accessor of a custom resource in a namespace. Use the empty namespace for cluster-scoped kinds.
    pub fn custom<K: Resource>(&self, namespace: impl Into<String>) -> Accessor<Custom<K>> {
        Accessor::typed(self, namespace)
    }

    /// Returns the accessor of a kind in a namespace, with the verbs that the kind declares. Use the empty namespace
    /// for cluster-scoped kinds.
    ///
    /// Built-in kinds declare the verbs that an API server serves. A custom kind can declare a subset with
    /// `#[resource(verbs("create", "delete"))]`, as with Go's `+genclient:onlyVerbs`. Other verbs do not compile.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_client::Client;
    /// # async fn example(client: Client) -> windlass_client::Result<()> {
    /// let settings = client.accessor::<ConfigMap>("shop").get("settings").await?;
    /// # drop(settings);
    /// # Ok(())
    /// # }
    /// ```
    pub fn accessor<K: Resource + Served<Object = K>>(&self, namespace: impl Into<String>) -> Accessor<K> {
        Accessor::typed(self, namespace)
    }

    /// Returns the accessor of a resource of which only group, version and plural name are known. It covers all
    /// namespaces, or the cluster.
    ///
    /// Objects are returned as the server sends them. The items of built-in lists have no `apiVersion` and `kind`;
    /// [`Client::dynamic`], which knows the kind, adds them.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> windlass_client::Result<()> {
    /// use windlass_api::{GroupVersionResource, Nested as _, ObjectExt as _};
    ///
    /// let websites = client.dynamic_at(&GroupVersionResource::new("example.com", "v1", "websites"));
    /// for website in websites.clone().within("shop").list().await? {
    ///     println!("{} {:?}", website.name(), website.nested_str(&["spec", "image"]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn dynamic_at(&self, resource: &GroupVersionResource) -> Accessor<DynamicObject> {
        let GroupVersionResource { group, version, resource } = resource.clone();
        let resource = windlass_api::ApiResource::namespaced(GroupVersionKind::new(group, version, ""), resource);
        Accessor::new(self.dynamic(&resource.cluster_scoped()), String::new())
    }
}

impl Accessor<DynamicObject> {
    /// Returns this accessor for another namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        let is_all = self.namespace.is_empty();
        self.resources.resource.scope = if is_all { Scope::Cluster } else { Scope::Namespaced };
        self
    }
}

// Implemented by hand, because a derive would require `R: Clone`.
impl<R: Served> Clone for Accessor<R> {
    fn clone(&self) -> Self {
        Self { resources: self.resources.clone(), namespace: self.namespace.clone() }
    }
}

impl<R: Served> fmt::Debug for Accessor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accessor({}, namespace {:?})", self.resources.resource.gvr(), self.namespace)
    }
}

impl<K> fmt::Debug for Custom<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

#[cfg(test)]
mod tests;
