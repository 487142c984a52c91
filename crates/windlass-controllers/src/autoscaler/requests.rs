//! The resource requests of pods. Plain values, no I/O.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Container, Pod};
use thiserror::Error;
use windlass_api::ObjectExt;

use super::numbers::milli;

/// The reason why requests cannot be computed. The messages equal those of kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum RequestsError {
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    Missing { resource: String, container: String, pod: String },
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    MissingOfPod { resource: String, pod: String },
    #[error("container {container} not found in Pod {pod}")]
    NoContainer { container: String, pod: String },
}

/// Returns the request of each pod in thousandths, by pod name: of the named container, or of the whole pod.
pub(super) fn of_pods<'p>(
    pods: &'p [Arc<Pod>],
    container: Option<&str>,
    resource: &str,
) -> Result<BTreeMap<&'p str, i64>, RequestsError> {
    pods.iter().map(|pod| Ok((pod.name(), of_pod(pod, container, resource)?))).collect()
}

fn of_pod(pod: &Pod, container: Option<&str>, resource: &str) -> Result<i64, RequestsError> {
    let Some(spec) = &pod.spec else { return Ok(0) };
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers: Vec<_> = spec.containers.iter().chain(sidecars).collect();
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let pod_name = || pod.name().to_owned();
    if let (Some(whole), None) = (whole.filter(|requests| !requests.is_empty()), container) {
        // Without a pod-level request, the container requests count.
        let parts =
            || containers.iter().filter_map(|container| request(container, resource)).reduce(i64::saturating_add);
        let known = whole.get(resource).map(milli).or_else(parts);
        return known.ok_or_else(|| RequestsError::MissingOfPod { resource: resource.to_owned(), pod: pod_name() });
    }
    let mut sum = 0_i64;
    for known in containers.into_iter().filter(|known| container.is_none_or(|name| known.name == name)) {
        let amount = request(known, resource).ok_or_else(|| RequestsError::Missing {
            resource: resource.to_owned(),
            container: known.name.clone(),
            pod: pod_name(),
        })?;
        sum = sum.saturating_add(amount);
        if container.is_some() {
            return Ok(sum);
        }
    }
    match container {
        Some(container) => Err(RequestsError::NoContainer { container: container.to_owned(), pod: pod_name() }),
        None => Ok(sum),
    }
}

fn request(container: &Container, resource: &str) -> Option<i64> {
    container.resources.as_ref()?.requests.as_ref()?.get(resource).map(milli)
}
