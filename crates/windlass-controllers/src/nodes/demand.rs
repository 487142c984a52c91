//! The resources that a pod requests from its node.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::amount::Amount;

/// Amounts by resource name, such as `cpu` and `memory`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand(BTreeMap<String, Amount>);

impl Demand {
    /// Returns the requests of a pod: the sum of its containers or the maximum during its initialization, whichever is
    /// larger, plus its overhead.
    pub(crate) fn of(pod: &Pod) -> Self {
        pod.spec.as_ref().map(Self::of_spec).unwrap_or_default()
    }

    /// Returns the amounts in a list of quantities.
    pub(crate) fn of_list(list: Option<&BTreeMap<String, Quantity>>) -> Self {
        Self(list.into_iter().flatten().map(|(name, quantity)| (name.clone(), quantity.into())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Amount {
        self.0.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.combine(other, Amount::plus);
    }

    fn of_spec(spec: &PodSpec) -> Self {
        let mut running = Self::default();
        for container in &spec.containers {
            running.add(&Self::of_container(container));
        }
        let (mut sidecars, mut worst) = (Self::default(), Self::default());
        for container in spec.init_containers.iter().flatten() {
            let own = Self::of_container(container);
            if container.restart_policy.as_deref() == Some("Always") {
                // A sidecar runs alongside all later containers.
                sidecars.add(&own);
                worst.combine(&sidecars, Amount::max);
            } else {
                let mut step = sidecars.clone();
                step.add(&own);
                worst.combine(&step, Amount::max);
            }
        }
        running.add(&sidecars);
        running.combine(&worst, Amount::max);
        // Pod-level requests override those of the containers.
        let whole = Self::of_list(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
        running.0.extend(whole.0);
        running.add(&Self::of_list(spec.overhead.as_ref()));
        running
    }

    fn of_container(container: &Container) -> Self {
        let requests = |resources: &ResourceRequirements| Self::of_list(resources.requests.as_ref());
        container.resources.as_ref().map(requests).unwrap_or_default()
    }

    fn combine(&mut self, other: &Self, with: impl Fn(Amount, Amount) -> Amount) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = with(*own, *amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::amount::tests::amount;

    fn container(cpu: &str, restart_policy: Option<&str>) -> Container {
        let requests = BTreeMap::from([("cpu".to_owned(), Quantity(cpu.to_owned()))]);
        Container {
            resources: Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }),
            restart_policy: restart_policy.map(str::to_owned),
            ..Container::default()
        }
    }

    fn cpu(spec: PodSpec) -> Amount {
        Demand::of(&Pod { spec: Some(spec), ..Pod::default() }).get("cpu")
    }

    #[test]
    fn containers_add_up_and_initialization_counts_at_its_worst() {
        let containers = vec![container("100m", None), container("200m", None)];
        let spec = PodSpec { containers, ..PodSpec::default() };
        assert_eq!(cpu(spec.clone()), amount("300m"));
        let with = |init: Vec<Container>| PodSpec { init_containers: Some(init), ..spec.clone() };
        assert_eq!(cpu(with(vec![container("250m", None)])), amount("300m"));
        assert_eq!(cpu(with(vec![container("400m", None), container("100m", None)])), amount("400m"));
        let sidecar = container("100m", Some("Always"));
        assert_eq!(cpu(with(vec![sidecar.clone(), container("350m", None)])), amount("450m"));
        assert_eq!(cpu(with(vec![container("350m", None), sidecar])), amount("400m"));
    }

    #[test]
    fn overhead_comes_on_top() {
        let overhead = Some(BTreeMap::from([("cpu".to_owned(), Quantity("50m".to_owned()))]));
        let spec = PodSpec { containers: vec![container("1", None)], overhead, ..PodSpec::default() };
        assert_eq!(cpu(spec), amount("1050m"));
    }
}
