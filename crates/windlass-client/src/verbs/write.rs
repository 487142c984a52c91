//! The builders of create, update, patch and apply.

use std::borrow::Cow;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use windlass_api::{
    ApiResource, DryRun, FieldValidation, Object, Patch, PatchOptions, WriteOptions,
    apply::{Body, omit_custom_defaults, omit_defaults},
    crd::CustomResource,
};

use super::{Call, Sent, into_future, within};
use crate::{Result, client::DefaultNamespace, operation::Verb};

/// Creates an object.
#[must_use = "nothing is sent before `.await`"]
pub struct Create<K> {
    call: Call<K>,
    object: serde_json::Result<Bytes>,
    options: WriteOptions,
}

/// Replaces an object or a subresource.
#[must_use = "nothing is sent before `.await`"]
pub struct Update<K> {
    call: Call<K>,
    object: serde_json::Result<Bytes>,
    options: WriteOptions,
}

/// Patches an object.
#[must_use = "nothing is sent before `.await`"]
pub struct PatchOne<K> {
    call: Call<K>,
    patch: Patch,
    options: PatchOptions,
}

/// Applies an object or an apply configuration (server-side apply).
///
/// The field manager defaults to the client's, see [`Client::with_field_owner`](crate::Client::with_field_owner).
#[must_use = "nothing is sent before `.await`"]
pub struct Apply<K> {
    call: Call<K>,
    object: serde_json::Result<Value>,
    /// Removes the fields that are not set.
    omit: fn(&ApiResource, &mut Value),
    options: PatchOptions,
}

into_future! {
    Create => K;
    Update => K;
    PatchOne => K;
    Apply => K;
}
within!(Create Update PatchOne Apply);

/// The options that all writes share.
macro_rules! write_options {
    ($($builder:ident: $($path:ident).+;)*) => {$(
        impl<K: Object> $builder<K> {
            /// Sets the field manager. Overrides the client's default.
            pub fn field_manager(mut self, owner: impl Into<String>) -> Self {
                self.$($path).+.field_manager = Some(owner.into());
                self
            }

            /// Makes this a dry run: the server processes the write without storing it, and returns the object that it
            /// would store.
            pub fn dry_run(mut self) -> Self {
                self.$($path).+.dry_run = DryRun::All;
                self
            }

            /// Sets how the server treats unknown and duplicate fields.
            pub fn field_validation(mut self, validation: FieldValidation) -> Self {
                self.$($path).+.field_validation = Some(validation);
                self
            }

            /// Sends the request and discards the object in the response, without decoding it. Returns the errors that
            /// `.await` would return, except for errors while reading the response of a successful write.
            ///
            /// ```
            /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
            /// # use windlass_client::{Client, Result};
            /// # async fn example(client: Client, pod: Pod) -> Result<()> {
            /// client.update_status(&pod).discard_response().await
            /// # }
            /// ```
            pub fn discard_response(self) -> BoxFuture<'static, Result<()>> {
                Box::pin(async move {
                    let dry_run = self.$($path).+.dry_run;
                    self.begin().await?.drain_written(dry_run).await;
                    Ok(())
                })
            }

            async fn send(self) -> Result<K> {
                let dry_run = self.$($path).+.dry_run;
                self.begin().await?.written(dry_run).await
            }
        }
    )*};
}

write_options! {
    Create: options;
    Update: options;
    PatchOne: options.write;
    Apply: options.write;
}

impl<K: Object> Create<K> {
    pub(crate) fn new(mut call: Call<K>, object: &K) -> Self {
        let metadata = object.metadata();
        call.subject = metadata.name.clone().or_else(|| metadata.generate_name.clone());
        let object = call.encode(object);
        Self { object, options: call.client.write_options(), call }
    }

    async fn begin(self) -> Result<Sent<K>> {
        let (object, options) = (self.object, self.options);
        self.call
            .send(Verb::Create, DefaultNamespace::OfClient, |call| Ok(call.target.create(object?, &options)?))
            .await
    }
}

impl<K: Object> Update<K> {
    pub(crate) fn new(call: Call<K>, object: &K) -> Self {
        let object = call.encode(object);
        Self { object, options: call.client.write_options(), call }
    }

    /// Selects a subresource, such as `status`. The server writes that part of the object and ignores the rest.
    pub fn subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.call.subresource(subresource);
        self
    }

    async fn begin(self) -> Result<Sent<K>> {
        let (object, options) = (self.object, self.options);
        self.call
            .send(Verb::Update, DefaultNamespace::OfClient, |call| Ok(call.target.update(object?, &options)?))
            .await
    }
}

impl<K: Object> PatchOne<K> {
    pub(crate) fn new(call: Call<K>, patch: Patch) -> Self {
        let options = PatchOptions { write: call.client.write_options(), force: None };
        Self { call, patch, options }
    }

