//! The plugin `PodNodeSelector`: the node selector of a namespace, which pods get, and the labels that pods may select.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::{GroupResource, Status};

use super::classes::cluster_object;
use crate::registry::{Admission, Attributes, Operation};
use crate::{
    object::{Tree, as_object, label_value, object_mut, qualified_name},
    registry::Registry,
};

/// Adds the node selector of the namespace to new pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSelectors {
    /// The selector of namespaces without their own, with the key [`DEFAULT`], and the labels that the pods of namespaces
    /// may select.
    pub(super) selectors: BTreeMap<String, String>,
}

type Labels = BTreeMap<String, String>;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
const DEFAULT: &str = "clusterDefaultNodeSelector";

impl Admission for NodeSelectors {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write() && write.operation == Operation::Create
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let selector = self.of_namespace(registry, &write.namespace).await?;
            check_conflict(write, &selector)?;
            if !selector.is_empty() {
                let own = object_mut(&mut write.object, "spec").entry("nodeSelector").or_insert_with(|| json!({}));
                let own = as_object(own);
                for (key, value) in selector {
                    own.entry(key).or_insert_with(|| value.into());
                }
            }
            self.check(registry, write).await
        })
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(registry, write))
    }
}

impl NodeSelectors {
    async fn check(&self, registry: &Registry, write: &Attributes) -> Result<(), Status> {
        check_conflict(write, &self.of_namespace(registry, &write.namespace).await?)?;
        let allowed = parse(self.selectors.get(&write.namespace).map_or("", String::as_str))?;
        let is_allowed =
            |(key, value): (&String, &Value)| allowed.get(key).is_some_and(|allowed| value.as_str() == Some(allowed));
        if allowed.is_empty() || write.object.entries(&["spec", "nodeSelector"]).all(is_allowed) {
            return Ok(());
        }
        Err(write.forbidden_by_name("pod node label selector labels conflict with its namespace whitelist"))
    }

    /// Returns the selector of a namespace.
    async fn of_namespace(&self, registry: &Registry, name: &str) -> Result<Labels, Status> {
        let Some(namespace) = cluster_object(registry, "", "namespaces", name).await? else {
            return Err(Status::not_found(&GroupResource::new("", "namespaces"), name));
        };
        match namespace.at(&["metadata", "annotations", ANNOTATION]).and_then(Value::as_str) {
            Some(own) => parse(own),
            None => parse(self.selectors.get(DEFAULT).map_or("", String::as_str)),
        }
    }
}

fn check_conflict(write: &Attributes, selector: &Labels) -> Result<(), Status> {
    let own = write.object.at(&["spec", "nodeSelector"]).unwrap_or(&Value::Null);
    let conflicts =
        |(key, value): (&String, &String)| own.get(key).and_then(Value::as_str).is_some_and(|own| own != value);
    if selector.iter().any(conflicts) {
        return Err(write.forbidden_by_name("pod node label selector conflicts with its namespace node label selector"));
    }
    Ok(())
}

/// Parses labels such as `a=b,c=d`.
fn parse(text: &str) -> Result<Labels, Status> {
    let mut labels = Labels::new();
    for label in text.split(',').filter(|_| !text.is_empty()) {
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = parts.as_slice() else {
            return Err(Status::unclassified(format!("invalid selector: [{}]", parts.join(" "))));
        };
        let (key, value) = (key.trim(), value.trim());
        for (problems, kind, shown) in [(qualified_name(key), "key", key), (label_value(value), "value", value)] {
            if !problems.is_empty() {
                let problems = problems.join("; ");
                return Err(Status::unclassified(format!("invalid label {kind} {shown:?}: {problems}")));
            }
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_lists_of_labels() {
        assert!(parse("").unwrap().is_empty());
        let parsed = parse("a=b, example.com/c = d").unwrap();
        assert_eq!(
            parsed,
            Labels::from([("a", "b"), ("example.com/c", "d")].map(|(k, v)| (k.to_owned(), v.to_owned())))
        );
        assert_eq!(parse("a").unwrap_err().message, "invalid selector: [a]");
        assert!(parse("a b=c").is_err() && parse("a=b=c").is_err());
    }
}
