//! Creation or update of an object, depending on whether it exists.
//!
//! If the program owns all fields that it sets, [`Client::apply`] does the same with one request. Use these functions
//! for changes that depend on the current state.

use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_api::{ObjectExt as _, Patch, Resource, patch::merge_diff};
use windlass_client::Client;

use crate::{Error, Result};

/// The outcome of an upsert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upserted<K> {
    /// The object did not exist and was created.
    Created(K),
    /// The object was changed.
    Changed(K),
    /// The object already had the desired state. Nothing was written.
    Unchanged(K),
}

/// The change function modified the identity of the object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a change of {before} must not rename it to {after}")]
pub struct Renamed {
    /// The object passed to the function.
    pub before: String,
    /// The object after the change.
    pub after: String,
}

impl<K> Upserted<K> {
    /// Returns the current object.
    pub fn into_object(self) -> K {
        let (Self::Created(object) | Self::Changed(object) | Self::Unchanged(object)) = self;
        object
    }
}

/// Reads an object, applies `change`, and writes it back if it changed. Creates the object if it does not exist.
///
/// `wanted` names the object. If the object does not exist, `change` is applied to `wanted`, which is then created. The
/// status is not written. A concurrent write leads to a conflict error; the next reconcile starts from the new state.
///
/// ```
/// # use windlass_api::{ObjectBuilder as _, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_runtime::{Context, Result, upsert::create_or_update};
/// # async fn reconcile(cx: Context) -> Result<()> {
/// let colors = ConfigMap::named("colors").in_namespace("shop");
/// create_or_update(cx.live(), colors, |map| {
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

/// Creates an object, or returns the existing object with the same name unchanged. For objects that are created once
/// and never updated.
///
/// ```
/// # use windlass_api::{ObjectBuilder as _, k8s_openapi::api::core::v1::ConfigMap};
/// # use windlass_runtime::{Context, Result, upsert::create_if_absent};
/// # async fn reconcile(cx: Context) -> Result<()> {
/// let colors = create_if_absent(cx.live(), &ConfigMap::named("colors").in_namespace("shop")).await?.into_object();
/// # let _ = colors;
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

/// Like [`create_or_update`], but sends only the difference as a merge patch, and changes of the status to the status
/// subresource. Concurrent writes to other fields do not conflict.
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
        // A creation does not store the status, so it is patched afterwards if it is not empty.
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

/// Returns the current encoded object, if it exists, and the object to change.
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
