//! Status updates that are sent only on change, replace the whole status, and detect conflicts.

use serde_json::Value;
use windlass_api::{ObjectExt as _, Resource};
use windlass_client::Client;

use crate::{Error, Result};

/// The maximum number of retries after a conflict.
const RETRIES: usize = 4;

/// The outcome of writing a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusWrite<K> {
    /// The status was written. Contains the object as stored by the server.
    Written(Box<K>),
    /// The status already had this value. No request was sent.
    Unchanged,
    /// The object was deleted, or was recreated with a new UID.
    Gone,
}

impl<K> StatusWrite<K> {
    /// Reports whether the status was written.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }
}

/// Applies `change` to the object and writes its status if it changed.
///
/// - The status is replaced, not merged: a field that is omitted from the encoding (`skip_serializing_if`) is cleared
///   on the server. A merge patch would retain it.
/// - The request carries the object's resource version. On a conflict, the object is read from the server, changed and
///   written again, up to four times. Therefore `change` should set only the fields that it owns. It must not derive
///   values from old fields that another client may have changed.
/// - The server ignores all changes outside the status.
///
/// The kind needs the status subresource. The controller needs the verbs `get` on the resource and `update` on its
/// status.
///
/// ```
/// # use windlass_api::k8s_openapi::api::apps::v1::Deployment;
/// # use windlass_runtime::{Context, Result, status::update_status};
/// # async fn report(deployment: &Deployment, cx: &Context) -> Result<()> {
/// update_status(cx.live(), deployment, |deployment| {
///     deployment.status.get_or_insert_default().observed_generation = deployment.metadata.generation;
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub async fn update_status<K: Resource>(
    client: &Client,
    object: &K,
    change: impl Fn(&mut K),
) -> Result<StatusWrite<K>> {
    let mut current = object.clone();
    for attempt in 0.. {
        let before = status_of(&current)?;
        change(&mut current);
        if status_of(&current)? == before {
            return Ok(StatusWrite::Unchanged);
        }
        match client.update_status(&current).await {
            Ok(written) => return Ok(StatusWrite::Written(Box::new(written))),
            Err(error) if error.is_not_found() => return Ok(StatusWrite::Gone),
            Err(error) if error.is_conflict() && attempt < RETRIES => {}
            Err(error) => return Err(error.into()),
        }
        match client.get_opt::<K>(object.object_ref()).await? {
            Some(newest) if newest.uid() == object.uid() => current = newest,
            _ => return Ok(StatusWrite::Gone),
        }
    }
    unreachable!("the last attempt returns")
}

fn status_of<K: Resource>(object: &K) -> Result<Value> {
    let mut encoded = serde_json::to_value(object).map_err(Error::other)?;
    Ok(encoded.get_mut("status").map(Value::take).unwrap_or_default())
}
