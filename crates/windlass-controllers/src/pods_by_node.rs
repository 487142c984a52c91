//! The pods of a node, found by an index.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Pod;
use windlass_cache::{Cached, Index, Lister};
use windlass_runtime::Watch;

const NAME: &str = "pods by node";

/// The index, which all controllers of a manager share.
static BY_NODE: LazyLock<Index<Pod>> = LazyLock::new(|| Index::on_path(NAME, ["spec", "nodeName"]));

/// Returns a watch of all pods, with the index of [`on`].
pub(crate) fn watch() -> Watch<Pod> {
    Watch::all().index(BY_NODE.clone())
}

/// Returns the pods that are bound to a node. Without a controller that watches with [`watch`], there are none.
pub(crate) fn on(pods: &Lister<Pod>, node: &str) -> Vec<Cached<Pod>> {
    pods.by_index(NAME, node).unwrap_or_default()
}
