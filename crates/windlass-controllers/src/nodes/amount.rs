//! Amounts of resources that are cheap to copy, add and compare.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use windlass_api::Quantity;

/// The number of nano units per unit; a quantity cannot express a smaller amount.
const NANO: i128 = 1_000_000_000;
/// The maximum amount: more than any cluster has, and small enough that sums do not overflow.
const MOST: i128 = i128::MAX / (1 << 20);

/// An exact amount, in billionths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Amount(i128);

impl Amount {
    /// Returns an amount of whole units.
    pub(crate) fn units(count: u32) -> Self {
        Self(i128::from(count) * NANO)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).clamp(-MOST, MOST))
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(Self(-other.0))
    }

    /// Parses a quantity; an invalid one counts as zero.
    pub(crate) fn parse(text: &str) -> Self {
        Self::from(&ApiQuantity(text.to_owned()))
    }

    /// Returns the part that this amount is of a whole. Returns `None` if the whole is zero.
    #[allow(clippy::cast_precision_loss, reason = "scores need no exact values")]
    pub(crate) fn ratio(self, whole: Self) -> Option<f64> {
        (whole.0 > 0).then(|| self.0 as f64 / whole.0 as f64)
    }
}

impl From<&ApiQuantity> for Amount {
    /// The server has validated the quantity; an invalid one counts as zero.
    fn from(quantity: &ApiQuantity) -> Self {
        Self(Quantity::try_from(quantity).map_or(0, |quantity| quantity.nano_value().clamp(-MOST, MOST)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn amount(text: &str) -> Amount {
        Amount::from(&ApiQuantity(text.to_owned()))
    }

    #[test]
    fn amounts_compare_by_value() {
        assert_eq!(amount("1"), amount("1000m"));
        assert_eq!(amount("2"), Amount::units(2));
        assert!(amount("900m") < amount("1"));
        assert!(amount("-1") < amount("0"));
        assert!(amount("1Gi") > amount("1G"));
        assert_eq!(amount("100m").plus(amount("1")).minus(amount("1.1")), Amount::default());
    }

    #[test]
    fn invalid_quantity_is_zero_and_overflow_is_the_maximum() {
        assert_eq!(amount("1.2.3"), Amount::default());
        assert_eq!(amount("99999999999999999999999999999999999E"), Amount(MOST));
        assert_eq!(amount("-99999999999999999999999999999999999E"), Amount(-MOST));
    }
}
