//! Getting one object, and how fresh a read must be.

use std::time::Duration;

use serde_json::Value;
use windlass_api::{GroupResource, Status};

use super::{GetParams, Item, Registry, Target, Tree, storage_failure};
use crate::storage::{Revision, StorageError};

/// How long a read waits for a revision that has not happened yet.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

impl Registry {
    /// Reads one object.
    pub(crate) async fn get(&self, target: &Target, params: GetParams) -> Result<Item, Status> {
        if let Some(text) = params.resource_version.as_deref().filter(|text| !matches!(*text, "" | "0")) {
            // Unlike of lists, this is not the client's fault to the real server's cache.
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
        let item = Self::present(&target.resource, item).await?;
        match target.subresource.as_deref() {
            Some("scale") => super::scale::scale_of(target, &item),
            _ => Ok(item),
        }
    }

    /// The object in the stored version.
    pub(super) async fn get_stored(&self, target: &Target) -> Result<Item, Status> {
        match self.stored(&target.key(target.name())).await? {
            Some(value) => Item::stored(&value),
            None => Err(Status::not_found(&target.group_resource(), target.name())),
        }
    }

    /// Waits for a revision, for a while.
    pub(super) async fn wait_for(&self, revision: Revision) -> Result<(), Status> {
        let now = || async { self.0.storage.revision().await.map_err(|error| storage_failure(&error)) };
        if now().await? >= revision {
            return Ok(());
        }
        match tokio::time::timeout(FRESHNESS_WAIT, self.0.watches.reached(revision)).await {
            Ok(reached) => reached.map_err(|error| storage_failure(&error)),
            Err(_) => Err(storage_failure(&StorageError::Future { requested: revision, current: now().await? })),
        }
    }
}

/// One of the objects of a kind that is not stored.
fn fixed_item(target: &Target, fixed: Vec<Value>) -> Result<Item, Status> {
    let found = fixed.into_iter().find(|object| object.text(&["metadata", "name"]) == target.name());
    // The real server says it of the kind, not of the resource.
    let missing = || Status::not_found(&GroupResource::new("", target.resource.singular.clone()), target.name());
    Ok(Item::fixed(target, &found.ok_or_else(missing)?))
}

/// Reads a resourceVersion; none and 0 ask for nothing in particular.
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

/// Reads a number as Go's `ParseUint` does; the error is Go's text.
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
