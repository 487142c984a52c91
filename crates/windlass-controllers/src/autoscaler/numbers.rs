//! Rounding as in Go where Go defines it, and saturating otherwise.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use windlass_api::Quantity;

/// Returns an amount in thousandths. The server has validated it.
pub(super) fn milli(amount: &Amount) -> i64 {
    amount.0.parse::<Quantity>().map_or(0, |quantity| quantity.milli_value())
}

#[expect(clippy::cast_precision_loss, reason = "ratios are compared with a tolerance")]
pub(super) const fn float(value: i64) -> f64 {
    value as f64
}

/// Rounds up to a replica count, saturating.
#[expect(clippy::cast_possible_truncation, reason = "a saturating cast is intended")]
pub(super) fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

/// Rounds towards zero, saturating.
#[expect(clippy::cast_possible_truncation, reason = "a saturating cast is intended")]
pub(super) const fn floor(value: f64) -> i32 {
    value as i32
}

/// Rounds up to an amount, saturating.
#[expect(clippy::cast_possible_truncation, reason = "a saturating cast is intended")]
pub(super) fn ceil_amount(value: f64) -> i64 {
    value.ceil() as i64
}

pub(super) fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

pub(super) fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}
