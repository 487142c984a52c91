//! The builders of requests that are posted to an object and answered with a `Status`: eviction and binding.

use std::{
    fmt,
    future::{Future, IntoFuture},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::{DeleteOptions, DryRun, PartialObject, Preconditions, Propagation, Status, WriteOptions};

use super::Call;
use crate::{Error, Result, client::DefaultNamespace, operation::Verb, response};

/// Posts a request to an object. Returns an error if the server does not carry it out.
#[must_use = "nothing is sent before `.await`"]
pub struct Submit {
    call: Call<PartialObject>,
    body: Value,
    options: WriteOptions,
}

/// Evicts a pod.
///
/// If the pod's disruption budget does not allow the eviction, the server answers 429, and the caller should retry
/// later.
#[must_use = "nothing is sent before `.await`"]
pub struct Evict {
    submit: Submit,
    options: DeleteOptions,
}

impl Submit {
    pub(crate) fn new(call: Call<PartialObject>, body: Value) -> Self {
        let options = WriteOptions { dry_run: call.client.dry_run(), ..WriteOptions::default() };
        Self { call, body, options }
    }

    /// Makes this a dry run: the server validates the request without carrying it out.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = DryRun::All;
        self
    }

    async fn send(self) -> Result<Status> {
        let (body, options) = (Bytes::from(self.body.to_string()), self.options);
        let sent = self
            .call
            .send(Verb::Create, DefaultNamespace::OfClient, |call| Ok(call.target.create(body, &options)?))
            .await?;
        let limit = sent.call.client.response_limit();
        response::decode(sent.response, limit).await.map_err(|error| Error::new(sent.operation, error))
    }

    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.call.within(namespace);
        self
    }
}

impl Evict {
    pub(crate) fn new(call: Call<PartialObject>) -> Self {
        // The body contains the name of the object that it is posted to.
        let metadata = json!({ "name": call.target.name });
        let body = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata });
        let submit = Submit::new(call, body);
        let options = DeleteOptions { dry_run: submit.options.dry_run, ..DeleteOptions::default() };
        Self { submit, options }
    }

    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.submit = self.submit.within(namespace);
        self
    }

    /// Sets the grace period of the pod, in whole seconds.
    pub fn grace_period(mut self, grace_period: std::time::Duration) -> Self {
        self.options.grace_period = Some(grace_period);
        self
    }

    /// Sets the propagation policy: how the garbage collector treats the dependents of the pod.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation = Some(propagation);
        self
    }

    /// Sets conditions that the pod must fulfil.
    pub fn preconditions(mut self, preconditions: Preconditions) -> Self {
        self.options.preconditions = Some(preconditions);
        self
    }

    /// Makes this a dry run: the server checks the eviction without carrying it out.
    pub fn dry_run(mut self) -> Self {
        self.submit = self.submit.dry_run();
        self.options.dry_run = DryRun::All;
        self
    }

    fn send(mut self) -> impl Future<Output = Result<Status>> + Send {
        // A server treats empty options as set, so they are omitted unless there are any.
        if self.options != DeleteOptions::default() {
            let options = serde_json::from_slice::<Value>(&self.options.body());
            self.submit.body["deleteOptions"] = options.unwrap_or_default();
        }
        self.submit.send()
    }
}

/// Implements `IntoFuture` for builders, so that `.await` sends them.
macro_rules! answered_by_status {
    ($($builder:ident)*) => {$(
        impl IntoFuture for $builder {
            type Output = Result<Status>;
            type IntoFuture = BoxFuture<'static, Self::Output>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.send())
            }
        }

        impl fmt::Debug for $builder {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($builder)).finish_non_exhaustive()
            }
        }
    )*};
}

answered_by_status!(Submit Evict);