    /// Selects a subresource, such as `status`.
    pub fn subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.call.subresource(subresource);
        self
    }

    /// Takes ownership of fields from other managers. Only valid for [`Patch::Apply`]; servers reject it with any other
    /// patch.
    pub fn force(mut self) -> Self {
        self.options.force = Some(true);
        self
    }

    async fn begin(mut self) -> Result<Sent<K>> {
        let verb = if let Patch::Apply(_) = self.patch {
            self.options.write.field_manager.get_or_insert_with(|| self.call.client.field_manager().to_owned());
            Verb::Apply
        } else {
            Verb::Patch
        };
        let (patch, options) = (self.patch, self.options);
        let sent = self.call.send(verb, DefaultNamespace::OfClient, |call| {
            let body = serde_json::to_vec(patch.body())?;
            Ok(call.target.patch(&patch, body.into(), &options)?)
        });
        sent.await
    }
}

impl<K: Object> Apply<K> {
    pub(crate) fn new(mut call: Call<K>, body: Body<'_, K>) -> Self {
        let options = PatchOptions { write: call.client.write_options(), force: None };
        let is_object = matches!(body, Body::Object(_));
        let omit = if is_object && call.codec.has_required_fields { omit_of_built_in } else { omit_nothing };
        let object = encoded(&call, body);
        let metadata = object.as_ref().map_or(&Value::Null, |object| &object["metadata"]);
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        call.target = call.target.within(text("namespace")).named(text("name"));
        Self { call, object, omit, options }
    }

    /// Takes ownership of fields whose values differ from those of other managers, instead of failing with a conflict.
    pub fn force(mut self) -> Self {
        self.options.force = Some(true);
        self
    }

    /// Sends required fields also if they are at their default, and takes ownership of them. By default, required fields
    /// of built-in kinds that [are not set](windlass_api::apply#when-a-field-of-an-object-is-not-set) are omitted.
    ///
    /// ```
    /// # use windlass_api::k8s_openapi::api::apps::v1::ReplicaSet;
    /// # use windlass_client::{Client, Result};
    /// # async fn example(client: Client, scaled_to_zero: ReplicaSet) -> Result<()> {
    /// // Owns `status.replicas: 0`, and conflicts with another manager's `status.replicas: 1`.
    /// client.apply(&scaled_to_zero).subresource("status").own_defaults().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn own_defaults(mut self) -> Self {
        self.omit = omit_nothing;
        self
    }

    /// Omits the fields of a custom kind that its schema requires and that
    /// [are not set](windlass_api::apply#when-a-field-of-an-object-is-not-set), and nulls. By default, they are sent,
    /// because a server rejects an object without a required field. Has no effect on apply configurations.
    pub fn omit_defaults(mut self) -> Self
    where
        K: CustomResource,
    {
        self.omit = |_, object| omit_custom_defaults::<K>(object);
        self
    }

    /// Selects a subresource, such as `status`.
    pub fn subresource(mut self, subresource: impl Into<Cow<'static, str>>) -> Self {
        self.call.subresource(subresource);
        self
    }

    /// Sets the namespace, unless it is empty.
    pub(crate) fn within_any(self, namespace: &str) -> Self {
        if namespace.is_empty() { self } else { self.within(namespace) }
    }

    async fn begin(mut self) -> Result<Sent<K>> {
        self.options.write.field_manager.get_or_insert_with(|| self.call.client.field_manager().to_owned());
        let (object, omit, options) = (self.object, self.omit, self.options);
        let sent = self.call.send(Verb::Apply, DefaultNamespace::OfClient, |call| {
            let mut object = object?;
            omit(&call.target.resource, &mut object);
            let patch = Patch::Apply(object);
            // An apply patch is YAML, of which JSON is a subset.
            let body = serde_json::to_vec(patch.body())?;
            Ok(call.target.patch(&patch, body.into(), &options)?)
        });
        sent.await
    }
}

fn omit_of_built_in(resource: &ApiResource, object: &mut Value) {
    omit_defaults(&resource.gvk(), object);
}

fn omit_nothing(_: &ApiResource, _: &mut Value) {}

/// Returns the object to send in an apply: without `managedFields`, which only the server may write.
fn encoded<K: Object>(call: &Call<K>, body: Body<'_, K>) -> serde_json::Result<Value> {
    let mut object = match body {
        Body::Object(object) => serde_json::from_slice(&call.encode(object)?)?,
        Body::Fields(fields) => {
            let resource = &call.target.resource;
            let types = [("apiVersion", resource.api_version()), ("kind", resource.kind.to_string())];
            let mut object: Map<String, Value> =
                types.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
            object.extend(fields?);
            Value::Object(object)
        }
    };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(object)
}
