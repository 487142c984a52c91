//! The builders of delete and deletecollection.

use std::time::Duration;

use windlass_api::{DeleteOptions, DryRun, ListOptions, Object, Propagation, Status};

use super::{Call, into_future, within};
use crate::{Error, Result, client::DefaultNamespace, operation::Verb, response, write_observer};

/// Deletes an object.
#[must_use = "nothing is sent before `.await`"]
pub struct Delete<K> {
    call: Call<K>,
    options: DeleteOptions,
}

/// Deletes the matching objects of a namespace.
#[must_use = "nothing is sent before `.await`"]
pub struct DeleteCollection<K> {
    call: Call<K>,
    options: DeleteOptions,
    which: ListOptions,
}

/// The server's response to a deletion.
///
/// The variant does not tell whether the object is gone: for some kinds the server returns the object even if it has
/// been removed. An object with finalizers or with graceful deletion is returned with its `deletionTimestamp` set.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion<K> {
    /// The object, either terminating or in its last state.
    Object(Box<K>),
    /// The deletion succeeded, without an object in the response.
    Status(Box<Status>),
}

into_future! {
    Delete => Deletion<K>;
    DeleteCollection => ();
}
within!(Delete DeleteCollection);

/// The options that both verbs share.
macro_rules! delete_options {
    ($($builder:ident)*) => {$(
        impl<K: Object> $builder<K> {
            /// Sets the propagation policy: how the garbage collector treats the dependents of the object.
            pub fn propagation(mut self, propagation: Propagation) -> Self {
                self.options.propagation = Some(propagation);
                self
            }

            /// Sets the grace period, in whole seconds. Zero deletes a pod immediately.
            pub fn grace_period(mut self, grace_period: Duration) -> Self {
                self.options.grace_period = Some(grace_period);
                self
            }

            /// Makes this a dry run: the server processes the deletion without carrying it out.
            pub fn dry_run(mut self) -> Self {
                self.options.dry_run = DryRun::All;
                self
            }
        }
    )*};
}

delete_options!(Delete DeleteCollection);

impl<K: Object> Delete<K> {
    pub(crate) fn new(call: Call<K>) -> Self {
        Self { call, options: DeleteOptions::default() }
    }

    /// Requires this UID, so that a recreated object of the same name is not deleted.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.options.preconditions.get_or_insert_default().uid = Some(uid.into());
        self
    }

    /// Requires this resource version.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.preconditions.get_or_insert_default().resource_version = Some(version.into());
        self
    }

    /// Replaces all options.
    pub fn options(mut self, options: DeleteOptions) -> Self {
        self.options = options;
        self
    }

    async fn send(self) -> Result<Deletion<K>> {
        let options = said(&self.call, self.options);
        let sent =
            self.call.send(Verb::Delete, DefaultNamespace::OfClient, |call| Ok(call.target.delete(&options)?)).await?;
        let limit = sent.call.client.response_limit();
        let observer = sent.call.client.write_observer().filter(|_| options.dry_run == DryRun::No);
        let answer = match response::collect(sent.response.into_body(), limit).await {
            Ok(body) => match response::status_of(&body) {
                Some(status) => {
                    if let (Some(observer), Some(details)) = (observer, &status.details) {
                        write_observer::removed(observer, &sent.call.target, &details.uid);
                    }
                    return Ok(Deletion::Status(Box::new(status)));
                }
                None => sent.call.decode(&body),
            },
            Err(error) => Err(error),
        };
        if let (Some(observer), Ok(object)) = (observer, &answer) {
            write_observer::removed(observer, &sent.call.target, object.metadata().uid.as_deref().unwrap_or_default());
        }
        answer.map(|object| Deletion::Object(Box::new(object))).map_err(|error| Error::new(sent.operation, error))
    }
}

impl<K: Object> DeleteCollection<K> {
    pub(crate) fn new(call: Call<K>) -> Self {
        Self { call, options: DeleteOptions::default(), which: ListOptions::default() }
    }

    /// Sets the label selector, for example `app=web,tier in (a,b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.which.labels = Some(selector.into());
        self
    }

    /// Sets the field selector, for example `spec.nodeName=n`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.which.fields = Some(selector.into());
        self
    }

    async fn send(self) -> Result<()> {
        let (options, which) = (said(&self.call, self.options), self.which);
        let sent = self.call.send(Verb::DeleteCollection, DefaultNamespace::OfClient, |call| {
            Ok(call.target.delete_collection(&options, &which)?)
        });
        let sent = sent.await?;
        // The response lists the deleted objects and may be large. Read it only if a write observer is set.
        if let Some(observer) = sent.call.client.write_observer().filter(|_| options.dry_run == DryRun::No)
            && let Ok(list) = response::collect(sent.response.into_body(), sent.call.client.response_limit()).await
        {
            write_observer::removed_all(observer, &sent.call.target, &list);
        }
        Ok(())
    }
}

/// Returns the options, with the client's settings for all writes.
fn said<K: Object>(call: &Call<K>, options: DeleteOptions) -> DeleteOptions {
    match call.client.dry_run() {
        DryRun::All => DeleteOptions { dry_run: DryRun::All, ..options },
        DryRun::No => options,
    }
}

impl<K> Deletion<K> {
    /// Returns the object, if the response contained one.
    #[must_use]
    pub fn object(&self) -> Option<&K> {
        match self {
            Self::Object(object) => Some(object),
            Self::Status(_) => None,
        }
    }
}
