//! The identity of a stateful set's pods: ordinals, names and claims. Plain values, no I/O.

use std::ops::Range;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};
use windlass_api::{Object, ObjectExt};

use super::{claims, templates};
use crate::pods;

/// The label with the revision of a pod.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Returns the ordinal in a pod's name, or `None` if the name does not belong to this set.
pub(super) fn ordinal_in(set: &str, pod: &str) -> Option<i32> {
    let ordinal = pod.strip_prefix(set)?.strip_prefix('-')?;
    let is_number = ordinal.bytes().all(|byte| byte.is_ascii_digit());
    ordinal.parse().ok().filter(|_| is_number)
}

/// Returns the desired ordinals of the set.
pub(super) fn ordinals(set: &StatefulSet) -> Range<i32> {
    let spec = set.spec.as_ref();
    let start = spec.and_then(|spec| spec.ordinals.as_ref()).and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start.saturating_add(replicas(set))
}

pub(super) fn replicas(set: &StatefulSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name())
}

pub(super) fn revision(pod: &Pod) -> &str {
    pod.labels().get(REVISION_LABEL).map_or("", String::as_str)
}

/// Builds a pod of the template.
pub(super) fn pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let mut pod = pods::from_template(set, template.clone());
    pod.metadata_mut().name = Some(pod_name(set, ordinal));
    name_in_labels(&mut pod, set, ordinal);
    pod.labels_mut().insert(REVISION_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(pod_name(set, ordinal));
    spec.subdomain = set.spec.as_ref().and_then(|spec| spec.service_name.clone()).filter(|name| !name.is_empty());
    mount(&mut pod, set, ordinal);
    pod
}

/// Returns `true` if the pod's name and labels match its ordinal.
pub(super) fn has_identity(set: &StatefulSet, pod: &Pod, ordinal: i32) -> bool {
    let name = pod_name(set, ordinal);
    pod.name() == name && pod.labels().get(NAME_LABEL) == Some(&name)
}

pub(super) fn name_in_labels(pod: &mut Pod, set: &StatefulSet, ordinal: i32) {
    let labels = pod.labels_mut();
    labels.insert(NAME_LABEL.to_owned(), pod_name(set, ordinal));
    labels.insert(INDEX_LABEL.to_owned(), ordinal.to_string());
}

/// Returns `true` if the pod has the volumes of all its claims.
pub(super) fn is_mounted(set: &StatefulSet, pod: &Pod, ordinal: i32) -> bool {
    let volumes = || pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    templates(set).iter().all(|template| {
        let claim = claims::name(set, template, ordinal);
        volumes().any(|volume| {
            let source = volume.persistent_volume_claim.as_ref();
            volume.name == template.name() && source.is_some_and(|source| source.claim_name == claim)
        })
    })
}

/// Adds the volumes of the claims; they replace other volumes of the same names.
pub(super) fn mount(pod: &mut Pod, set: &StatefulSet, ordinal: i32) {
    let of_claims = templates(set).iter().map(|template| Volume {
        name: template.name().to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claims::name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    });
    let mut volumes: Vec<_> = of_claims.collect();
    let spec = pod.spec.get_or_insert_default();
    for volume in spec.volumes.take().unwrap_or_default() {
        if !volumes.iter().any(|known| known.name == volume.name) {
            volumes.push(volume);
        }
    }
    spec.volumes = Some(volumes).filter(|volumes| !volumes.is_empty());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_known_by_its_name() {
        assert_eq!(ordinal_in("web", "web-12"), Some(12));
        for other in ["web", "web-", "web-x", "web-+1", "web-1-2", "other-1", "web-99999999999"] {
            assert_eq!(ordinal_in("web", other), None, "{other}");
        }
    }

    #[test]
    fn a_pod_has_its_ordinal_its_revision_and_its_volumes() {
        let set: StatefulSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
            "spec": {
                "replicas": 2, "ordinals": {"start": 3}, "serviceName": "inside", "selector": {}, "template": {},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            },
        }))
        .unwrap();
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "own", "emptyDir": {}}]},
        }))
        .unwrap();
        assert_eq!(ordinals(&set), 3..5);
        let pod = pod(&set, &template, "web-abc", 3);
        assert_eq!((pod.name(), revision(&pod)), ("web-3", "web-abc"));
        assert_eq!(pod.labels()["apps.kubernetes.io/pod-index"], "3");
        let spec = pod.spec.clone().unwrap();
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("web-3"), Some("inside")));
        let volumes: Vec<_> = spec.volumes.iter().flatten().map(|volume| &*volume.name).collect();
        assert_eq!(volumes, ["data", "own"]);
        assert!(has_identity(&set, &pod, 3) && is_mounted(&set, &pod, 3) && !is_mounted(&set, &pod, 4));
    }
}
