//! The structure of a quantity in Go.

/// Returns a quantity in canonical form as Go shows its structure; `None` if the number does not fit in an `int64`
/// or the suffix is unknown.
///
/// The structure depends on the notation from which it was parsed: `1500m` is 1500 of the scale -3, `1.5` is 15 of the
/// scale -1. `is_decimal` assumes a decimal fraction instead of the canonical form.
pub(super) fn show(text: &str, is_decimal: bool) -> Option<String> {
    let start = text.find(|character: char| !matches!(character, '0'..='9' | '-')).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(start);
    let number: i64 = digits.parse().ok()?;
    let (value, scale, format): (i64, i32, _) = match suffix {
        "" => (number, 0, "DecimalSI"),
        "n" => (number, -9, "DecimalSI"),
        "u" => (number, -6, "DecimalSI"),
        "m" => (number, -3, "DecimalSI"),
        "k" => (number, 3, "DecimalSI"),
        "M" => (number, 6, "DecimalSI"),
        "G" => (number, 9, "DecimalSI"),
        "T" => (number, 12, "DecimalSI"),
        "P" => (number, 15, "DecimalSI"),
        "E" => (number, 18, "DecimalSI"),
        binary => match ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == binary) {
            Some(power) => (number.checked_mul(1024_i64.checked_pow(u32::try_from(power).ok()? + 1)?)?, 0, "BinarySI"),
            None => (number, suffix.strip_prefix('e')?.parse().ok()?, "DecimalExponent"),
        },
    };
    // Quantities of resources are rounded up to thousandths.
    if scale < -3 {
        let thousandths = 10_i64.checked_pow(scale.unsigned_abs() - 3)?;
        let rounded = number.div_euclid(thousandths) + i64::from(number.rem_euclid(thousandths) != 0);
        return Some(structure(rounded, -3, "", format));
    }
    if is_decimal && scale < 0 {
        let (value, scale) = without_zeros(value, scale);
        let fraction = format!("{}.{:03}", value / 1000, value % 1000);
        return Some(structure(value, scale, if scale == -3 && value >= 1000 { &fraction } else { "" }, format));
    }
    // Go keeps the text if it is surely canonical.
    let is_kept = if format == "BinarySI" { number & 7 != 0 } else { scale % 3 == 0 && number % 1000 != 0 };
    Some(structure(value, scale, if is_kept || text == "0" { text } else { "" }, format))
}

/// Returns the number with its last zeros moved to the scale, as in a decimal fraction.
const fn without_zeros(mut value: i64, mut scale: i32) -> (i64, i32) {
    while scale < 0 && value != 0 && value % 10 == 0 {
        value /= 10;
        scale += 1;
    }
    (value, scale)
}

fn structure(value: i64, scale: i32, text: &str, format: &str) -> String {
    format!(
        "resource.Quantity{{i:resource.int64Amount{{value:{value}, scale:{scale}}}, \
         d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:\"{text}\", Format:\"{format}\"}}"
    )
}
