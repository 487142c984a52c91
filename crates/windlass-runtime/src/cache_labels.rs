//! The description of a cache, for metrics and the console.

use windlass_cache::InformerStatus;

/// Returns the label selector and the field selector, joined by a comma.
pub(crate) fn selector(status: &InformerStatus) -> String {
    let parts: Vec<_> = [&status.labels, &status.fields].into_iter().filter_map(Option::as_deref).collect();
    parts.join(",")
}

/// Returns a type's name without its path.
pub(crate) fn short(type_name: &str) -> &str {
    let path = type_name.split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default()
}
