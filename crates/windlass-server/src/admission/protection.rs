//! Admission plugins that protect storage objects in use.

use futures::future::BoxFuture;
use serde_json::{Value, json};
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    object::{Tree, metadata_mut},
    registry::Registry,
};

/// The plugin `StorageObjectInUseProtection`: adds a finalizer, which a controller removes.
#[derive(Debug)]
pub(crate) struct ProtectStorage;

const FINALIZERS: [(&str, &str, &str); 3] = [
    ("", "PersistentVolumeClaim", "kubernetes.io/pvc-protection"),
    ("", "PersistentVolume", "kubernetes.io/pv-protection"),
    ("storage.k8s.io", "VolumeAttributesClass", "kubernetes.io/vac-protection"),
];

fn finalizer(write: &Attributes) -> Option<&'static str> {
    let is_it = |(group, kind, _): &&(&str, &str, &str)| *group == write.resource.group && *kind == write.resource.kind;
    FINALIZERS.iter().find(is_it).map(|(_, _, finalizer)| *finalizer)
}

impl Admission for ProtectStorage {
    fn handles(&self, write: &Attributes) -> bool {
        write.operation == Operation::Create && write.subresource.is_none() && finalizer(write).is_some()
    }

    fn admit<'a>(&'a self, _registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(finalizer) = finalizer(write) else { return Ok(()) };
            if write.object.items(&["metadata", "finalizers"]).iter().any(|other| other == finalizer) {
                return Ok(());
            }
            let finalizers = metadata_mut(&mut write.object).entry("finalizers").or_insert_with(|| json!([]));
            match finalizers {
                Value::Array(finalizers) => finalizers.push(finalizer.into()),
                other => *other = json!([finalizer]),
            }
            Ok(())
        })
    }
}
