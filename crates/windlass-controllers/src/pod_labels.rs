//! An index of pods by namespace and labels.
//!
//! Pods of one template have the same labels, so a selector is compared with a few sets of labels instead of with each
//! pod of the namespace.

use std::sync::{Arc, LazyLock};

use k8s_openapi::api::core::v1::Pod;
use windlass_api::Meta;
use windlass_cache::{Cached, Index, Lister, UnknownIndex};
use windlass_runtime::Watch;

/// Separates the namespace, the keys and the values. None of them contains it.
const SEPARATOR: char = '\0';

/// The index of [`selected`].
static BY_LABELS: LazyLock<Index<Pod>> = LazyLock::new(|| Index::on_meta("namespace and labels", set_of));

/// The labels of one or more pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelSet<'s>(&'s str);

/// Returns a watch of the pods of the cluster, with the index of [`selected`].
pub(crate) fn by_labels() -> Watch<Pod> {
    Watch::all().index(BY_LABELS.clone())
}

/// Returns the pods of a namespace whose labels match. Takes time in proportion to the number of different sets of
/// labels and of results.
///
/// Returns an error if the pods are not watched with [`by_labels`].
pub(crate) fn selected(
    pods: &Lister<Pod>,
    namespace: &str,
    matches: impl Fn(LabelSet<'_>) -> bool,
) -> Result<Vec<Cached<Pod>>, UnknownIndex> {
    let mut found = Vec::new();
    for set in pods.index_values(BY_LABELS.name())? {
        let (within, labels) = set.split_once(SEPARATOR).unwrap_or((&set, ""));
        if within == namespace && matches(LabelSet(labels)) {
            found.extend(pods.by_index(BY_LABELS.name(), &set)?);
        }
    }
    Ok(found)
}

/// Returns the index value of a pod.
fn set_of(pod: &Meta) -> Option<Arc<str>> {
    let mut set = pod.namespace()?.to_string();
    for (key, value) in pod.labels() {
        set.extend([SEPARATOR]);
        set.push_str(key);
        set.extend([SEPARATOR]);
        set.push_str(value);
    }
    Some(set.into())
}

impl<'s> LabelSet<'s> {
    /// Returns the value of a label.
    pub(crate) fn label(self, key: &str) -> Option<&'s str> {
        let mut parts = self.0.split(SEPARATOR);
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            if name == key {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_api::LabelSelector;

    use super::*;

    fn pod(namespace: &str, name: &str, labels: &Value) -> Pod {
        let container = json!({"name": "c", "image": "i"});
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_selected_by_namespace_and_labels() -> Result<(), Box<dyn std::error::Error>> {
        let env = windlass_envtest::Environment::start().await;
        let pods = [
            pod("default", "a", &json!({"app": "web", "tier": "front"})),
            pod("default", "b", &json!({"app": "web", "tier": "front"})),
            pod("default", "c", &json!({"app": "web", "tier": ""})),
            pod("default", "d", &json!({"front": "web"})),
            pod("default", "e", &json!({})),
            pod("kube-system", "f", &json!({"app": "web", "tier": "front"})),
        ];
        for pod in &pods {
            env.client().create(pod).await?;
        }
        let manager = env.manager();
        let store = manager.cluster().informer::<Pod>(&by_labels()).store();
        env.run(manager);
        while store.len() < pods.len() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        for (selector, names) in [
            ("app=web", "abc"),
            ("tier=front", "ab"),
            ("tier=", "c"),
            ("!app", "de"),
            ("app in (x)", ""),
            ("", "abcde"),
        ] {
            let selector: LabelSelector = selector.parse()?;
            let found = selected(&store, "default", |set| selector.matches(|key| set.label(key)))?;
            let mut found: Vec<_> = found.iter().map(|pod| pod.meta().name().to_string()).collect();
            found.sort();
            assert_eq!(found.concat(), names, "{selector:?}");
        }
        let all = store.index_values(BY_LABELS.name())?.len();
        assert_eq!(all, 5, "pods with the same labels are compared once");
        Ok(env.stop().await?)
    }
}
