//! Amounts by resource name.
//!
//! CPU, memory and the number of pods of hundreds of nodes are read for each decision. They have fixed places, so that no
//! names are compared.

use std::sync::Arc;

use super::super::amount::Amount;

const CPU: usize = 0;
const MEMORY: usize = 1;
const PODS: usize = 2;

/// The names of the amounts with fixed places.
const FIXED: [&str; 3] = ["cpu", "memory", "pods"];

/// Amounts by resource name. A missing amount is zero.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Amounts {
    fixed: [Amount; FIXED.len()],
    others: Vec<(Arc<str>, Amount)>,
}

/// A resource of which too little is left.
#[derive(Debug, PartialEq)]
pub(super) struct Shortage {
    pub(super) resource: Arc<str>,
    pub(super) requested: Amount,
    pub(super) allocatable: Amount,
}

impl Amounts {
    pub(super) fn is_empty(&self) -> bool {
        self.fixed.iter().all(|amount| *amount == Amount::default()) && self.others.is_empty()
    }

    pub(super) fn cpu_and_memory(&self) -> [Amount; 2] {
        [self.fixed[CPU], self.fixed[MEMORY]]
    }

    pub(super) fn pods(&self) -> Amount {
        self.fixed[PODS]
    }

    /// Replaces each amount for which `other` has one by the result of a function.
    pub(super) fn combine(&mut self, other: &Self, with: impl Fn(Amount, Amount) -> Amount) {
        for (own, amount) in self.fixed.iter_mut().zip(other.fixed) {
            *own = with(*own, amount);
        }
        for (resource, amount) in &other.others {
            match self.others.iter_mut().find(|(known, _)| known == resource) {
                Some((_, own)) => *own = with(*own, *amount),
                None => self.others.push((Arc::clone(resource), with(Amount::default(), *amount))),
            }
        }
    }

    /// Calls a function for each requested resource of which less than that is left of these amounts.
    pub(super) fn for_each_short(&self, used: &Self, requested: &Self, mut each: impl FnMut(Shortage)) {
        let is_short = |used: Amount, requested: Amount, allocatable: Amount| {
            requested > Amount::default() && used.plus(requested) > allocatable
        };
        for (place, resource) in FIXED.into_iter().enumerate() {
            let (requested, allocatable) = (requested.fixed[place], self.fixed[place]);
            if is_short(used.fixed[place], requested, allocatable) {
                each(Shortage { resource: resource.into(), requested, allocatable });
            }
        }
        for (resource, requested) in &requested.others {
            let (requested, allocatable) = (*requested, self.other(resource));
            if is_short(used.other(resource), requested, allocatable) {
                each(Shortage { resource: Arc::clone(resource), requested, allocatable });
            }
        }
    }

    fn other(&self, resource: &str) -> Amount {
        self.others.iter().find(|(name, _)| &**name == resource).map_or_else(Amount::default, |(_, amount)| *amount)
    }
}

impl<'n> FromIterator<(&'n str, Amount)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (&'n str, Amount)>>(amounts: I) -> Self {
        let mut all = Self::default();
        for (name, amount) in amounts {
            match FIXED.iter().position(|fixed| *fixed == name) {
                Some(place) => all.fixed[place] = amount,
                None => all.others.push((name.into(), amount)),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::amount::tests::amount;

    fn amounts(all: &[(&'static str, &str)]) -> Amounts {
        all.iter().map(|(name, text)| (*name, amount(text))).collect()
    }

    fn shortages(allocatable: &Amounts, used: &Amounts, requested: &Amounts) -> Vec<String> {
        let mut found = Vec::new();
        allocatable.for_each_short(used, requested, |shortage| {
            let fits_alone = shortage.requested <= shortage.allocatable;
            found.push(format!("{} {fits_alone}", shortage.resource));
        });
        found
    }

    #[test]
    fn all_requested_resources_are_compared() {
        let node = amounts(&[("cpu", "2"), ("memory", "1Gi"), ("pods", "5"), ("example.com/gpu", "1")]);
        let mut used = Amounts::default();
        let pod = amounts(&[("cpu", "1500m"), ("example.com/gpu", "1")]);
        assert_eq!(shortages(&node, &used, &pod), [""; 0]);
        used.combine(&pod, Amount::plus);
        assert_eq!(shortages(&node, &used, &pod), ["cpu true", "example.com/gpu true"]);
        let foreign = amounts(&[("memory", "2Gi"), ("example.com/disk", "1")]);
        assert_eq!(shortages(&node, &used, &foreign), ["memory false", "example.com/disk false"]);
        used.combine(&pod, Amount::minus);
        assert_eq!(shortages(&node, &used, &pod), [""; 0]);
    }

    #[test]
    fn resource_that_is_not_requested_is_not_compared() {
        let (node, full) = (amounts(&[("cpu", "1")]), amounts(&[("cpu", "2")]));
        assert_eq!(shortages(&node, &full, &amounts(&[("memory", "0")])), [""; 0]);
        assert_eq!(shortages(&node, &full, &Amounts::default()), [""; 0]);
        assert!(Amounts::default().is_empty() && !full.is_empty());
    }
}
