//! Writes the status of an object: only if it has changed, whole, and on the version that is there.

use serde_json::Value;
use windlass_api::{ObjectExt as _, Resource};
use windlass_client::Client;

use crate::{Error, Result};

/// The number of times that a status is written after a conflict.
const RETRIES: usize = 4;

/// The outcome of writing a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusWrite<K> {
    /// The status was written; the object as the server stored it.
    Written(Box<K>),
    /// The status was so already. Nothing was sent.
    Unchanged,
    /// The object is gone, or another one has its name.
    Gone,
}

impl<K> StatusWrite<K> {
    /// Reports whether the status was written.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }
}

/// Changes the status of an object and writes it if that changed something.
///
/// - The status is replaced, not merged: a field that is left out when it is encoded (`skip_serializing_if`) is cleared on the
///   server, too. A merge patch would leave it there.
/// - The version of the object is sent along. If it is not the newest one, the object is read from the server, changed again
///   and written again, up to four times. `change` therefore sets the fields that it owns, and derives nothing from the old ones
///   that another client may have changed.
/// - Everything but the status is ignored by the server.
///
/// The kind needs the status subresource, and the controller the verbs `get` on the resource and `update` on its status.
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
