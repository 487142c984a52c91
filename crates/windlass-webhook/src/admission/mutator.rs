//! Mutating webhooks for typed objects.

use std::{fmt, future::Future, marker::PhantomData};

use serde_json::Value;
use windlass_api::Resource;

use super::{Denial, Handler, Operation, Request, Response, decode, overlay::carried_over};

/// Changes objects of a kind before they are created or updated, for example to set defaults.
///
/// The API server may call a mutator several times for one write, so it must be idempotent. Functions are mutators:
///
/// ```
/// use windlass_api::k8s_openapi::api::apps::v1::Deployment;
/// use windlass_webhook::{Webhooks, admission::Request};
///
/// let webhooks = Webhooks::builder()
///     .mutator(|deployment: &mut Deployment, _: &Request| {
///         deployment.spec.get_or_insert_default().revision_history_limit.get_or_insert(3);
///         Ok(())
///     })
///     .build()?;
/// # Ok::<(), windlass_webhook::RegisterError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mutator for `{K}`",
    note = "pass a function of `(&mut {K}, &Request)` that returns `Result<(), Denial>`, or a type that implements `Mutator<{K}>`"
)]
pub trait Mutator<K: Resource>: Send + Sync + 'static {
    /// Changes the object, or denies the request. A panic is contained and answered with status 500.
    fn mutate(&self, object: &mut K, request: &Request) -> impl Future<Output = Result<(), Denial>> + Send;
}

#[diagnostic::do_not_recommend]
impl<K, F> Mutator<K> for F
where
    K: Resource,
    F: Fn(&mut K, &Request) -> Result<(), Denial> + Send + Sync + 'static,
{
    fn mutate(&self, object: &mut K, request: &Request) -> impl Future<Output = Result<(), Denial>> + Send {
        std::future::ready(self(object, request))
    }
}

/// A [`Handler`] that calls a [`Mutator`]. It allows deletions and connects without calling the mutator.
///
/// The patch contains only the mutator's changes. Fields that the type does not know are retained, and fields that the
/// type adds when it is encoded are not added.
#[must_use]
pub struct Mutating<K, M> {
    mutator: M,
    unknown: UnknownFields,
    kind: PhantomData<fn(K)>,
}

/// The treatment of fields that the type does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownFields {
    Kept,
    Removed,
}

impl<K: Resource, M: Mutator<K>> Mutating<K, M> {
    /// Creates a handler for this mutator.
    pub const fn new(mutator: M) -> Self {
        Self { mutator, unknown: UnknownFields::Kept, kind: PhantomData }
    }

    /// Removes fields that the type does not know: the stored object is exactly the encoded type.
    pub const fn remove_unknown_fields(mut self) -> Self {
        self.unknown = UnknownFields::Removed;
        self
    }

    async fn mutated(&self, request: &Request) -> Result<Response, Denial> {
        if !matches!(request.operation, Operation::Create | Operation::Update) {
            return Ok(Response::allowed());
        }
        let mut object: K = decode(&request.object)?;
        let before = encode(&object)?;
        self.mutator.mutate(&mut object, request).await?;
        let after = encode(&object)?;
        Ok(Response::patched(match self.unknown {
            UnknownFields::Kept => carried_over(request.object.clone(), &before, &after),
            UnknownFields::Removed => with_types(after, &request.object),
        }))
    }
}

impl<K: Resource, M: Mutator<K>> Handler for Mutating<K, M> {
    async fn handle(&self, request: &Request) -> Response {
        self.mutated(request).await.unwrap_or_else(Response::from)
    }
}

impl<K, M> fmt::Debug for Mutating<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutating").field("unknown", &self.unknown).finish_non_exhaustive()
    }
}

fn encode<K: Resource>(object: &K) -> Result<Value, Denial> {
    serde_json::to_value(object).map_err(|error| Denial::errored(500, error.to_string()))
}

/// Adds `apiVersion` and `kind`, which not every type encodes.
fn with_types(mut object: Value, came: &Value) -> Value {
    for field in ["apiVersion", "kind"] {
        if let (None, Some(text)) = (object.get(field), came.get(field)) {
            object[field] = text.clone();
        }
    }
    object
}
