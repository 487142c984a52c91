//! The `list` verb: pages, consistency and selectors.

use std::sync::Arc;

use windlass_api::{GroupKind, Status};

use super::{Registry, Selection, continue_token::ContinueToken, read::parse_version, select::Facts, storage_failure};
use crate::storage::{CompactValue, RangeQuery, Revision, StorageError};
use crate::{
    kubernetes::KubernetesVersion,
    object::{Errors, Path},
    offload::{LARGE, PART, offload},
    resource::{Item, ListItem, ResourceInfo, Target},
};

/// The parameters of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListParams {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// The maximum number of items; 0 for no limit.
    pub(crate) limit: u64,
    /// The continue token; empty is the same as `None`.
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// `Exact` or `NotOlderThan`; any other value is rejected.
    pub(crate) version_match: Option<String>,
    /// Rejected, because it is only valid for watches.
    pub(crate) send_initial_events: Option<bool>,
}

/// A list, or a page of one.
#[derive(Clone, Debug)]
pub(crate) struct ItemList<I = Item> {
    pub(crate) revision: Revision,
    pub(crate) continue_token: Option<String>,
    /// The number of objects after this page; only set without selectors.
    pub(crate) remaining: Option<u64>,
    pub(crate) items: Vec<I>,
    /// `true` if the storage read the items for this list, so that only the list keeps them in memory.
    pub(crate) is_loaded: bool,
    /// The size of the scope. `None` for a list of one name and for a page after the first one.
    pub(crate) scope: Option<ScopeSize>,
}

/// The objects in the scope of a list: in the whole collection, or in the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScopeSize {
    /// The number of all objects, selected or not.
    pub(crate) count: u64,
    /// The objects that were read, and their bytes.
    pub(crate) read: u64,
    pub(crate) bytes: u64,
}

/// The number of values that are read at a time when a selector may drop most of them.
const SCAN_PAGE: usize = 500;

impl<I> ItemList<I> {
    /// Converts the items.
    pub(crate) fn try_map<J>(self, convert: impl FnMut(I) -> Result<J, Status>) -> Result<ItemList<J>, Status> {
        let Self { revision, continue_token, remaining, items, is_loaded, scope } = self;
        let items = items.into_iter().map(convert).collect::<Result<_, _>>()?;
        Ok(ItemList { revision, continue_token, remaining, items, is_loaded, scope })
    }
}

impl Registry {
    /// Lists a collection.
    pub(crate) async fn list(&self, target: &Target, params: ListParams) -> Result<ItemList, Status> {
        self.list_compact(target, params).await?.try_map(ListItem::into_item)
    }

    /// Lists a collection, whose items can be compressed.
    pub(crate) async fn list_compact(
        &self,
        target: &Target,
        mut params: ListParams,
    ) -> Result<ItemList<ListItem>, Status> {
        let selection = Selection::parse(params.labels.as_deref(), params.fields.as_deref())?;
        check(&params)?;
        selection.check(&target.resource)?;
        if let Some(fixed) = target.resource.strategy.fixed() {
            let items = fixed.iter().map(|object| Item::fixed(target, object));
            let items = items.filter(|item| selection.matches(&target.resource, &Facts::new(item.clone())));
            return Ok(ItemList {
                revision: Revision(0),
                continue_token: None,
                remaining: None,
                items: items.map(ListItem::Plain).collect(),
                is_loaded: false,
                scope: None,
            });
        }
        let topic = selection.topic(target);
        if is_key(&topic) {
            // The list of one name has no pages. A token has no effect, but must be valid.
            params.limit = 0;
            if let Some(token) = params.continue_token.take().filter(|token| !token.is_empty()) {
                ContinueToken::decode(&token, &target.prefix())?;
            }
        }
        let limit = usize::try_from(params.limit).ok().filter(|limit| *limit > 0);
        let prefix = target.prefix();
        let (start, at) = self.list_start(&params, &prefix).await?;
        let is_whole = topic == prefix && start.is_none();
        let mut query = RangeQuery { prefix: topic, start: start.clone(), limit: None, at };
        let scanned = if selection.is_empty() {
            query.limit = limit;
            self.range(query).await.map(|(revision, values, remaining)| {
                let bytes = bytes(&values);
                Scanned { revision, read: values.len() as u64, bytes, values, remaining, counts_scope: true }
            })
        } else {
            self.scan(query, &target.resource, &selection, limit).await
        };
        let Scanned { revision, values, remaining, read, bytes, counts_scope } =
            scanned.map_err(|error| match (error, start) {
                (ScanError::Storage(StorageError::Compacted { .. }), Some(start)) => expired_page(start, &prefix),
                (ScanError::Storage(error), _) => storage_failure(&error),
                (ScanError::Status(status), _) => status,
            })?;
        let is_loaded = !self.0.storage.shares_values();
        let mut list =
            ItemList { revision, continue_token: None, remaining: None, items: Vec::new(), is_loaded, scope: None };
        list.scope = (is_whole && counts_scope).then_some(ScopeSize { count: read + remaining, read, bytes });
        if let Some(last) = values.last().filter(|_| remaining > 0) {
            let token = ContinueToken { revision: Some(revision.0), start: format!("{}\0", last.key) };
            list.continue_token = Some(token.encode(&prefix));
            list.remaining = Some(remaining).filter(|_| selection.is_empty());
        }
        list.items = if target.resource.conversion.is_none() {
            values.into_iter().map(ListItem::stored).collect::<Result<_, _>>()?
        } else {
            let converted = Self::convert_items(&target.resource, read_values(values).await?).await?;
            converted.into_iter().map(ListItem::Plain).collect()
        };
        Ok(list)
    }

