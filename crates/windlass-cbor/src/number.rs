//! Floats and times.

use std::io::Write as _;

use jiff::Timestamp;

/// The limit below which each integer is exact as a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the float with the given bits; `None` for other numbers of bytes.
pub(crate) fn float(bytes: usize, bits: u64) -> Option<f64> {
    match bytes {
        2 => Some(half(u16::try_from(bits).ok()?)),
        4 => Some(f32::from_bits(u32::try_from(bits).ok()?).into()),
        8 => Some(f64::from_bits(bits)),
        _ => None,
    }
}

/// Converts a float of 16 bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    let magnitude = match bits >> 10 & 0x1f {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * 2_f64.powi(i32::from(exponent) - 25),
    };
    sign * magnitude
}

/// Appends a finite float to JSON. `is_kept` retains the fraction of a whole number: `2.0`, not `2`.
pub(crate) fn push_json(float: f64, is_kept: bool, out: &mut Vec<u8>) {
    let has_plain_form = float == 0.0 || (1e-6..1e21).contains(&float.abs());
    // Writing to a vector cannot fail. `Debug` has exponents and fractions, `Display` has neither.
    let _ = if is_kept || !has_plain_form { write!(out, "{float:?}") } else { write!(out, "{float}") };
}

/// Appends a finite float to CBOR, in the shortest form without loss.
pub(crate) fn push_cbor(float: f64, out: &mut Vec<u8>) {
    #[allow(clippy::cast_possible_truncation, reason = "the result is compared with the original")]
    let single = float as f32;
    if f64::from(single).to_bits() != float.to_bits() {
        out.push(0xfb);
        return out.extend_from_slice(&float.to_bits().to_be_bytes());
    }
    if let Some(half) = shortest(single) {
        out.push(0xf9);
        out.extend_from_slice(&half.to_be_bytes());
    } else {
        out.push(0xfa);
        out.extend_from_slice(&single.to_bits().to_be_bytes());
    }
}

/// Returns the bits of a float in 16 bits; `None` if they would lose something or would be subnormal.
fn shortest(single: f32) -> Option<u16> {
    let bits = single.to_bits();
    let (sign, exponent, fraction) = (bits >> 31, bits >> 23 & 0xff, bits & 0x7f_ffff);
    let half = match exponent {
        0 if fraction == 0 => sign << 15,
        113..=142 if fraction.trailing_zeros() >= 13 => sign << 15 | (exponent - 112) << 10 | fraction >> 13,
        _ => return None,
    };
    u16::try_from(half).ok()
}

/// Returns a time, in seconds since 1970, in RFC 3339; `None` if it is out of range.
pub(crate) fn time_of_integer(seconds: i64) -> Option<String> {
    Timestamp::from_second(seconds).ok().map(|time| time.to_string())
}

/// Returns a time, in seconds since 1970, in RFC 3339; `None` if it is out of range.
pub(crate) fn time_of_float(seconds: f64) -> Option<String> {
    let (whole, fraction) = (seconds.floor(), seconds - seconds.floor());
    if whole.abs() >= EXACT {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, reason = "both are whole numbers within the range")]
    let (whole, nanoseconds) = (whole as i64, (fraction * 1e9).round().min(999_999_999.0) as i32);
    Timestamp::new(whole, nanoseconds).ok().map(|time| time.to_string())
}
