//! Validating webhooks for typed objects.

use std::{fmt, future::Future, marker::PhantomData};

use windlass_api::Resource;

use super::{Denial, Handler, Operation, Request, Response, Warnings, decode};

/// Decides whether objects of a kind may be created, updated and deleted. The default methods allow everything.
///
/// ```
/// use windlass_api::{ObjectExt, k8s_openapi::api::core::v1::Namespace};
/// use windlass_webhook::admission::{Denial, Request, Validator, Warnings};
///
/// struct Keeper;
///
/// impl Validator<Namespace> for Keeper {
///     async fn delete(&self, namespace: &Namespace, _: &Request) -> Result<Warnings, Denial> {
///         match namespace.labels().get("keep").map(String::as_str) {
///             Some("always") => Err("the namespace must not be deleted".into()),
///             Some(_) => Ok(["the namespace is labeled `keep`"].into()),
///             None => Ok(Warnings::none()),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not a validator for `{K}`", note = "implement `Validator<{K}>`")]
pub trait Validator<K: Resource>: Send + Sync + 'static {
    /// Decides whether an object may be created. A panic in any method is caught and answered with status 500.
    fn create(&self, object: &K, request: &Request) -> impl Future<Output = Result<Warnings, Denial>> + Send {
        let _ = (object, request);
        allowed()
    }

    /// Decides whether an object may be updated from `old` to `new`.
    fn update(&self, old: &K, new: &K, request: &Request) -> impl Future<Output = Result<Warnings, Denial>> + Send {
        let _ = (old, new, request);
        allowed()
    }

    /// Decides whether an object may be deleted.
    fn delete(&self, object: &K, request: &Request) -> impl Future<Output = Result<Warnings, Denial>> + Send {
        let _ = (object, request);
        allowed()
    }
}

fn allowed() -> std::future::Ready<Result<Warnings, Denial>> {
    std::future::ready(Ok(Warnings::none()))
}

/// A [`Handler`] that calls a [`Validator`]. It allows connects without calling the validator.
#[must_use]
pub struct Validating<K, V> {
    validator: V,
    kind: PhantomData<fn(K)>,
}

impl<K: Resource, V: Validator<K>> Validating<K, V> {
    /// Creates a handler for this validator.
    pub const fn new(validator: V) -> Self {
        Self { validator, kind: PhantomData }
    }

    async fn validate(&self, request: &Request) -> Result<Warnings, Denial> {
        match &request.operation {
            Operation::Create => self.validator.create(&decode(&request.object)?, request).await,
            Operation::Update => {
                let (new, old) = (decode(&request.object)?, decode(&request.old_object)?);
                self.validator.update(&old, &new, request).await
            }
            Operation::Delete => self.validator.delete(&decode(&request.old_object)?, request).await,
            Operation::Connect => Ok(Warnings::none()),
            Operation::Unknown(other) => Err(Denial::errored(400, format!("unknown operation {other:?}"))),
        }
    }
}

impl<K: Resource, V: Validator<K>> Handler for Validating<K, V> {
    async fn handle(&self, request: &Request) -> Response {
        match self.validate(request).await {
            Ok(warnings) => Response::allowed().with_warnings(warnings),
            Err(denial) => denial.into(),
        }
    }
}

impl<K, V> fmt::Debug for Validating<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validating").finish_non_exhaustive()
    }
}
