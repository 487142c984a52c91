//! An object as it should be, whether it is there already or not.
//!
//! Where all that matters is what one's own program wants, [`Client::apply`] says it in one request. This is for changes that
//! depend on what is there.

use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_api::{ObjectExt as _, Patch, Resource, patch::merge_diff};
use windlass_client::Client;

use crate::{Error, Result};

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upserted<K> {
    /// It was not there, and is now.
    Created(K),
    /// It was changed.
    Changed(K),
    /// It was so already, and nothing was written.
    Unchanged(K),
}

/// The change made another object of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a change of {before} may not make it {after}")]
pub struct Renamed {
    /// Which object was to be changed.
    pub before: String,
    /// What it would have been.
    pub after: String,
}

impl<K> Upserted<K> {
    /// The object as it is now.
    pub fn into_object(self) -> K {
        let (Self::Created(object) | Self::Changed(object) | Self::Unchanged(object)) = self;
        object
    }
}

/// Reads an object, changes it and writes it back if that changed something; creates it if it is not there.
///
/// `wanted` names the object, and is what is changed and created if it is not there. The status is not written. Somebody
/// else's write in between is a conflict, and an error: the next reconcile begins with what is there then.
///
/// ```
/// # use windlass_api::{ObjectBuilder as _, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_runtime::{Context, Result, upsert::create_or_update};
/// # async fn reconcile(cx: Context) -> Result<()> {
/// let colours = ConfigMap::named("colours").in_namespace("shop");
/// create_or_update(cx.live(), colours, |map| {
///     map.data.get_or_insert_default().insert("door".into(), "blue".into());
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub async fn create_or_update<K: Resource>(
    client: &Client,
    wanted: K,
    change: impl FnOnce(&mut K),
) -> Result<Upserted<K>> {
    let (before, mut object) = read(client, wanted).await?;
    let key = object.object_ref().to_string();
    change(&mut object);
    same(&key, &object)?;
    match before {
        None => Ok(Upserted::Created(client.create(&object).await?)),
        Some(before) if before == encoded(&object)? => Ok(Upserted::Unchanged(object)),
        Some(_) => Ok(Upserted::Changed(client.update(&object).await?)),
    }
}

/// Creates an object, or returns the one that has its name already, unchanged: for what is made once and left alone then.
///
/// ```
/// # use windlass_api::{ObjectBuilder as _, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_runtime::{Context, Result, upsert::create_if_absent};
/// # async fn reconcile(cx: Context) -> Result<()> {
/// let colours = create_if_absent(cx.live(), &ConfigMap::named("colours").in_namespace("shop")).await?.into_object();
/// # let _ = colours;
/// # Ok(())
/// # }
/// ```
pub async fn create_if_absent<K: Resource>(client: &Client, object: &K) -> Result<Upserted<K>> {
    match client.create(object).await {
        Ok(created) => Ok(Upserted::Created(created)),
        Err(error) if error.is_already_exists() => Ok(Upserted::Unchanged(client.get::<K>(object.object_ref()).await?)),
        Err(error) => Err(error.into()),
    }
}

/// As [`create_or_update`], but only the difference is sent, as a merge patch, and that of the status to the status: writes
/// of others to other fields are no conflict.
pub async fn create_or_patch<K: Resource>(
    client: &Client,
    wanted: K,
    change: impl FnOnce(&mut K),
) -> Result<Upserted<K>> {
    let (before, mut object) = read(client, wanted).await?;
    let key = object.object_ref();
    change(&mut object);
    same(&key.to_string(), &object)?;
    let after = encoded(&object)?;
    let Some(before) = before else {
        let created = client.create(&object).await?;
        // What is not stored with the rest is patched afterwards, if there is something to it.
        return match after.get("status").filter(|status| is_something(status)) {
            Some(status) if encoded(&created)?.get("status") != Some(status) => {
                let patch = Patch::Merge(json!({"status": status}));
                Ok(Upserted::Created(client.patch::<K>(key, patch).subresource("status").await?))
            }
            _ => Ok(Upserted::Created(created)),
        };
    };
    let Value::Object(mut rest) = merge_diff(&before, &after) else { return Ok(Upserted::Unchanged(object)) };
    let status = rest.remove("status");
    if rest.is_empty() && status.is_none() {
        return Ok(Upserted::Unchanged(object));
    }
    let mut written = None;
    if !rest.is_empty() {
        written = Some(client.patch::<K>(key.clone(), Patch::Merge(Value::Object(rest))).await?);
    }
    if let Some(status) = status {
        let patch = Patch::Merge(Value::Object(Map::from_iter([("status".to_owned(), status)])));
        written = Some(client.patch::<K>(key, patch).subresource("status").await?);
    }
    Ok(written.map_or(Upserted::Unchanged(object), Upserted::Changed))
}

/// What is there, as it is encoded, and the object to be changed.
async fn read<K: Resource>(client: &Client, wanted: K) -> Result<(Option<Value>, K)> {
    match client.get_opt::<K>(wanted.object_ref()).await? {
        Some(found) => Ok((Some(encoded(&found)?), found)),
        None => Ok((None, wanted)),
    }
}

fn same<K: Resource>(before: &str, object: &K) -> Result<()> {
    let after = object.object_ref().to_string();
    if before == after { Ok(()) } else { Err(Error::other(Renamed { before: before.to_owned(), after })) }
}

fn encoded<K: Resource>(object: &K) -> Result<Value> {
    serde_json::to_value(object).map_err(Error::other)
}

fn is_something(status: &Value) -> bool {
    match status {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}
