//! The identity of a pod template: equality, and the hash in its replica set's name.

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::PodTemplateSpec,
};
use windlass_api::{ContentHash, ObjectExt};

/// The label that distinguishes the pods of a deployment's replica sets.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Returns the replica set with the deployment's template; if there are several, the oldest.
pub(super) fn find_new<'s>(deployment: &Deployment, sets: &'s [ReplicaSet]) -> Option<&'s ReplicaSet> {
    let wanted = deployment.spec.as_ref().map(|spec| &spec.template)?;
    let matching = sets.iter().filter(|set| {
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        template.is_some_and(|template| equal_but_for_hash(template, wanted))
    });
    matching.min_by(|a, b| {
        let age = a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp);
        age.then_with(|| a.name().cmp(b.name()))
    })
}

/// Returns `true` if two templates are equal, ignoring the hash label.
fn equal_but_for_hash(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    without_hash(a) == without_hash(b)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH_LABEL);
    }
    template
}

/// Returns a short hash of a template. `collisions` counts the deployment's earlier templates with the same hash.
pub(super) fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let hash = ContentHash::of(&without_hash(template));
    hash.map(|hash| hash.salted(u32::try_from(collisions).unwrap_or_default()).short()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn template(labels: &[(&str, &str)]) -> PodTemplateSpec {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        PodTemplateSpec { metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }), spec: None }
    }

    #[test]
    fn the_hash_label_is_no_part_of_a_template() {
        let (plain, labeled) = (template(&[("a", "b")]), template(&[("a", "b"), (HASH_LABEL, "x")]));
        assert!(equal_but_for_hash(&plain, &labeled));
        assert_eq!(hash(&plain, 0), hash(&labeled, 0));
        assert!(!equal_but_for_hash(&plain, &template(&[("a", "c")])));
    }

    #[test]
    fn a_collision_gives_another_name() {
        let template = template(&[]);
        assert_ne!(hash(&template, 0), hash(&template, 1));
        assert!(windlass_api::validation::label_value(&hash(&template, 0)).is_empty());
    }
}
