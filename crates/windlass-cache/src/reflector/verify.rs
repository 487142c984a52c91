//! Comparison of the initial events of a watch with a list.

use std::{collections::HashMap, sync::Arc};

use futures::StreamExt;
use windlass_api::{ListItem, ListOptions, ListWatch, ListWatchError, Meta, ObjectKey, ResourceVersion, VersionMatch};

use crate::cached::Cached;

/// The keys of objects that differ between a list and the initial events of a watch.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Differences(pub(super) Vec<ObjectKey>);

/// Returns the metadata of an object in any encoding.
fn meta_of(body: &[u8]) -> Result<Meta, ListWatchError> {
    if windlass_protobuf::is_protobuf(body) {
        let meta = windlass_protobuf::meta(body);
        return meta.ok_or_else(|| ListWatchError::Decode("the metadata of an object cannot be read".into()));
    }
    Meta::parse(body).map_err(|error| ListWatchError::Decode(error.into()))
}

/// Lists at exactly this version, and compares keys and versions.
pub(super) async fn compare<K>(
    list_watch: &Arc<dyn ListWatch>,
    options: ListOptions,
    version: &ResourceVersion,
    streamed: &[Cached<K>],
) -> Result<Differences, ListWatchError> {
    let exactly = ListOptions {
        resource_version: Some(version.to_string()),
        version_match: Some(VersionMatch::Exact),
        ..options
    };
    let mut items = list_watch.list(exactly).await?;
    let mut left: HashMap<_, _> =
        streamed.iter().map(|object| (object.key().clone(), object.meta().resource_version().clone())).collect();
    let mut differences = Differences::default();
    while let Some(item) = items.next().await {
        match item {
            Ok(ListItem::Object(body)) => {
                let meta = meta_of(&body)?;
                if left.remove(meta.key()).is_none_or(|streamed| streamed != *meta.resource_version()) {
                    differences.0.push(meta.key().clone());
                }
            }
            Ok(ListItem::End(_)) => {
                differences.0.extend(left.into_keys());
                differences.0.sort_unstable();
                return Ok(differences);
            }
            // The initial events may only contain an older state of it, so there is nothing to compare.
            Err(ListWatchError::Oversize(object)) => {
                if let Some(meta) = &object.meta {
                    left.remove(meta.key());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(ListWatchError::Transport("the list was cut off".into()))
}
