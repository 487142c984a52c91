//! Which objects a list or a watch is about.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;
use windlass_api::{FieldSelector, LabelSelector, Meta, ObjectKey, Status};

use super::{Item, ResourceInfo, Target, strategy::UnknownField};

/// The selectors of a request, read and checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

/// What has been derived from one event of the storage, for all of its watchers.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    /// The event as a JSON frame, for watchers without selectors.
    pub(super) frame: OnceLock<Bytes>,
    /// The same as a protobuf frame; none if there is no message for the object.
    pub(super) protobuf_frame: OnceLock<Option<Bytes>>,
    /// The state after it.
    pub(super) current: OnceLock<Result<Facts, Status>>,
    /// The state before it.
    pub(super) previous: OnceLock<Result<Facts, Status>>,
}

/// An object, and as much of it as has been decoded so far.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) item: Item,
    meta: OnceLock<Meta>,
    /// In the version of the resource that first asked; views with selectors of their own decode anew.
    value: OnceLock<Value>,
}

// === impl Facts ===

impl Facts {
    pub(super) fn new(item: Item) -> Self {
        Self { item, meta: OnceLock::new(), value: OnceLock::new() }
    }

    fn meta(&self) -> &Meta {
        // A body without readable metadata was not written by us; it has no labels then.
        self.meta.get_or_init(|| self.item.encoded.meta().unwrap_or_else(|_| Meta::new(ObjectKey::new(""))))
    }

    fn value(&self) -> &Value {
        self.value.get_or_init(|| self.item.value())
    }
}

// === impl Selection ===

impl Selection {
    /// Reads the selectors of a request.
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

    /// Fails when the selectors name fields that cannot be selected by.
    pub(crate) fn check(&self, resource: &ResourceInfo) -> Result<(), Status> {
        self.fields.requirements().iter().try_for_each(|requirement| check_field(resource, &requirement.field))
    }

    /// Whether everything is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The one key, or the prefix of the keys (with a slash at its end), that selected objects have.
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

    /// Whether an object is selected.
    pub(super) fn matches(&self, resource: &ResourceInfo, facts: &Facts) -> bool {
        if !self.labels.is_empty() {
            let meta = facts.meta();
            if !self.labels.matches(|key| meta.label(key)) {
                return false;
            }
        }
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
    let names_its_own = !rules.fields.is_empty() || matches!(resource.shape, super::Shape::Custom(_));
    let (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
    Err(Status::bad_request(match rules.unknown_field {
        UnknownField::OfKind => format!("field label {label:?} not supported for {kind}"),
        UnknownField::OfVersion => format!("field label not supported for {group}/{version}, Kind={kind}: {label}"),
        UnknownField::Listed if names_its_own => format!("field label not supported: {label}"),
        UnknownField::Listed => {
            format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }))
}
