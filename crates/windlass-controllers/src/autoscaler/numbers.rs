//! Rounding as Go does it, where it is defined, and without overflow where it is not.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use windlass_api::Quantity;

/// An amount in thousandths. The server has validated it.
pub(super) fn milli(amount: &Amount) -> i64 {
    amount.0.parse::<Quantity>().map_or(0, |quantity| quantity.milli_value())
}

#[expect(clippy::cast_precision_loss, reason = "ratios are compared with a tolerance")]
pub(super) const fn float(value: i64) -> f64 {
    value as f64
}

/// Rounded up; at most what there can be of replicas.
#[expect(clippy::cast_possible_truncation, reason = "a cast that saturates is what is meant")]
pub(super) fn ceil(value: f64) -> i32 {
    value.ceil() as i32
}

/// Rounded towards zero.
#[expect(clippy::cast_possible_truncation, reason = "a cast that saturates is what is meant")]
pub(super) const fn floor(value: f64) -> i32 {
    value as i32
}

/// Rounded up, as an amount.
#[expect(clippy::cast_possible_truncation, reason = "a cast that saturates is what is meant")]
pub(super) fn ceil_amount(value: f64) -> i64 {
    value.ceil() as i64
}

pub(super) fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

pub(super) fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}
