//! Detection of autoscalers whose targets share pods. Such autoscalers do not scale.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use windlass_api::{LabelSelector, ObjectExt, ObjectKey};

/// The selectors of the targets, as of the last reconcile of each autoscaler.
#[derive(Debug, Default)]
pub(super) struct Selectors(Mutex<HashMap<ObjectKey, LabelSelector>>);

impl Selectors {
    /// Records an autoscaler's selector. If other autoscalers select some of its pods, returns all their names in Go's
    /// format.
    pub(super) fn overlap(&self, key: &ObjectKey, selector: &LabelSelector, pods: &[Arc<Pod>]) -> Option<String> {
        let mut known = self.0.lock();
        known.insert(key.clone(), selector.clone());
        let selects = |selector: &LabelSelector| {
            pods.iter().any(|pod| selector.matches(|label| pod.labels().get(label).map(String::as_str)))
        };
        let within = known.iter().filter(|(other, _)| other.namespace == key.namespace);
        let all: BTreeSet<_> =
            within.filter(|(_, selector)| selects(selector)).map(|(other, _)| other.name.to_string()).collect();
        if all.len() < 2 {
            return None;
        }
        let namespace = key.namespace.as_ref().map(ToString::to_string).unwrap_or_default();
        let shown: Vec<_> = all.iter().map(|name| format!("{{{name} {namespace}}}")).collect();
        Some(format!("[{}]", shown.join(" ")))
    }

    /// Drops the selector of a deleted autoscaler.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}
