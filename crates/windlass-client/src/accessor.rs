//! The verbs over one resource in one namespace: those that the API serves for it, and no others.
//!
//! What a resource can do is said by the marker traits of [`can`]; the bodies are here, once for all resources, and are
//! those of [`Resources`]. A verb that a resource lacks is a method that does not compile.

#[cfg(feature = "clientset")]
mod behind;

use std::{fmt, marker::PhantomData, sync::Arc};

use windlass_api::{
    DynamicObject, GroupVersionKind, GroupVersionResource, Object, ObjectExt as _, ObjectRef, PartialObject, Patch,
    Resource, Scope,
    k8s_openapi::api::{authentication::v1::TokenRequest, autoscaling::v1::Scale},
};

use crate::{
    Client,
    resources::Resources,
    verbs::{Apply, Create, Delete, DeleteCollection, Evict, Get, GetOpt, List, PatchOne, Submit, Update, Watch},
};

/// The objects of the resource `R` in one namespace, or of a cluster-scoped one.
///
/// The empty namespace stands for all of them in `list` and `watch`, and for the client's own in every other verb.
pub struct Accessor<R: Served> {
    resources: Resources<R::Object>,
    /// Empty for none.
    namespace: String,
}

/// A resource, as a type: what its objects are read as.
pub trait Served {
    /// The objects.
    type Object: Object;
}

/// What a resource can do. Each trait is one verb or one subresource.
pub mod can {
    use super::Served;

