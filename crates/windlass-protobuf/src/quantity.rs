//! Canonical quantities.

use std::borrow::Cow;

use windlass_api::{Quantity, QuantityError};

/// Returns the text in which Go writes a quantity.
pub(crate) fn canonical(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    if is_canonical(text) {
        return Ok(Cow::Borrowed(text));
    }
    text.parse::<Quantity>().map(|quantity| Cow::Owned(quantity.to_string()))
}

/// Reports whether a text is one of the usual canonical quantities: a number of up to nine digits, and a suffix that cannot
/// be replaced by a larger one.
fn is_canonical(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, suffix) = text.split_at(digits);
    let number: u32 = if digits.len() > 9 { 0 } else { digits.parse().unwrap_or_default() };
    if number == 0 || digits.starts_with('0') {
        return text == "0";
    }
    match suffix {
        "" | "m" | "k" | "M" | "G" => !number.is_multiple_of(1000),
        "Ki" | "Mi" | "Gi" => !number.is_multiple_of(1024),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_quantities_are_canonical_as_in_the_parser() {
        let mut usual = 0;
        for number in [
            "0",
            "1",
            "9",
            "10",
            "100",
            "999",
            "1000",
            "1001",
            "1023",
            "1024",
            "1025",
            "2048",
            "1500",
            "123456789",
            "1234567890",
            "01",
            "",
        ] {
            for suffix in ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "e3", "x"] {
                let text = format!("{number}{suffix}");
                if is_canonical(&text) {
                    usual += 1;
                    assert_eq!(text.parse::<Quantity>().unwrap().to_string(), text);
                }
            }
        }
        assert!(usual > 50, "{usual}");
        assert_eq!(canonical("1000m").unwrap(), "1");
        assert_eq!(canonical("0.5Gi").unwrap(), "512Mi");
        assert!(canonical("x").is_err());
        assert!(canonical("").is_err());
    }
}
