//! The claims of pods, and the pods that use a claim.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_cache::{Cached, Index, Lister, UnknownIndex};
use windlass_runtime::Watch;

/// Indexes pods by the claims that they use.
static BY_CLAIM: LazyLock<Index<Pod>> = LazyLock::new(|| {
    Index::on_object("pods by claim", |pod| claims_of(pod).iter().map(ToString::to_string).collect::<Vec<_>>())
});

/// Returns a watch of the pods of the cluster, with the index of [`consumers_of`].
pub(crate) fn consumers() -> Watch<Pod> {
    Watch::all().index(BY_CLAIM.clone())
}

/// Returns the pods that use a claim. Takes time in proportion to their number.
///
/// Returns an error if the pods are not watched with [`consumers`].
pub(crate) fn consumers_of(
    pods: &Lister<Pod>,
    claim: &ObjectRef<PersistentVolumeClaim>,
) -> Result<Vec<Cached<Pod>>, UnknownIndex> {
    pods.by_index(BY_CLAIM.name(), &claim.to_string())
}

/// Returns the claims that a pod names and the claims created for its ephemeral volumes.
pub(crate) fn claims_of(pod: &Pod) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let named = volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(ephemeral_claim(pod, &volume.name)),
        (None, None) => None,
    });
    named.map(|name| ObjectRef::new(name).within(pod.namespace().unwrap_or_default())).collect()
}

/// Returns the name of the claim created for an ephemeral volume of a pod.
pub(crate) fn ephemeral_claim(pod: &Pod, volume: &str) -> String {
    format!("{}-{volume}", pod.name())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EphemeralVolumeSource, PersistentVolumeClaimVolumeSource, PodSpec, Volume};

    use super::*;

    #[test]
    fn pod_uses_named_and_ephemeral_claims() {
        let claim = PersistentVolumeClaimVolumeSource { claim_name: "store".to_owned(), read_only: None };
        let volumes = vec![
            Volume { name: "a".to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() },
            Volume { name: "b".to_owned(), ephemeral: Some(EphemeralVolumeSource::default()), ..Volume::default() },
            Volume { name: "c".to_owned(), ..Volume::default() },
        ];
        let spec = PodSpec { volumes: Some(volumes), ..PodSpec::default() };
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        pod.metadata.name = Some("web".to_owned());
        pod.metadata.namespace = Some("n".to_owned());
        let claims: Vec<_> = claims_of(&pod).iter().map(ToString::to_string).collect();
        assert_eq!(claims, ["n/store", "n/web-b"]);
    }
}
