//! Labels and annotations.

use serde_json::Value;

use super::{Errors, Path, Tree, label_value, qualified_name};

/// The maximum size of all annotations, keys and values together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// Validates labels.
pub(crate) fn validate_labels(labels: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        errors.invalid_each(path, key, qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        errors.invalid_each(path, value, label_value(value));
    }
}

/// Validates the annotations of a metadata object.
pub(crate) fn validate_annotations(metadata: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in metadata.entries(&["annotations"]) {
        errors.invalid_each(path, key, qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.too_long(path, ANNOTATIONS_LIMIT);
    }
}
