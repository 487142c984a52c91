//! The work, independent of how changes are noticed: maintain the desired number of pods.

use windlass::{
    Client, ObjectBuilder as _, ObjectExt as _, Resource,
    client::Result,
    k8s::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{Pod, PodTemplateSpec},
    },
};

/// A workload with a desired number of pods.
pub(crate) trait Workload: Resource {
    /// Returns the desired number of pods.
    fn replicas(&self) -> usize;
    /// Returns the pod template.
    fn template(&self) -> PodTemplateSpec;
}

impl Workload for Deployment {
    fn replicas(&self) -> usize {
        let asked = self.spec.as_ref().and_then(|spec| spec.replicas);
        usize::try_from(asked.unwrap_or(1)).unwrap_or(0)
    }

    fn template(&self) -> PodTemplateSpec {
        self.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default()
    }
}

impl Workload for StatefulSet {
    fn replicas(&self) -> usize {
        let asked = self.spec.as_ref().and_then(|spec| spec.replicas);
        usize::try_from(asked.unwrap_or(1)).unwrap_or(0)
    }

    fn template(&self) -> PodTemplateSpec {
        self.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default()
    }
}

/// The difference between the desired and the existing pods.
#[derive(Debug)]
pub(crate) struct Difference {
    missing: Vec<Pod>,
    surplus: Vec<Pod>,
}

impl Difference {
    /// Computes the difference. Pod names contain an ordinal, so that a repeated reconcile creates no duplicates.
    pub(crate) fn of<K: Workload>(workload: &K, pods: impl IntoIterator<Item = Pod>) -> Self {
        let wanted: Vec<_> = (0..workload.replicas()).map(|number| format!("{}-{number}", workload.name())).collect();
        let pods = pods.into_iter().filter(|pod| pod.is_controlled_by(workload) && !pod.is_deleting());
        let (kept, surplus): (Vec<_>, Vec<_>) = pods.partition(|pod| wanted.iter().any(|name| name == pod.name()));
        let missing = wanted.into_iter().filter(|name| kept.iter().all(|pod| pod.name() != name));
        Self { missing: missing.map(|name| pod(workload, name)).collect(), surplus }
    }

    /// Creates the missing pods, deletes the surplus ones, and returns the created ones.
    pub(crate) async fn settle(self, client: &Client) -> Result<Vec<Pod>> {
        let mut made = Vec::new();
        for pod in &self.missing {
            match client.create(pod).await {
                Ok(pod) => made.push(pod),
                // Another program has created it, or the cache is stale.
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        }
        for pod in &self.surplus {
            match client.delete::<Pod>(pod.object_ref()).uid(pod.uid().unwrap_or_default()).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }
}

fn pod<K: Workload>(workload: &K, name: String) -> Pod {
    let template = workload.template();
    let mut pod = Pod::named(name).in_namespace(workload.namespace().unwrap_or_default());
    pod.metadata.labels = template.metadata.and_then(|metadata| metadata.labels);
    pod.spec = template.spec;
    pod.controlled_by(workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_pods_are_created_and_surplus_ones_deleted() {
        let workload = StatefulSet::named("db").in_namespace("n").with(|set| {
            set.metadata.uid = Some("u".into());
            set.spec.get_or_insert_default().replicas = Some(2);
        });
        let there = ["db-1".to_owned(), "db-2".to_owned()].map(|name| pod(&workload, name));
        let theirs = Pod::named("db-0").in_namespace("n");
        let Difference { missing, surplus } = Difference::of(&workload, there.into_iter().chain([theirs]));
        assert_eq!(missing.iter().map(windlass::ObjectExt::name).collect::<Vec<_>>(), ["db-0"]);
        assert_eq!(surplus.iter().map(windlass::ObjectExt::name).collect::<Vec<_>>(), ["db-2"]);
    }
}
