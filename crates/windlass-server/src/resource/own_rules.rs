//! The rules, in Rust, of resources that a program serves with its own API server.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::Value;
use windlass_api::{BoxError, Cause};

/// The rules of a resource that its CustomResourceDefinition does not express.
///
/// Objects are in the version of the request, and complete according to the schema of that version. None of the methods may
/// block.
pub trait ResourceRules: fmt::Debug + Send + Sync + 'static {
    /// Completes an object that is created or updated, before its validation.
    fn complete(&self, object: &mut Value) {
        let _ = object;
    }

    /// Returns the problems of an object that is created, or that replaces `old`. The write is rejected if there is one.
    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let _ = (object, old);
        Vec::new()
    }

    /// Converts an object to the `apiVersion` in `to`. It may not change the metadata, except labels and annotations. By
    /// default, only the `apiVersion` changes.
    fn convert(&self, mut object: Value, to: &str) -> Result<Value, BoxError> {
        object["apiVersion"] = to.into();
        Ok(object)
    }
}

/// The rules of resources, by group and plural name.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnRules(BTreeMap<(String, String), Arc<dyn ResourceRules>>);

impl OwnRules {
    pub(crate) fn insert(&mut self, group: String, plural: String, rules: Arc<dyn ResourceRules>) {
        self.0.insert((group, plural), rules);
    }

    /// Returns the rules of a resource, if there are any.
    pub(crate) fn get(&self, group: &str, plural: &str) -> Option<&Arc<dyn ResourceRules>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(group.to_owned(), plural.to_owned()))
    }
}
