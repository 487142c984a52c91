//! Selection of the objects of a list or a watch.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use tokio::task;
use windlass_api::{FieldSelector, LabelSelector, Meta, ObjectKey, Status};

use crate::{
    offload::{LARGE, PART, offload},
    resource::{Item, ResourceInfo, Target, UnknownField},
};

/// The number of objects whose labels are read before other requests may run, unless they have many bytes.
const SCANNED: usize = 500;

/// The parsed selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

/// The data derived from one storage event, shared by all its watchers.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    /// The event as a JSON frame, for watchers without selectors.
    pub(super) frame: OnceLock<Bytes>,
    /// The event as a protobuf frame; `None` if the object has no protobuf message.
    pub(super) protobuf_frame: OnceLock<Option<Bytes>>,
    /// The state after the event.
    pub(super) current: OnceLock<Result<Facts, Status>>,
    /// The state before the event.
    pub(super) previous: OnceLock<Result<Facts, Status>>,
}

/// An object and its parts that have been decoded so far.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) item: Item,
    meta: OnceLock<Meta>,
    /// The object in the version of the first reader. Views with different selectable fields decode it again.
    value: OnceLock<Value>,
}

// === impl Facts ===

impl Facts {
    pub(super) fn new(item: Item) -> Self {
        Self { item, meta: OnceLock::new(), value: OnceLock::new() }
    }

    fn meta(&self) -> &Meta {
        // The server does not store bodies without readable metadata; treats one as an object without labels.
        self.meta.get_or_init(|| self.item.encoded.meta().unwrap_or_else(|_| Meta::new(ObjectKey::new(""))))
    }

    fn value(&self) -> &Value {
        self.value.get_or_init(|| self.item.value())
    }
}

// === impl Selection ===

impl Selection {
    /// Parses the selectors of a request.
    pub(crate) fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Self, Status> {
        let labels: LabelSelector = match labels {
            None | Some("") => LabelSelector::default(),
            Some(text) => text.parse().map_err(|error| Status::bad_request(format!("{error}")))?,
        };
        let fields: FieldSelector = match fields {
            None | Some("") => FieldSelector::default(),
            Some(text) => text.parse().map_err(|error| Status::bad_request(format!("{error}")))?,
        };
        Ok(Self { labels, fields })
    }

    /// Returns an error if the selectors name fields that are not selectable.
    pub(crate) fn check(&self, resource: &ResourceInfo) -> Result<(), Status> {
        self.fields.requirements().iter().try_for_each(|requirement| check_field(resource, &requirement.field))
    }

    /// Reports whether the selection selects all objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns the key of the selected object, or the prefix of the selected keys with a trailing slash.
    pub(super) fn topic(&self, target: &Target) -> String {
        let resource = &target.resource;
        let namespace = match &target.namespace {
            Some(namespace) => Some(namespace.as_str()),
            None if resource.is_namespaced() => self.fields.exact("metadata.namespace").filter(|name| !name.is_empty()),
            None => None,
        };
        let mut topic = resource.prefix.clone();
        if let Some(namespace) = namespace {
            topic.push_str(namespace);
            topic.push('/');
        } else if resource.is_namespaced() {
            return topic;
        }
        let name = target.name.as_deref().or_else(|| self.fields.exact("metadata.name"));
        if let Some(name) = name.filter(|name| !name.is_empty() && !name.contains('/')) {
            topic.push_str(name);
        }
        topic
    }

    /// Returns the selected items, each with its index. Other requests may run between parts of many items. Items that
    /// have to be decoded are read outside of the runtime.
    pub(super) async fn select(
        &self,
        resource: &Arc<ResourceInfo>,
        items: Vec<Item>,
    ) -> Result<Vec<(usize, Facts)>, Status> {
        let items = items.into_iter().enumerate();
        if self.is_empty() {
            return Ok(items.map(|(index, item)| (index, Facts::new(item))).collect());
        }
        let (mut selected, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (index, item) in items {
            bytes += item.encoded.len_hint();
            part.push((index, item));
            if self.fields.is_empty() && (part.len() >= SCANNED || bytes >= PART) {
                bytes = 0;
                selected.extend(self.keep_selected(resource, std::mem::take(&mut part)));
                task::yield_now().await;
            } else if !self.fields.is_empty() && bytes >= PART {
                bytes = 0;
                let part = std::mem::take(&mut part);
                let (selection, resource) = (self.clone(), Arc::clone(resource));
                selected.extend(offload(move || selection.keep_selected(&resource, part)).await?);
            }
        }
        if self.fields.is_empty() || bytes < LARGE {
            selected.extend(self.keep_selected(resource, part));
        } else {
            let (selection, resource) = (self.clone(), Arc::clone(resource));
            selected.extend(offload(move || selection.keep_selected(&resource, part)).await?);
        }
        Ok(selected)
    }

    fn keep_selected(&self, resource: &ResourceInfo, part: Vec<(usize, Item)>) -> Vec<(usize, Facts)> {
        let selected = part.into_iter().filter_map(|(index, item)| Some((index, self.selected(resource, item)?)));
        selected.collect()
    }

    /// Returns the parts of an object if it is selected. Most labels need not be decoded.
    fn selected(&self, resource: &ResourceInfo, item: Item) -> Option<Facts> {
        let of = |mut labels: Vec<(&str, &str)>| {
            // They are sorted already, unless an older version stored them. A selector can have many requirements.
            labels.sort_unstable();
            let find = |key: &str| labels.binary_search_by_key(&key, |(name, _)| name).ok();
            self.labels.matches(|key| find(key).map(|at| labels[at].1))
        };
        let in_place = if self.labels.is_empty() { None } else { item.encoded.labels().map(of) };
        if in_place == Some(false) {
            return None;
        }
        let facts = Facts::new(item);
        let is_selected =
            (in_place == Some(true) || self.matches_labels(&facts)) && self.matches_fields(resource, &facts);
        is_selected.then_some(facts)
    }

    /// Reports whether an object is selected.
    pub(super) fn matches(&self, resource: &ResourceInfo, facts: &Facts) -> bool {
        self.matches_labels(facts) && self.matches_fields(resource, facts)
    }

    fn matches_labels(&self, facts: &Facts) -> bool {
        self.labels.is_empty() || self.labels.matches(|key| facts.meta().label(key))
    }

    fn matches_fields(&self, resource: &ResourceInfo, facts: &Facts) -> bool {
        self.fields.requirements().iter().all(|requirement| {
            let holds = match requirement.field.as_str() {
                "metadata.name" => **facts.meta().name() == *requirement.value,
                "metadata.namespace" => {
                    facts.meta().namespace().map_or("", |namespace| &**namespace) == requirement.value
                }
                label => resource.strategy.field(facts.value(), label) == requirement.value,
            };
            holds == requirement.equal
        })
    }
}

fn check_field(resource: &ResourceInfo, label: &str) -> Result<(), Status> {
    let rules = resource.strategy.rules();
    let common = label == "metadata.name" || (label == "metadata.namespace" && rules.selects_namespace);
    if common || resource.strategy.knows_field(label) {
        return Ok(());
    }
    let has_own_fields = !rules.fields.is_empty() || matches!(resource.shape, crate::resource::Shape::Custom(_));
    let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
    Err(Status::bad_request(match rules.unknown_field {
        UnknownField::OfKind => format!("field label {label:?} not supported for {kind}"),
        UnknownField::OfVersion => format!("field label not supported for {group}/{version}, Kind={kind}: {label}"),
        UnknownField::Listed if has_own_fields => format!("field label not supported: {label}"),
        UnknownField::Listed => {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }))
}
