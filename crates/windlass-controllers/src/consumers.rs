//! The claims of pods, and the pods that use a claim.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod};
use serde::{Deserialize, de::IgnoredAny};
use windlass_api::{ObjectExt, ObjectRef};
use windlass_cache::{Cached, Index, Lister, UnknownIndex};
use windlass_runtime::{Cluster, Result, Watch};

/// Indexes pods by the claims that they use.
static BY_CLAIM: LazyLock<Index<Pod>> =
    LazyLock::new(|| Index::on_projection("pods by claim", |pod: &View| pod.claims()));

/// The parts of a pod that name its claims.
#[derive(Deserialize)]
struct View {
    metadata: MetadataView,
    spec: Option<SpecView>,
}

#[derive(Deserialize)]
struct MetadataView {
    name: String,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct SpecView {
    volumes: Option<Vec<VolumeView>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeView {
    name: String,
    persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    ephemeral: Option<IgnoredAny>,
}

impl View {
    /// Returns the claims of [`claims_of`], as text.
    fn claims(&self) -> Vec<String> {
        let MetadataView { name, namespace } = &self.metadata;
        let volumes = self.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let claims = volumes.filter_map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
            claim_of_volume(name, &volume.name, claim, volume.ephemeral.is_some())
        });
        let within = namespace.as_deref().unwrap_or_default();
        claims.map(|claim| ObjectRef::<PersistentVolumeClaim>::new(claim).within(within).to_string()).collect()
    }
}

/// Returns a watch of the pods of the cluster, with the index of [`consumers_of`].
pub(crate) fn consumers() -> Watch<Pod> {
    Watch::all().index(BY_CLAIM.clone())
}

/// Adds the index of [`consumers_of`] to the cache of pods, for tasks that are no controllers.
pub(crate) async fn index_pods(cluster: &Cluster) -> Result<()> {
    cluster.index(BY_CLAIM.clone()).await
}

/// Returns the pods that use a claim. Takes time in proportion to their number.
///
/// Returns an error if the pods are not watched with [`consumers`].
pub(crate) fn consumers_of(
    pods: &Lister<Pod>,
    claim: &ObjectRef<PersistentVolumeClaim>,
) -> std::result::Result<Vec<Cached<Pod>>, UnknownIndex> {
    pods.by_index(BY_CLAIM.name(), &claim.to_string())
}

/// Returns the claims that a pod names and the claims created for its ephemeral volumes.
pub(crate) fn claims_of(pod: &Pod) -> Vec<ObjectRef<PersistentVolumeClaim>> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
        claim_of_volume(pod.name(), &volume.name, claim, volume.ephemeral.is_some())
    });
    claims.map(|claim| ObjectRef::new(claim).within(pod.namespace().unwrap_or_default())).collect()
}

/// Returns the name of the claim that a volume of a pod refers to.
fn claim_of_volume(pod: &str, volume: &str, claim: Option<&str>, is_ephemeral: bool) -> Option<String> {
    match (claim, is_ephemeral) {
        (Some(claim), _) => Some(claim.to_owned()),
        (None, true) => Some(ephemeral_claim(pod, volume)),
        (None, false) => None,
    }
}

/// Returns the name of the claim created for an ephemeral volume of a pod.
pub(crate) fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EphemeralVolumeSource, PersistentVolumeClaimVolumeSource, PodSpec, Volume};
    use serde_json::json;

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
        let view: View = serde_json::from_value(serde_json::to_value(&pod).unwrap()).unwrap();
        assert_eq!(view.claims(), claims);
    }

    #[test]
    fn pod_without_volumes_uses_no_claims() {
        for spec in [json!(null), json!({}), json!({"volumes": null})] {
            let view: View = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
            assert!(view.claims().is_empty(), "{spec}");
        }
    }
}
