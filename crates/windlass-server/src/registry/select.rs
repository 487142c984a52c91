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

/// The minimum number of objects in a part, however long the selector is.
const LEAST: usize = 16;

/// The number of requirements and values in a selector of labels for which this number applies. A longer selector is
/// applied to fewer objects at a time, outside of the runtime.
const SHORT: usize = 16;

/// The parsed selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Shared, because a long selector is used in parts outside of the runtime.
    labels: Arc<LabelSelector>,
    fields: Arc<FieldSelector>,
}

/// The data derived from one storage event, shared by all its watchers.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    /// The event as a JSON frame, for watchers without selectors.
    pub(super) frame: OnceLock<Bytes>,
    /// The event as a protobuf frame; `None` if the object has no protobuf message.
    pub(super) protobuf_frame: OnceLock<Option<Bytes>>,
    /// The event as an item of a CBOR sequence; `None` if the object cannot be converted.
    pub(super) cbor_frame: OnceLock<Option<Bytes>>,
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

    /// Returns the text at a path, read in place. Returns `None` if the object has to be decoded for that.
    fn text_at(&self, path: &str) -> Option<&str> {
        self.item.encoded.text_at(path)
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
        Ok(Self { labels: Arc::new(labels), fields: Arc::new(fields) })
    }

    /// Returns an error if the selectors name fields that are not selectable.
    pub(crate) fn check(&self, resource: &ResourceInfo) -> Result<(), Status> {
        self.fields.requirements().iter().try_for_each(|requirement| check_field(resource, &requirement.field))
    }

    /// Reports whether the selection selects all objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns the value that the field selector requires in a field.
    pub(super) fn required_field(&self, label: &str) -> Option<&str> {
        self.fields.exact(label)
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
        let length: usize = self.labels.requirements().iter().map(|requirement| 1 + requirement.values.len()).sum();
        let is_short = length <= SHORT;
        let is_in_place = is_short && self.fields.is_empty();
        let most = match (is_short, is_in_place) {
            (true, true) => SCANNED,
            (true, false) => usize::MAX,
            (false, _) => (SCANNED * SHORT / length).max(LEAST),
        };
        let (mut selected, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (index, item) in items {
            bytes += item.encoded.len_hint();
            part.push((index, item));
            if part.len() < most && bytes < PART {
                continue;
            }
            bytes = 0;
            let part = std::mem::take(&mut part);
            if is_in_place {
                selected.extend(self.select_in_place(resource, part).await?);
                task::yield_now().await;
            } else {
                selected.extend(self.select_elsewhere(resource, part).await?);
            }
        }
        if is_in_place {
            selected.extend(self.select_in_place(resource, part).await?);
        } else if bytes < LARGE && is_short {
            selected.extend(self.keep_selected(resource, part));
        } else {
            selected.extend(self.select_elsewhere(resource, part).await?);
        }
        Ok(selected)
    }

    /// Selects items by their labels. Most labels need not be decoded. If many have to be, this happens outside of the
    /// runtime.
    async fn select_in_place(
        &self,
        resource: &Arc<ResourceInfo>,
        part: Vec<(usize, Item)>,
    ) -> Result<Vec<(usize, Facts)>, Status> {
        let (mut selected, mut undecided, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (index, item) in part {
            match self.matches_in_place(&item) {
                Some(true) => selected.push((index, Facts::new(item))),
                Some(false) => {}
                None => {
                    bytes += item.encoded.len_hint();
                    undecided.push((index, item));
                }
            }
        }
        if undecided.is_empty() {
            return Ok(selected);
        }
        selected.extend(if bytes < LARGE {
            self.keep_selected(resource, undecided)
        } else {
            self.select_elsewhere(resource, undecided).await?
        });
        selected.sort_unstable_by_key(|(index, _)| *index);
        Ok(selected)
    }

    async fn select_elsewhere(
        &self,
        resource: &Arc<ResourceInfo>,
        part: Vec<(usize, Item)>,
    ) -> Result<Vec<(usize, Facts)>, Status> {
        let (selection, resource) = (self.clone(), Arc::clone(resource));
        offload(move || selection.keep_selected(&resource, part)).await
    }

    fn keep_selected(&self, resource: &ResourceInfo, part: Vec<(usize, Item)>) -> Vec<(usize, Facts)> {
        let selected = part.into_iter().filter_map(|(index, item)| Some((index, self.selected(resource, item)?)));
        selected.collect()
    }

    /// Returns the parts of an object if it is selected. Most labels need not be decoded.
    fn selected(&self, resource: &ResourceInfo, item: Item) -> Option<Facts> {
        let in_place = self.matches_in_place(&item);
        if in_place == Some(false) {
            return None;
        }
        let facts = Facts::new(item);
        let is_selected =
            (in_place == Some(true) || self.matches_labels(&facts)) && self.matches_fields(resource, &facts);
        is_selected.then_some(facts)
    }

    /// Reports whether an object has the selected labels. Returns `None` if they have to be decoded.
    fn matches_in_place(&self, item: &Item) -> Option<bool> {
        if self.labels.is_empty() {
            return Some(true);
        }
        item.encoded.labels().map(|labels| self.matches_sorted(labels))
    }

    /// Reports whether labels are selected. An object can have many labels, and a selector many requirements.
    fn matches_sorted(&self, mut labels: Vec<(&str, &str)>) -> bool {
        // They are sorted already, unless an older version stored them.
        labels.sort_unstable();
        let find = |key: &str| labels.binary_search_by_key(&key, |(name, _)| name).ok();
        self.labels.matches(|key| find(key).map(|at| labels[at].1))
    }

    /// Reports whether an object is selected.
    pub(super) fn matches(&self, resource: &ResourceInfo, facts: &Facts) -> bool {
        self.matches_labels(facts) && self.matches_fields(resource, facts)
    }

    fn matches_labels(&self, facts: &Facts) -> bool {
        match self.labels.requirements() {
            [] => true,
            [requirement] => requirement.matches(facts.meta().label(&requirement.key)),
            _ => self.matches_sorted(facts.meta().labels().iter().map(|(key, value)| (&**key, &**value)).collect()),
        }
    }

    fn matches_fields(&self, resource: &ResourceInfo, facts: &Facts) -> bool {
        self.fields.requirements().iter().all(|requirement| {
            let holds = match requirement.field.as_str() {
                "metadata.name" => **facts.meta().name() == *requirement.value,
                "metadata.namespace" => {
                    facts.meta().namespace().map_or("", |namespace| &**namespace) == requirement.value
                }
                label => match resource.strategy.rules().indexed_path(label).and_then(|path| facts.text_at(path)) {
                    Some(text) => *text == requirement.value,
                    None => resource.strategy.field(facts.value(), label) == requirement.value,
                },
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt as _;
    use serde_json::{Map, json};
    use tokio::time::Instant;

    use super::*;
    use crate::{
        encoded::{Encoded, Style},
        kinds::{KindOptions, built_ins},
        kubernetes::KubernetesVersion,
        offload::all_turns,
        storage::Revision,
    };

    fn config_maps() -> Arc<ResourceInfo> {
        Arc::clone(built_ins(&KindOptions::of(KubernetesVersion::default())).get("", "v1", "configmaps").unwrap())
    }

    fn item(labels: &Value) -> Item {
        let object = json!({"metadata": {"name": "a", "labels": labels}, "data": {"text": "x".repeat(1000)}});
        Item { encoded: Encoded::new(&object, Style::BuiltIn), revision: Revision(1) }
    }

    async fn indices(selection: &Selection, items: Vec<Item>) -> Vec<usize> {
        selection.select(&config_maps(), items).await.unwrap().into_iter().map(|(index, _)| index).collect()
    }

    #[tokio::test]
    async fn labels_that_must_be_decoded_and_long_selectors_need_turns() {
        // An escape, which only older versions stored.
        let items: Vec<_> =
            (0..400).map(|at| item(&json!({"a": "1", "b": if at % 2 == 0 { "<" } else { "2" }}))).collect();
        let selectors = [vec!["a=1".to_owned()], (0..100).map(|key| format!("!k{key}")).collect()];
        for selector in selectors {
            let selection = Selection::parse(Some(&selector.join(",")), None).unwrap();
            let (taking, all) = all_turns().await;
            let mut selecting = pin!(indices(&selection, items.clone()));
            for _ in 0..10 {
                assert!(selecting.as_mut().now_or_never().is_none());
                tokio::task::yield_now().await;
            }
            drop(all);
            assert_eq!(selecting.await, (0..400).collect::<Vec<_>>());
            drop(taking);
        }
    }

    #[test]
    fn decoded_labels_are_found_by_binary_search() {
        let mut labels: Map<String, Value> = (0..20_000).map(|key| (format!("k{key}"), "1".into())).collect();
        labels.insert("escaped".into(), "<".into());
        let selector: Vec<_> = (0..20_000).rev().map(|key| format!("k{key}=1")).collect();
        let selection = Selection::parse(Some(&selector.join(",")), None).unwrap();
        let facts = Facts::new(item(&labels.into()));
        assert_eq!(facts.meta().labels().len(), 20_001);
        let started = Instant::now();
        assert!(selection.matches_labels(&facts));
        assert!(started.elapsed().as_secs() < 2, "comparing each requirement with each label takes longer");
    }
}
