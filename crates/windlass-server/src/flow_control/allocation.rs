//! The division of the server's seats among the priority levels, which borrow seats that others don't need.

/// The lowest target. With a target of zero, a level would get no seat beyond its minimum.
const MIN_TARGET: f64 = 0.001;

/// The tolerance for sums of bounds.
const EPSILON: f64 = 1e-7;

/// The share that a level can get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Claim {
    /// The number of seats that the level could use.
    pub(super) target: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Claim {
    fn target(&self) -> f64 {
        self.target.max(MIN_TARGET)
    }

    fn at(&self, fraction: f64) -> f64 {
        (fraction * self.target()).min(self.highest).max(self.lowest)
    }
}

/// Divides `seats` among the claims: each gets the same fraction of its target, within its bounds. Returns the fraction.
/// Returns `None` if the bounds don't allow the sum.
pub(super) fn fair_fraction(seats: f64, claims: &[Claim]) -> Option<f64> {
    let sum = |bound: fn(&Claim) -> f64| claims.iter().map(bound).sum::<f64>();
    let (lowest, highest) = (sum(|claim| claim.lowest), sum(|claim| claim.highest));
    if lowest - seats > EPSILON || seats - highest > EPSILON || claims.iter().any(|claim| claim.highest < claim.lowest)
    {
        return None;
    }
    // The sum grows with the fraction. Between two neighboring bounds it is linear.
    let mut bounds: Vec<f64> =
        claims.iter().flat_map(|claim| [claim.lowest, claim.highest].map(|bound| bound / claim.target())).collect();
    bounds.sort_by(f64::total_cmp);
    let total = |fraction: f64| claims.iter().map(|claim| claim.at(fraction)).sum::<f64>();
    let upper = bounds.partition_point(|bound| total(*bound) < seats - EPSILON);
    let Some(high) = bounds.get(upper).copied() else { return bounds.last().copied() };
    let Some(low) = upper.checked_sub(1).map(|lower| bounds[lower]) else { return Some(high) };
    let (from, to) = (total(low), total(high));
    Some(if to > from { low + (high - low) * (seats - from) / (to - from) } else { high })
}

/// Returns the seats of each claim for a fraction.
pub(super) fn seats_at(fraction: f64, claims: &[Claim]) -> impl Iterator<Item = f64> {
    claims.iter().map(move |claim| claim.at(fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(seats: f64, claims: &[(f64, f64, f64)]) -> Option<(f64, Vec<f64>)> {
        let claims: Vec<Claim> =
            claims.iter().map(|&(target, lowest, highest)| Claim { target, lowest, highest }).collect();
        let fraction = fair_fraction(seats, &claims)?;
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        Some((round(fraction), seats_at(fraction, &claims).map(round).collect()))
    }

    #[test]
    fn seats_are_proportional_to_targets_within_bounds() {
        let wide = |target| (target, 0.0, 100.0);
        assert_eq!(divide(60.0, &[wide(10.0), wide(20.0)]), Some((2.0, vec![20.0, 40.0])));
        assert_eq!(divide(60.0, &[(10.0, 30.0, 100.0), wide(20.0)]), Some((1.5, vec![30.0, 30.0])));
        assert_eq!(divide(60.0, &[(10.0, 0.0, 5.0), wide(20.0)]), Some((2.75, vec![5.0, 55.0])));
    }

    #[test]
    fn bounds_without_room_decide_alone() {
        assert_eq!(divide(30.0, &[(9.0, 10.0, 50.0), (9.0, 20.0, 50.0)]).unwrap().1, [10.0, 20.0]);
        assert_eq!(divide(30.0, &[(9.0, 0.0, 10.0), (9.0, 0.0, 20.0)]).unwrap().1, [10.0, 20.0]);
        assert_eq!(divide(31.0, &[(9.0, 0.0, 10.0), (9.0, 0.0, 20.0)]), None);
        assert_eq!(divide(29.0, &[(9.0, 10.0, 50.0), (9.0, 20.0, 50.0)]), None);
    }

    #[test]
    fn levels_without_demand_share_equally() {
        assert_eq!(divide(9.0, &[(0.0, 0.0, 600.0), (0.0, 0.0, 600.0), (0.0, 3.0, 3.0)]).unwrap().1, [3.0, 3.0, 3.0]);
    }
}
