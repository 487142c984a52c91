//! `resource.Quantity`: parsing and the canonical form, digit for digit as Go's.
//!
//! Amounts are decimal digits with a power of ten, so nothing overflows. Not supported, where Go would compute for
//! minutes: more than 18 digits together with an exponent beyond ±10,000.

const FORMAT_WRONG: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// The smallest power of ten that a quantity distinguishes.
const NANO: i64 = -9;
/// Digits that surely fit an int64.
const MAX_DIGITS: usize = 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Binary,
    Decimal,
    Exponent,
}

/// The canonical text of a quantity, or Go's error.
pub(crate) fn canonical(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err(FORMAT_WRONG);
    }
    if text == "0" {
        return Ok(text.to_owned());
    }
    let parts = Parts::split(text)?;
    let (family, exponent) = interpret(parts.suffix).ok_or(SUFFIX)?;
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    if fits_int64(family, exponent, &parts) {
        let scale = if family == Family::Binary { 0 } else { exponent - len(parts.fraction) };
        let value: i64 = shifted.parse().map_err(|_| NUMERIC)?;
        let factor =
            if family == Family::Binary { 1i64.checked_shl(u32::try_from(exponent).unwrap_or(64)) } else { Some(1) };
        if let Some(product) = factor.and_then(|factor| value.checked_mul(factor)) {
            let already = match family {
                Family::Binary => value & 7 != 0,
                _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
            };
            if already {
                return Ok(text.to_owned());
            }
            return Ok(Amount::new(parts.negative, &product.to_string(), scale).canonical(family));
        }
    }
    Amount::beyond_int64(text, &parts, family, exponent).map(|(amount, family)| amount.canonical(family))
}

/// Whether Go takes its int64 path, which sometimes keeps the text as it came.
fn fits_int64(family: Family, exponent: i64, parts: &Parts<'_>) -> bool {
    if family == Family::Binary {
        return parts.fraction.is_empty() && 15 - len(parts.whole) - exponent * 3 / 10 > 0;
    }
    parts.whole.len() + parts.fraction.len() <= MAX_DIGITS && exponent - len(parts.fraction) >= NANO
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// The number as it stood, sign included.
    value: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, &'static str> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = unsigned.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Self { negative, whole: "0", fraction: "", value: "0", suffix: "" });
        }
        let (mut whole, mut rest) = split_digits(digits);
        if whole.is_empty() {
            whole = "0";
        }
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = split_digits(after);
        }
        let value = &text[..text.len() - rest.len()];
        let letters = rest.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
        let number = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !number.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(FORMAT_WRONG);
        }
        Ok(Self { negative, whole, fraction, value, suffix: rest })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

