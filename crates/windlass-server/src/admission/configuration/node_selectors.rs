//! The configuration of `PodNodeSelector`.

use serde_json::Value;

use super::{
    AdmissionConfiguration,
    checks::{check_fields, check_type},
};
use crate::object::{Errors, Path, Tree};

impl AdmissionConfiguration {
    /// Reads labels by namespace. This configuration has no version.
    pub(super) fn set_node_selectors(&mut self, file: &Value, errors: &mut Errors) {
        check_fields(file, &["podNodeSelectorPluginConfig"], &Path::new(""), errors);
        let path = Path::new("podNodeSelectorPluginConfig");
        check_type(file, "podNodeSelectorPluginConfig", Value::is_object, "must be an object", errors);
        for (namespace, labels) in file.entries(&["podNodeSelectorPluginConfig"]) {
            match labels.as_str() {
                Some(labels) => drop(self.node_selectors.selectors.insert(namespace.clone(), labels.to_owned())),
                None => errors.invalid(&path.child(namespace), labels, "must be labels, such as a=b,c=d"),
            }
        }
    }
}