    macro_rules! abilities {
        ($($(#[$doc:meta])* $ability:ident;)*) => {$(
            $(#[$doc])*
            pub trait $ability: Served {}
        )*};
    }

    abilities! {
        /// Its objects are read by name.
        Get;
        /// Its objects are listed.
        List;
        /// Its objects are watched.
        Watch;
        /// Objects are created.
        Create;
        /// Objects are posted, and answered by a status.
        Submit;
        /// Objects are replaced.
        Update;
        /// Objects are changed, also by server-side apply.
        Patch;
        /// Objects are deleted by name.
        Delete;
        /// Objects are deleted by selector.
        DeleteCollection;
        /// The `status` of an object is written on its own.
        Status;
        /// The number of replicas is read and written as a `Scale`.
        Scale;
        /// Objects are approved and denied.
        Approval;
        /// Pods are put on nodes.
        Bind;
        /// Containers are added to a running pod.
        EphemeralContainers;
        /// Pods are evicted.
        Evict;
        /// The finalizers of a namespace's spec are written.
        Finalize;
        /// The resources of a running pod are changed.
        Resize;
        /// Tokens are issued.
        Token;
    }
}

/// A custom kind, which serves what every custom kind may.
///
/// `status` and `scale` are there if its definition says so; a server without them answers 404.
pub struct Custom<K>(PhantomData<fn() -> K>);

/// What some resources can do.
macro_rules! served {
    ($($object:ty: $($ability:ident)*;)*) => {$(
        impl $crate::accessor::Served for $object {
            type Object = Self;
        }
        $crate::accessor::served!(@can [] $object: $($ability)*);
    )*};
    (@can [$($generics:tt)*] $object:ty:) => {};
    // What nearly every resource can.
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

// === the verbs ===

impl<R: Served> Accessor<R> {
    /// The verbs without a namespace, and without regard to what the API serves.
    #[must_use]
    pub const fn resources(&self) -> &Resources<R::Object> {
        &self.resources
    }

    /// The namespace; `None` for all, or where there are none.
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

    /// The namespace of a write: the object's own where this accessor has none.
    fn namespace_of(&self, object: &impl Object) -> String {
        self.namespace().or_else(|| object.namespace()).unwrap_or_default().to_owned()
    }
}

impl<R: Served<Object: Resource>> Accessor<R> {
    pub(crate) fn typed(client: &Client, namespace: impl Into<String>) -> Self {
        Self::new(Resources::typed(client.clone()), namespace.into())
    }
}

impl<R: can::Get> Accessor<R> {
    /// Reads an object.
    pub fn get(&self, name: impl Into<Arc<str>>) -> Get<R::Object> {
        self.resources.get(self.key(name))
    }

    /// Reads an object that may not be there.
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
    /// Posts an object, which is not stored.
    pub fn submit(&self, object: &R::Object) -> Submit {
        self.resources.submit(object).within(self.namespace_of(object))
    }
}

impl<R: can::Update> Accessor<R> {
    /// Replaces an object. With a resourceVersion in it, only if that is still its version.
    pub fn update(&self, object: &R::Object) -> Update<R::Object> {
        self.resources.update(object).within(self.namespace_of(object))
    }
}

impl<R: can::Patch> Accessor<R> {
    /// Changes an object.
    pub fn patch(&self, name: impl Into<Arc<str>>, patch: Patch) -> PatchOne<R::Object> {
        self.resources.patch(self.key(name), patch)
    }

    /// Server-side apply: makes the object have the fields that `object` has, and own them.
    pub fn apply(&self, object: &R::Object) -> Apply<R::Object> {
        self.resources.apply(object).within(self.namespace_of(object))
    }
}

impl<R: can::Delete> Accessor<R> {
    /// Deletes an object.
    pub fn delete(&self, name: impl Into<Arc<str>>) -> Delete<R::Object> {
        self.resources.delete(self.key(name))
    }
}

impl<R: can::DeleteCollection> Accessor<R> {
    /// Deletes the objects of the namespace, or those that are then selected.
    pub fn delete_collection(&self) -> DeleteCollection<R::Object> {
        self.resources.delete_collection().within(self.namespace.as_str())
    }
}

// === the subresources ===

impl<R: can::Status> Accessor<R> {
    /// Reads an object by its `status`; what comes is the whole object.
    pub fn get_status(&self, name: impl Into<Arc<str>>) -> Get<R::Object> {
        self.resources.get(self.key(name)).subresource("status")
    }

    /// Replaces the status of an object, and nothing else of it.
    pub fn update_status(&self, object: &R::Object) -> Update<R::Object> {
        self.resources.update_status(object).within(self.namespace_of(object))
    }

    /// Changes the status of an object, and nothing else of it.
    pub fn patch_status(&self, name: impl Into<Arc<str>>, patch: Patch) -> PatchOne<R::Object> {
        self.resources.patch(self.key(name), patch).subresource("status")
    }

    /// Server-side apply of the status.
    pub fn apply_status(&self, object: &R::Object) -> Apply<R::Object> {
        self.resources.apply(object).within(self.namespace_of(object)).subresource("status")
    }
}

impl<R: can::Scale> Accessor<R> {
    /// Reads the scale of an object.
    pub fn get_scale(&self, name: impl Into<Arc<str>>) -> Get<Scale> {
        self.resources.get_scale(self.key(name))
    }

    /// Replaces the scale of an object; `scale` names it.
    pub fn update_scale(&self, scale: &Scale) -> Update<Scale> {
        self.resources.update_scale(scale).within(self.namespace_of(scale))
    }

    /// Changes the scale of an object.
    pub fn patch_scale(&self, name: impl Into<Arc<str>>, patch: Patch) -> PatchOne<Scale> {
        self.resources.patch_scale(self.key(name), patch)
    }

    /// Server-side apply of the scale; `scale` names the object.
    pub fn apply_scale(&self, scale: &Scale) -> Apply<Scale> {
        self.resources.apply_scale(scale).within(self.namespace_of(scale))
    }
}

impl<R: can::Approval> Accessor<R> {
    /// Writes the conditions by which a request is approved or denied.
    pub fn update_approval(&self, object: &R::Object) -> Update<R::Object> {
        self.resources.update(object).subresource("approval")
    }
}

impl<R: can::Bind> Accessor<R> {
    /// Puts a pod on a node.
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
    /// Adds the ephemeral containers of `pod` that the running one does not have.
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
    /// Writes the finalizers of a namespace's spec; without any, a namespace that is being deleted goes.
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

// === custom kinds, and resources that are known at run time ===

impl Client {
    /// The objects of a custom kind, in a namespace; the empty one for those of cluster-scoped kinds.
    pub fn custom<K: Resource>(&self, namespace: impl Into<String>) -> Accessor<Custom<K>> {
        Accessor::typed(self, namespace)
    }

    /// The objects of a kind in a namespace, with the verbs that the kind declares and no others; the empty namespace for
    /// those of cluster-scoped kinds.
    ///
    /// Built-in kinds declare what an API server serves. A custom kind declares a subset with
    /// `#[resource(verbs("create", "delete"))]`, as Go's `+genclient:onlyVerbs` does; other verbs do not
    /// compile.
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

    /// The objects of a resource of which no more is known than its URL, of all namespaces or of the cluster.
    ///
    /// Objects are as the server sends them: the items of built-in lists lack apiVersion and kind, which
    /// [`Client::dynamic`] adds where the kind is known.
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
    /// The objects of one namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        let is_all = self.namespace.is_empty();
        self.resources.resource.scope = if is_all { Scope::Cluster } else { Scope::Namespaced };
        self
    }
}

// By hand, because `R` need not be any of these.
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
