//! Amounts of resources, as comparable numbers.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The number of nano units per unit; a quantity cannot express a smaller amount.
const NANO: i128 = 1_000_000_000;
/// The maximum amount: more than any cluster has, and small enough that sums do not overflow.
const MOST: i128 = i128::MAX / (1 << 20);

/// An exact amount, in billionths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount(i128);

impl Amount {
    /// Parses a quantity. Rounds up to a billionth, and saturates at the maximum. Returns `None` if the text is
    /// invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number_end = text.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(number_end);
        let (negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all: String = [whole, fraction].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (numerator, denominator) = scale(suffix)?;
        let denominator = 10_i128.checked_pow(fraction.len().try_into().ok()?)?.checked_mul(denominator)?;
        let amount = match all.parse::<i128>().ok().and_then(|number| number.checked_mul(numerator)?.checked_mul(NANO))
        {
            Some(product) => (product / denominator + i128::from(product % denominator != 0)).min(MOST),
            None => MOST,
        };
        Some(Self(if negative { -amount } else { amount }))
    }

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
}

impl From<&Quantity> for Amount {
    /// The server has validated the quantity; an invalid one counts as zero.
    fn from(quantity: &Quantity) -> Self {
        Self::parse(&quantity.0).unwrap_or_default()
    }
}

/// Returns the factor of a suffix, as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    const KILO: i128 = 1_000;
    const KIBI: i128 = 1_024;
    let power = |base: i128, exponent| (base.pow(exponent), 1);
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => power(KILO, 1),
        "M" => power(KILO, 2),
        "G" => power(KILO, 3),
        "T" => power(KILO, 4),
        "P" => power(KILO, 5),
        "E" => power(KILO, 6),
        "Ki" => power(KIBI, 1),
        "Mi" => power(KIBI, 2),
        "Gi" => power(KIBI, 3),
        "Ti" => power(KIBI, 4),
        "Pi" => power(KIBI, 5),
        "Ei" => power(KIBI, 6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if exponent < 0 { (1, factor) } else { (factor, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_amount_can_be_written_in_many_ways() {
        for (left, right) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("2E-3", "2m"),
            ("+3", "3"),
            ("0.1n", "1n"),
        ] {
            assert_eq!(Amount::parse(left).unwrap(), Amount::parse(right).unwrap(), "{left} {right}");
        }
        assert_eq!(Amount::units(2), Amount::parse("2").unwrap());
    }

    #[test]
    fn amounts_compare_by_value() {
        assert!(Amount::parse("900m") < Amount::parse("1"));
        assert!(Amount::parse("-1") < Amount::parse("0"));
        assert!(Amount::parse("1Gi") > Amount::parse("1G"));
        let sum = Amount::parse("100m").unwrap().plus(Amount::parse("1").unwrap()).minus(Amount::parse("1.1").unwrap());
        assert_eq!(sum, Amount::default());
    }

    #[test]
    fn invalid_quantity_is_none_and_overflow_is_the_maximum() {
        for odd in ["", "-", "x", "1x", "1.2.3", "1 ", "1ee", "--1"] {
            assert_eq!(Amount::parse(odd), None, "{odd}");
        }
        assert_eq!(Amount::parse("99999999999999999999999999999999999Ei"), Some(Amount(MOST)));
    }
}