fn len(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

const DECIMAL: [(&str, i64); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i64); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The family of a suffix and its exponent, of two for binary ones.
fn interpret(suffix: &str) -> Option<(Family, i64)> {
    let find = |table: &[(&str, i64)]| table.iter().find(|(name, _)| *name == suffix).map(|(_, exponent)| *exponent);
    if let Some(exponent) = find(&DECIMAL) {
        return Some((Family::Decimal, exponent));
    }
    if let Some(exponent) = find(&BINARY) {
        return Some((Family::Binary, exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse::<i32>().ok().map(|exponent| (Family::Exponent, i64::from(exponent)))
}

/// `digits × 10^scale`; zero has no digits.
struct Amount {
    negative: bool,
    /// ASCII, without zeros at the front.
    digits: String,
    scale: i64,
}

impl Amount {
    fn new(negative: bool, digits: &str, scale: i64) -> Self {
        Self { negative, digits: digits.trim_start_matches('0').to_owned(), scale }
    }

    fn beyond_int64(
        text: &str,
        parts: &Parts<'_>,
        family: Family,
        exponent: i64,
    ) -> Result<(Self, Family), &'static str> {
        if !parts.value.bytes().any(|byte| byte.is_ascii_digit()) || exponent.abs() > 10_000 || text.len() > 10_000 {
            return Err(NUMERIC);
        }
        let mut amount = Self::new(parts.negative, &format!("{}{}", parts.whole, parts.fraction), -len(parts.fraction));
        let mut family = family;
        if family == Family::Binary {
            for _ in 0..exponent {
                amount.double();
            }
        } else {
            amount.scale += exponent;
        }
        amount.round_up_to_nano();
        if family == Family::Binary {
            let (whole, exact) = amount.whole();
            match whole {
                None | Some(9_223_372_036_854_775_807..) => {
                    amount = Self::new(parts.negative, "9223372036854775807", 0);
                }
                Some(0) if !exact => family = Family::Decimal,
                Some(_) => {}
            }
        }
        Ok((amount, family))
    }

    fn double(&mut self) {
        let mut carry = 0;
        let mut doubled: Vec<u8> = self
            .digits
            .bytes()
            .rev()
            .map(|digit| {
                let sum = (digit - b'0') * 2 + carry;
                carry = sum / 10;
                b'0' + sum % 10
            })
            .collect();
        if carry > 0 {
            doubled.push(b'0' + carry);
        }
        self.digits = doubled.into_iter().rev().map(char::from).collect();
    }

    /// Away from zero: who asks for a little gets a little.
    fn round_up_to_nano(&mut self) {
        let Ok(surplus) = usize::try_from(NANO - self.scale) else { return };
        if surplus == 0 || self.digits.is_empty() {
            return;
        }
        let keep = self.digits.len().saturating_sub(surplus);
        let inexact = self.digits[keep..].bytes().any(|digit| digit != b'0');
        self.digits.truncate(keep);
        self.scale = NANO;
        if inexact {
            self.increment();
        }
    }

    fn increment(&mut self) {
        let nines = self.digits.len() - self.digits.trim_end_matches('9').len();
        self.digits.truncate(self.digits.len() - nines);
        match self.digits.pop() {
            Some(digit) => self.digits.push(char::from(digit as u8 + 1)),
            None => self.digits.push('1'),
        }
        self.digits.push_str(&"0".repeat(nines));
    }

    /// The part in front of the decimal point, if it is not astronomic, and whether that is all.
    fn whole(&self) -> (Option<u128>, bool) {
        if self.scale >= 0 {
            let zeros = usize::try_from(self.scale).unwrap_or(usize::MAX);
            if self.digits.len().saturating_add(zeros) > 38 {
                return (None, true);
            }
            return (Some(format!("0{}{}", self.digits, "0".repeat(zeros)).parse().unwrap_or(u128::MAX)), true);
        }
        let places = usize::try_from(-self.scale).unwrap_or(usize::MAX);
        let (whole, fraction) = self.digits.split_at(self.digits.len().saturating_sub(places));
        (format!("0{whole}").parse().ok(), fraction.bytes().all(|digit| digit == b'0'))
    }

    fn canonical(&self, family: Family) -> String {
        if self.digits.is_empty() {
            return "0".into();
        }
        let sign = if self.negative { "-" } else { "" };
        if family == Family::Binary
            && let (Some(whole @ 1024..), true) = self.whole()
        {
            let (mut number, mut exponent) = (whole, 0);
            while number >= 1024 && number % 1024 == 0 {
                (number, exponent) = (number / 1024, exponent + 10);
            }
            let suffix = BINARY.iter().find(|(_, power)| *power == exponent).map_or("", |(suffix, _)| suffix);
            return format!("{sign}{number}{suffix}");
        }
        let number = self.digits.trim_end_matches('0');
        let exponent = self.scale + i64::try_from(self.digits.len() - number.len()).unwrap_or_default();
        let shift = exponent.rem_euclid(3);
        let zeros = ["", "0", "00"][usize::try_from(shift).unwrap_or_default()];
        let suffix = match (family, exponent - shift) {
            (Family::Exponent, 0) => String::new(),
            (Family::Exponent, exponent) => format!("e{exponent}"),
            // Beyond the last suffix Go writes none.
            (_, exponent) => {
                DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(suffix, _)| suffix).to_owned()
            }
        };
        format!("{sign}{number}{zeros}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_take_the_form_that_go_gives_them() {
        let table = [
            ("0", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("0.10", "100m"),
            ("1e9", "1e9"),
            ("100Mi", "100Mi"),
            ("1.5Gi", "1536Mi"),
            ("1000Ki", "1000Ki"),
            ("1Ki", "1Ki"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("0Mi", "0"),
            ("-0.5", "-500m"),
            ("+1Mi", "+1Mi"),
            ("1.500", "1.500"),
            ("1500000", "1500k"),
            ("1000000", "1M"),
            ("12e6", "12e6"),
            ("1e3", "1e3"),
            ("10e3", "10e3"),
            ("1000e3", "1e6"),
            ("1E", "1E"),
            ("1000E", "1"),
            ("1e-20", "1e-9"),
            ("0.0000000001", "1n"),
            ("1.0000000001", "1000000001n"),
            ("100000000000000000000", "100E"),
            ("16Ei", "9223372036854775807"),
            ("1.1Ki", "1126400m"),
            ("0.1Ki", "102400m"),
            ("1e1000", "10e999"),
            (".5", "500m"),
            ("5.", "5."),
            ("0x", "x"),
        ];
        for (text, expected) in table {
            if text == "0x" {
                assert_eq!(canonical(text), Err(FORMAT_WRONG));
            } else {
                assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
            }
        }
    }

    #[test]
    fn broken_quantities_say_what_is_wrong() {
        for (text, expected) in [
            ("", FORMAT_WRONG),
            ("abc", FORMAT_WRONG),
            ("1.2.3", FORMAT_WRONG),
            ("1Kx", FORMAT_WRONG),
            ("1KiMi", SUFFIX),
            ("1i", SUFFIX),
        ] {
            assert_eq!(canonical(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn the_canonical_form_is_a_fixed_point_and_keeps_the_value() {
        for whole in ["0", "1", "7", "8", "10", "999", "1000", "1023", "1024", "1025", "123456789", "9999999999"] {
            for fraction in ["", ".5", ".25", ".001", ".000000001", ".100"] {
                for suffix in ["", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "e3", "e-3", "E2"] {
                    for sign in ["", "-"] {
                        let text = format!("{sign}{whole}{fraction}{suffix}");
                        let once = canonical(&text).unwrap();
                        let twice = canonical(&once).unwrap();
                        assert_eq!(once, twice, "{text}");
                    }
                }
            }
        }
    }
}
