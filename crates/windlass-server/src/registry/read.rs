//! The `get` verb, and the wait for a minimum revision.

use std::time::Duration;

use serde_json::Value;
use windlass_api::{GroupResource, Status};

use super::{GetParams, Registry, storage_failure};
use crate::storage::{Revision, StorageError};
use crate::{
    object::Tree,
    resource::{Item, Target},
};

/// The maximum wait for a future revision.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

impl Registry {
    /// Returns one object.
    pub(crate) async fn get(&self, target: &Target, params: GetParams) -> Result<Item, Status> {
        if let Some(text) = params.resource_version.as_deref().filter(|text| !matches!(*text, "" | "0")) {
            // For a get, the real server's cache does not report an invalid version as a bad request; for a list it
            // does.
            let revision = if target.resource.strategy.rules().cached {
                let why = |why| Status::unclassified(format!("resourceVersion: Invalid value: {text:?}: {why}"));
                Some(Revision(parse_uint(text).map_err(why)?))
            } else {
                parse_version(Some(text))?
            };
            if let Some(revision) = revision {
                self.wait_for(revision).await?;
            }
        }
        if let Some(fixed) = target.resource.strategy.fixed() {
            return fixed_item(target, fixed);
        }
        let item = self.get_stored(target).await?;
        let item = Self::convert_item(&target.resource, item).await?;
        match target.subresource.as_deref() {
            Some("scale") => super::scale::scale_of(target, &item),
            _ => Ok(item),
        }
    }

    /// Returns the object in the stored version.
    pub(super) async fn get_stored(&self, target: &Target) -> Result<Item, Status> {
        match self.stored(&target.key(target.name())).await? {
            Some(value) => Item::stored(&value),
            None => Err(Status::not_found(&target.group_resource(), target.name())),
        }
    }

    /// Waits until the storage has reached a revision, for up to 3 s.
    pub(super) async fn wait_for(&self, revision: Revision) -> Result<(), Status> {
        let now = || async { self.0.storage.revision().await.map_err(|error| storage_failure(&error)) };
        if now().await? >= revision {
            return Ok(());
        }
        match tokio::time::timeout(FRESHNESS_WAIT, self.0.watches.wait_for_revision(revision)).await {
            Ok(reached) => reached.map_err(|error| storage_failure(&error)),
            Err(_) => Err(storage_failure(&StorageError::Future { requested: revision, current: now().await? })),
        }
    }
}

/// Returns one of the objects of a kind that is not stored.
fn fixed_item(target: &Target, fixed: Vec<Value>) -> Result<Item, Status> {
    let found = fixed.into_iter().find(|object| object.text(&["metadata", "name"]) == target.name());
    // The real server's message names the kind, not the resource.
    let missing = || Status::not_found(&GroupResource::new("", target.resource.singular.clone()), target.name());
    Ok(Item::fixed(target, &found.ok_or_else(missing)?))
}

/// Parses a resourceVersion; a missing version and 0 give `None`.
pub(super) fn parse_version(text: Option<&str>) -> Result<Option<Revision>, Status> {
    match text {
        None | Some("" | "0") => Ok(None),
        Some(text) => match parse_uint(text) {
            Ok(revision) => Ok(Some(Revision(revision))),
            Err(why) => Err(Status::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: {why}"
            ))),
        },
    }
}

/// Parses a number as Go's `ParseUint` does; the error is Go's text.
pub(super) fn parse_uint(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse() {
            Ok(number) => return Ok(number),
            Err(_) => "value out of range",
        }
    };
    Err(format!("strconv.ParseUint: parsing {text:?}: {why}"))
}