    /// Returns the start of a list, and its revision if the request specifies one.
    async fn list_start(
        &self,
        params: &ListParams,
        prefix: &str,
    ) -> Result<(Option<String>, Option<Revision>), Status> {
        let token = params.continue_token.as_deref().filter(|token| !token.is_empty());
        let token = token.map(|token| ContinueToken::decode(token, prefix)).transpose()?;
        let version = parse_version(params.resource_version.as_deref())?;
        if let Some(token) = token {
            if version.is_some() || params.resource_version.as_deref() == Some("0") {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            return Ok((Some(token.start), token.revision.map(Revision)));
        }
        let Some(revision) = version else { return Ok((None, None)) };
        let exact = match params.version_match.as_deref() {
            Some("Exact") => true,
            Some(_) => false,
            // Without `resourceVersionMatch`, a page is read at exactly the given revision, and a whole list at that or
            // a later one.
            None => params.limit > 0,
        };
        if exact && self.resources().kubernetes() < KubernetesVersion::V1_34 {
            self.check_exact(revision).await?;
        }
        self.wait_for(revision).await?;
        Ok((None, exact.then_some(revision)))
    }

    /// Checks that a revision exists. Before 1.34, the cache did not serve lists at an exact revision, and etcd does not
    /// wait for one.
    async fn check_exact(&self, revision: Revision) -> Result<(), Status> {
        let current = self.0.storage.revision().await.map_err(|error| storage_failure(&error))?;
        if current >= revision {
            return Ok(());
        }
        Err(Status::unclassified("etcdserver: mvcc: required revision is a future revision"))
    }

    async fn range(&self, query: RangeQuery) -> Result<(Revision, Vec<CompactValue>, u64), ScanError> {
        let range = self.0.storage.range_compact(query).await?;
        Ok((range.revision, range.values, range.remaining))
    }

    /// Reads until `limit` values are selected or all values are read. Reads only the values with the selected value of
    /// the indexed field, if possible.
    async fn scan(
        &self,
        mut query: RangeQuery,
        resource: &Arc<ResourceInfo>,
        selection: &Selection,
        limit: Option<usize>,
    ) -> Result<Scanned, ScanError> {
        if query.at.is_none()
            && query.start.is_none()
            && let Some((revision, values)) = self.find_indexed(resource, &query.prefix, selection, limit).await?
        {
            let selected = Self::selected(resource, selection, &values).await.map_err(ScanError::Status)?;
            let (read, bytes) = (values.len() as u64, bytes(&values));
            let values = selected.into_iter().map(|index| values[index].clone()).collect();
            return Ok(Scanned { revision, values, remaining: 0, read, bytes, counts_scope: false });
        }
        let mut found =
            Scanned { revision: Revision(0), values: Vec::new(), remaining: 0, read: 0, bytes: 0, counts_scope: true };
        let is_key = is_key(&query.prefix);
        // A key may also be a prefix of other keys, which follow it.
        query.limit = if is_key { Some(1) } else { limit.map(|limit| limit.max(SCAN_PAGE)) };
        loop {
            let (revision, mut values, mut remaining) = self.range(query.clone()).await?;
            if is_key {
                values.retain(|value| *value.key == *query.prefix);
                remaining = 0;
            }
            found.revision = revision;
            query.at = Some(revision);
            query.start = values.last().map(|last| format!("{}\0", last.key));
            let count = values.len();
            found.bytes += bytes(&values);
            let selected = Self::selected(resource, selection, &values).await.map_err(ScanError::Status)?;
            for index in selected {
                let value = &values[index];
                found.values.push(value.clone());
                let read = index + 1;
                if Some(found.values.len()) == limit && (remaining > 0 || read < count) {
                    found.read += read as u64;
                    found.remaining = remaining + (count - read) as u64;
                    // The next page reads the values behind this one again, so the storage has to retain them.
                    let rest = RangeQuery { start: Some(format!("{}\0", value.key)), limit: Some(0), ..query };
                    self.range(rest).await?;
                    return Ok(found);
                }
            }
            found.read += count as u64;
            if remaining == 0 || count == 0 {
                return Ok(found);
            }
        }
    }

    /// Returns the indexes of the selected values. Compressed values are decompressed in parts, outside of the runtime,
    /// and not kept. So a selector needs little memory, however long the collection is.
    async fn selected(
        resource: &Arc<ResourceInfo>,
        selection: &Selection,
        values: &[CompactValue],
    ) -> Result<Vec<usize>, Status> {
        // A webhook converts a whole list in one request.
        let is_whole = resource.conversion.as_ref().is_some_and(|conversion| conversion.translator.is_some())
            || !values.iter().any(CompactValue::is_compressed);
        let mut selected = Vec::new();
        let mut first = 0;
        while first < values.len() {
            let part = if is_whole { &values[first..] } else { part(&values[first..]) };
            let items = read_values(part.to_vec()).await?;
            let items = Self::convert_items(resource, items).await?;
            let found = selection.select(resource, items).await?;
            selected.extend(found.into_iter().map(|(index, _)| first + index));
            first += part.len();
        }
        Ok(selected)
    }
}

/// Reports whether a topic covers a key: a topic with a trailing slash is a prefix, any other is a single key.
pub(super) fn is_about(topic: &str, key: &str) -> bool {
    !is_key(topic) || topic == key
}

/// Reports whether a topic is the key of one object.
fn is_key(topic: &str) -> bool {
    !topic.ends_with('/')
}

/// Returns the first values, up to the size of a part.
fn part(values: &[CompactValue]) -> &[CompactValue] {
    let mut bytes = 0;
    let within = values.iter().take_while(|value| {
        let is_within = bytes < PART;
        bytes += value.body.size();
        is_within
    });
    let count = within.count();
    &values[..count]
}

/// Reads values. Many compressed ones are decompressed outside of the runtime.
pub(super) async fn read_values(values: Vec<CompactValue>) -> Result<Vec<Item>, Status> {
    let read = |values: Vec<CompactValue>| {
        values.into_iter().map(|value| ListItem::stored(value)?.into_item()).collect::<Result<_, Status>>()
    };
    let compressed: usize = values.iter().filter(|value| value.is_compressed()).map(|value| value.body.size()).sum();
    if compressed >= LARGE { offload(move || read(values)).await? } else { read(values) }
}

struct Scanned {
    revision: Revision,
    values: Vec<CompactValue>,
    /// The number of unread values; greater than 0 if the limit was reached.
    remaining: u64,
    /// The number of values that were read, selected or not.
    read: u64,
    /// The bytes of these values, and of others that were read with them.
    bytes: u64,
    /// `false` if an index has chosen the values that were read.
    counts_scope: bool,
}

fn bytes(values: &[CompactValue]) -> u64 {
    values.iter().map(|value| value.body.size() as u64).sum()
}

enum ScanError {
    Storage(StorageError),
    Status(Status),
}

impl From<StorageError> for ScanError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

fn check(params: &ListParams) -> Result<(), Status> {
    let mut errors = Errors::default();
    let path = Path::new("resourceVersionMatch");
    if let Some(given) = params.version_match.as_deref().filter(|given| !given.is_empty()) {
        let version = params.resource_version.as_deref().unwrap_or_default();
        if version.is_empty() {
            errors.forbidden(&path, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if params.continue_token.as_deref().is_some_and(|token| !token.is_empty()) {
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(given, "Exact" | "NotOlderThan") {
            // The real server does not sort these values.
            let message = format!("Unsupported value: {given:?}: supported values: \"Exact\", \"NotOlderThan\", \"\"");
            errors.add(&path, "FieldValueNotSupported", message);
        }
        if given == "Exact" && version == "0" {
            errors.forbidden(&path, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if params.send_initial_events.is_some() {
        errors.forbidden(&Path::new("sendInitialEvents"), "sendInitialEvents is forbidden for list");
    }
    errors.check(&list_options(), "")
}

/// Returns the kind in validation errors of list options.
pub(super) fn list_options() -> GroupKind {
    GroupKind::new("meta.k8s.io", "ListOptions")
}

fn expired_page(start: String, prefix: &str) -> Status {
    const TEXT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                        list without the continue parameter, or use the continue token in this response to retrieve the \
                        remainder of the results. Continuing with the provided token results in an inconsistent list - \
                        objects that were created, modified, or deleted between the time the first chunk was returned and \
                        now may show up in the list.";
    let mut status = Status::expired(TEXT);
    status.metadata.continue_token = Some(ContinueToken { revision: None, start }.encode(prefix));
    status
}
