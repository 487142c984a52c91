//! Comparison and addition of quantities.

use windlass_api::Quantity;

use crate::object::{Errors, Field};

/// Parses a quantity (`500m`, `1Gi`, `1e9`); returns `None` if it is invalid.
///
/// The result is a floating-point number. It is exact for the amounts that pods request, and precise enough for
/// comparisons.
pub(crate) fn amount(text: &str) -> Option<f64> {
    text.parse::<Quantity>().ok().map(|quantity| quantity.as_f64())
}

/// Returns the sum of two canonical quantities, in the format of the first. An invalid quantity counts as zero.
pub(crate) fn sum(a: &str, b: &str) -> String {
    match (a.parse::<Quantity>(), b.parse::<Quantity>()) {
        (Ok(a), Ok(b)) => (a + b).to_string(),
        (Err(_), Ok(_)) => b.to_owned(),
        (_, Err(_)) => a.to_owned(),
    }
}

/// Adds an error if a field has an amount that is not valid.
pub(super) fn check_amount(field: &Field<'_>, is_valid: impl FnOnce(f64) -> bool, detail: &str, errors: &mut Errors) {
    if amount(field.text()).is_some_and(|amount| !is_valid(amount)) {
        field.invalid(detail, errors);
    }
}

/// Adds an error if a field has a fractional amount.
pub(super) fn check_integer(field: &Field<'_>, errors: &mut Errors) {
    check_amount(field, |amount| amount.fract() == 0.0, "must be an integer", errors);
}

/// Adds an error if a field has a negative amount.
pub(super) fn check_not_negative(field: &Field<'_>, errors: &mut Errors) {
    check_amount(field, |amount| amount >= 0.0, "must be greater than or equal to 0", errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_count() {
        assert_eq!(amount("1Gi"), Some(1_073_741_824.0));
        assert_eq!(amount("500m"), Some(0.5));
        assert_eq!(amount("1e9"), Some(1e9));
        assert_eq!(amount("2E"), Some(2e18));
        assert_eq!(amount("x"), None);
    }

    #[test]
    fn sums_keep_the_form_of_the_first() {
        assert_eq!(sum("1Gi", "1Gi"), "2Gi");
        assert_eq!(sum("500m", "1"), "1500m");
        assert_eq!(sum("500m", "500m"), "1");
        assert_eq!(sum("1", "2k"), "2001");
    }
}
