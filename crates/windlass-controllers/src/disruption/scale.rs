//! Determines the expected number of pods from the scales of their controllers.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    core::v1::{Pod, ReplicationController},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use thiserror::Error;
use windlass_api::{DynamicObject, GroupKind, Object, ObjectExt, ObjectRef, PercentError, Resource};
use windlass_cache::DecodeError;
use windlass_client::{DeferredRestMapper, MappingError};
use windlass_runtime::Context;

use crate::ownership::{group_of, refers_to};

use crate::pod_control::server_message;

/// The reason why the expected number of pods cannot be determined.
#[derive(Debug, Error)]
pub(super) enum ScaleError {
    #[error("found no controllers for pod {0:?}")]
    NoController(String),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A request failed. Displays the server's message, if it has one.
    #[error("{}", server_message(.0))]
    Client(#[from] windlass_client::Error),
    #[error("no matches for kind {kind:?} in version {version:?}")]
    NoKind { kind: String, version: String },
    #[error(transparent)]
    Mapping(#[from] MappingError),
    #[error("{0} does not implement the scale subresource")]
    NoScale(String),
    #[error(transparent)]
    Percent(#[from] PercentError),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Scales<'s> {
    pub(super) cx: &'s Context,
    pub(super) mapper: &'s DeferredRestMapper,
}

impl Scales<'_> {
    /// Returns the sum of the scales of all controllers, each counted once, and the names of pods without a controller.
    pub(super) async fn of_all(self, pods: &[Arc<Pod>]) -> Result<(i32, Vec<String>), ScaleError> {
        let mut scales: HashMap<String, i32> = HashMap::new();
        let mut unmanaged = Vec::new();
        for pod in pods {
            let Some(owner) = pod.controller() else {
                unmanaged.push(pod.name().to_owned());
                continue;
            };
            if scales.contains_key(&owner.uid) {
                continue;
            }
            let (uid, scale) = self
                .of(owner, pod.namespace().unwrap_or_default())
                .await?
                .ok_or_else(|| ScaleError::NoController(pod.name().to_owned()))?;
            scales.insert(uid, scale);
        }
        Ok((scales.values().sum(), unmanaged))
    }

    /// Returns the UID and the scale of the object that determines an owner's number of pods. For a replica set, that
    /// is its deployment.
    async fn of(self, owner: &OwnerReference, namespace: &str) -> Result<Option<(String, i32)>, ScaleError> {
        if let Some(known) = self.of_known(owner, namespace)? {
            return Ok(Some(known));
        }
        let kind = GroupKind::new(group_of(owner).to_owned(), owner.kind.clone());
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        let found = self.mapper.mapping(&kind, &[version]).await.map_err(|error| match error {
            MappingError::NoKind { .. } => {
                ScaleError::NoKind { kind: owner.kind.clone(), version: owner.api_version.clone() }
            }
            MappingError::Discovery(error) => error.into(),
            other => other.into(),
        })?;
        if !found.subresources.iter().any(|part| part.name == "scale") {
            return Err(ScaleError::NoScale(found.resource.group_resource().to_string()));
        }
        let key = ObjectRef::<DynamicObject>::new(owner.name.clone()).within(namespace);
        match self.cx.live().dynamic(&found.resource).get_scale(key).await {
            Ok(scale) if scale.uid() == Some(&*owner.uid) => {
                Ok(Some((owner.uid.clone(), scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`Self::of`], for the built-in kinds, which are read from caches.
    fn of_known(self, owner: &OwnerReference, namespace: &str) -> Result<Option<(String, i32)>, ScaleError> {
        if refers_to::<ReplicationController>(owner) {
            return self.cached(owner, namespace, |found: &ReplicationController| {
                found.spec.as_ref().and_then(|spec| spec.replicas)
            });
        }
        if refers_to::<StatefulSet>(owner) {
            return self
                .cached(owner, namespace, |found: &StatefulSet| found.spec.as_ref().and_then(|spec| spec.replicas));
        }
        if refers_to::<ReplicaSet>(owner) {
            let Some(set) = self.find::<ReplicaSet>(owner, namespace)? else { return Ok(None) };
            let above = set.controller().filter(|owner| refers_to::<Deployment>(owner)).cloned();
            if let Some(above) = above {
                return self.cached(&above, namespace, |found: &Deployment| {
                    found.spec.as_ref().and_then(|spec| spec.replicas)
                });
            }
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            return Ok(Some((owner.uid.clone(), replicas)));
        }
        Ok(None)
    }

    fn cached<K: Resource>(
        self,
        owner: &OwnerReference,
        namespace: &str,
        replicas: impl Fn(&K) -> Option<i32>,
    ) -> Result<Option<(String, i32)>, ScaleError> {
        let found = self.find::<K>(owner, namespace)?;
        Ok(found.map(|found| (owner.uid.clone(), replicas(&found).unwrap_or(1))))
    }

    fn find<K: Object + Resource>(self, owner: &OwnerReference, namespace: &str) -> Result<Option<Arc<K>>, ScaleError> {
        let key = ObjectRef::<K>::new(owner.name.clone()).within(namespace);
        let found = self.cx.store::<K>().get(&key).map(|found| found.get()).transpose()?;
        Ok(found.filter(|found| found.uid() == Some(&*owner.uid)))
    }
}
