//! Quantities (`resource.Quantity`): amounts of memory, CPU and other resources, with exactly the results of Go.
//!
//! Amounts are stored as decimal digits with a power of ten, so they neither overflow nor need rounding. Only fractions
//! below a billionth are rounded away from zero when parsed. Not supported are numbers of more than 18 digits with an
//! exponent beyond ±10,000, for which Go would compute for minutes.

use std::{
    cmp::Ordering,
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// An amount with its format: `500m`, `1536Mi`, `12e6`.
///
/// Equality and order compare amounts: `1000m` equals `1`. Parsed quantities are printed as Go prints them, which is
/// mostly, but not always, the shortest form. Computed quantities are printed in the shortest form.
///
/// ```
/// use windlass_api::Quantity;
///
/// let request: Quantity = "1.5Gi".parse()?;
/// assert_eq!(request.to_string(), "1536Mi");
/// assert_eq!((request + "512Mi".parse()?).to_string(), "2Gi");
/// assert!("1100m".parse::<Quantity>()? > "1".parse()?);
/// assert_eq!("250m".parse::<Quantity>()?.value(), 1);
/// # Ok::<_, windlass_api::QuantityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: QuantityFormat,
    /// The parsed text, in the cases in which Go retains it.
    text: Option<Box<str>>,
}

/// The format of a quantity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuantityFormat {
    /// Powers of 1024: `Ki`, `Mi`, `Gi`, …
    BinarySi,
    /// Powers of 1000: `m`, `k`, `M`, …
    #[default]
    DecimalSi,
    /// An exponent: `12e6`.
    DecimalExponent,
}

/// The error of a text that is not a quantity. The messages are those of the real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// The text is malformed.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Malformed,
    /// The text does not start with a number, or the number is too large.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The smallest power of ten of a quantity.
const NANO: i64 = -9;
/// The number of digits that always fit into an `i64`.
const MAX_DIGITS: usize = 18;

// === impl Quantity ===

impl Quantity {
    /// Creates a quantity from units.
    #[must_use]
    pub fn new(value: i64, format: QuantityFormat) -> Self {
        Self::scaled(value, 0, format)
    }

    /// Creates a quantity from thousandths.
    #[must_use]
    pub fn milli(value: i64, format: QuantityFormat) -> Self {
        Self::scaled(value, -3, format)
    }

    /// Creates the quantity `value` × 10^`scale`. Fractions below a billionth are rounded away from zero.
    #[must_use]
    pub fn scaled(value: i64, scale: i8, format: QuantityFormat) -> Self {
        let mut amount = Amount::new(value < 0, &value.unsigned_abs().to_string(), scale.into());
        amount.round_up_to_nano();
        Self { amount, format, text: None }
    }

    /// Returns the format.
    #[must_use]
    pub const fn format(&self) -> QuantityFormat {
        self.format
    }

    /// Reports whether the amount is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// Reports whether the amount is negative.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.amount.negative && !self.is_zero()
    }

    /// Returns the amount in units, rounded away from zero and limited to the range of `i64`.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Returns the amount in thousandths, rounded away from zero and limited to the range of `i64`.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// Returns the amount in billionths, the smallest unit of a quantity, limited to the range of `i128`.
    #[must_use]
    pub fn nano_value(&self) -> i128 {
        self.rounded(NANO)
    }

    /// Returns the amount in units of 10^`scale`, rounded away from zero and limited to the range of `i64`.
    #[must_use]
    pub fn scaled_value(&self, scale: i8) -> i64 {
        let value = self.rounded(scale.into());
        i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
    }

    /// Returns the amount in units of 10^`scale`, rounded away from zero and limited.
    fn rounded(&self, scale: i64) -> i128 {
        let mut amount = self.amount.clone();
        amount.scale -= scale;
        let (whole, is_all) = amount.whole();
        let whole = whole.map_or(i128::MAX, |whole| i128::try_from(whole).unwrap_or(i128::MAX));
        let away = whole.saturating_add(i128::from(!is_all));
        if amount.negative { -away } else { away }
    }

    /// Returns the nearest floating-point number.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        let digits = if self.is_zero() { "0" } else { &self.amount.digits };
        let unsigned: f64 = format!("{digits}e{}", self.amount.scale).parse().unwrap_or(f64::INFINITY);
        if self.amount.negative { -unsigned } else { unsigned }
    }

    /// Returns the same amount in another format.
    #[must_use]
    pub fn in_format(mut self, format: QuantityFormat) -> Self {
        (self.format, self.text) = (format, None);
        self
    }

    /// Adds or subtracts. A zero takes the format of the other operand.
    fn combined(self, other: &Self, sign: bool) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let negative = other.amount.negative != sign;
        let other = Amount { negative, ..other.amount.clone() };
        Self { amount: self.amount.plus(other), format, text: None }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(QuantityError::Malformed);
        }
        let parts = Parts::split(text)?;
        let (format, exponent) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
        let shifted = format!("{}{}", parts.whole, parts.fraction);
        if fits_int64(format, exponent, &parts) {
            let scale = if format == QuantityFormat::BinarySi { 0 } else { exponent - len(parts.fraction) };
            let value: i64 = shifted.parse().map_err(|_| QuantityError::Number)?;
            let factor = if format == QuantityFormat::BinarySi {
                1i64.checked_shl(u32::try_from(exponent).unwrap_or(64))
            } else {
                Some(1)
            };
            if let Some(product) = factor.and_then(|factor| value.checked_mul(factor)) {
                let is_kept = match format {
                    QuantityFormat::BinarySi => value & 7 != 0,
                    _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
                };
                let amount = Amount::new(parts.negative, &product.to_string(), scale);
                return Ok(Self { amount, format, text: (is_kept || text == "0").then(|| text.into()) });
            }
        }
        let (amount, format) = Amount::beyond_int64(text, &parts, format, exponent)?;
        Ok(Self { amount, format, text: None })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.pad(text),
            None => f.pad(&self.amount.canonical(self.format)),
        }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::new(0, QuantityFormat::default())
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combined(&other, false)
    }
}

impl Sub for Quantity {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.combined(&other, true)
    }
}

impl AddAssign<&Self> for Quantity {
    fn add_assign(&mut self, other: &Self) {
        *self = std::mem::take(self).combined(other, false);
    }
}

impl SubAssign<&Self> for Quantity {
    fn sub_assign(&mut self, other: &Self) {
        *self = std::mem::take(self).combined(other, true);
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(mut self) -> Self {
        (self.amount.negative, self.text) = (!self.amount.negative, None);
        self
    }
}

impl Mul<i64> for Quantity {
    type Output = Self;

    fn mul(self, factor: i64) -> Self {
        Self { amount: self.amount.times(factor), format: self.format, text: None }
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(quantities: I) -> Self {
        quantities.fold(Self::default(), Self::add)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Also decodes plain numbers, as Go does.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Number(serde_json::Number),
        }
        let text = match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::Number(number) => number.to_string(),
        };
        text.trim().parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "k8s-openapi")]
impl TryFrom<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> for Quantity {
    type Error = QuantityError;

    fn try_from(text: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> Result<Self, Self::Error> {
        text.0.trim().parse()
    }
}

#[cfg(feature = "k8s-openapi")]
impl From<&Quantity> for k8s_openapi::apimachinery::pkg::api::resource::Quantity {
    fn from(quantity: &Quantity) -> Self {
        Self(quantity.to_string())
    }
}

// === Parsing ===

/// Reports whether Go uses its int64 code path, which sometimes retains the parsed text.
fn fits_int64(format: QuantityFormat, exponent: i64, parts: &Parts<'_>) -> bool {
    if format == QuantityFormat::BinarySi {
        return parts.fraction.is_empty() && 15 - len(parts.whole) - exponent * 3 / 10 > 0;
    }
    parts.whole.len() + parts.fraction.len() <= MAX_DIGITS && exponent - len(parts.fraction) >= NANO
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// The number in the text, including its sign.
    value: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
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
            return Err(QuantityError::Malformed);
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

/// Returns the format of a suffix and its exponent, to base two for binary suffixes.
fn interpret(suffix: &str) -> Option<(QuantityFormat, i64)> {
    let find = |table: &[(&str, i64)]| table.iter().find(|(name, _)| *name == suffix).map(|(_, exponent)| *exponent);
    if let Some(exponent) = find(&DECIMAL) {
        return Some((QuantityFormat::DecimalSi, exponent));
    }
    if let Some(exponent) = find(&BINARY) {
        return Some((QuantityFormat::BinarySi, exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse::<i32>().ok().map(|exponent| (QuantityFormat::DecimalExponent, i64::from(exponent)))
}

// === Amounts ===

/// The value `digits × 10^scale`; zero has no digits.
#[derive(Clone, Debug)]
struct Amount {
    negative: bool,
    /// ASCII digits without leading zeros.
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
        format: QuantityFormat,
        exponent: i64,
    ) -> Result<(Self, QuantityFormat), QuantityError> {
        if !parts.value.bytes().any(|byte| byte.is_ascii_digit()) || exponent.abs() > 10_000 || text.len() > 10_000 {
            return Err(QuantityError::Number);
        }
        let mut amount = Self::new(parts.negative, &format!("{}{}", parts.whole, parts.fraction), -len(parts.fraction));
        let mut format = format;
        if format == QuantityFormat::BinarySi {
            for _ in 0..exponent {
                amount.double();
            }
        } else {
            amount.scale += exponent;
        }
        amount.round_up_to_nano();
        if format == QuantityFormat::BinarySi {
            let (whole, exact) = amount.whole();
            match whole {
                None | Some(9_223_372_036_854_775_807..) => {
                    amount = Self::new(parts.negative, "9223372036854775807", 0);
                }
                Some(0) if !exact => format = QuantityFormat::DecimalSi,
                Some(_) => {}
            }
        }
        Ok((amount, format))
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

    /// Rounds away from zero, so that a small amount does not become zero.
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

    /// Returns the integer part, unless it is too large, and whether there is no fraction.
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

    const fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Returns the digits at an equal or finer scale.
    fn digits_at(&self, scale: i64) -> Vec<u8> {
        let zeros = if self.is_zero() { 0 } else { usize::try_from(self.scale - scale).unwrap_or_default() };
        self.digits.bytes().chain(std::iter::repeat_n(b'0', zeros)).map(|digit| digit - b'0').collect()
    }

    fn compare(&self, other: &Self) -> Ordering {
        let scale = self.scale.min(other.scale);
        let (ours, theirs) = (self.digits_at(scale), other.digits_at(scale));
        let sign = |amount: &Self| {
            if amount.is_zero() {
                0
            } else if amount.negative {
                -1
            } else {
                1
            }
        };
        sign(self).cmp(&sign(other)).then_with(|| {
            let magnitude = compare_digits(&ours, &theirs);
            if self.negative { magnitude.reverse() } else { magnitude }
        })
    }

    fn plus(self, other: Self) -> Self {
        let scale = self.scale.min(other.scale);
        let (ours, theirs) = (self.digits_at(scale), other.digits_at(scale));
        if self.negative == other.negative {
            return Self::of_digits(self.negative, &add_digits(&ours, &theirs), scale);
        }
        match compare_digits(&ours, &theirs) {
            Ordering::Less => Self::of_digits(other.negative, &subtract_digits(&theirs, &ours), scale),
            _ => Self::of_digits(self.negative, &subtract_digits(&ours, &theirs), scale),
        }
    }

    fn times(self, factor: i64) -> Self {
        let mut carry = 0u128;
        let mut product: Vec<u8> = Vec::with_capacity(self.digits.len() + 20);
        for digit in self.digits.bytes().rev() {
            carry += u128::from(digit - b'0') * u128::from(factor.unsigned_abs());
            product.push(low_digit(carry));
            carry /= 10;
        }
        while carry > 0 {
            product.push(low_digit(carry));
            carry /= 10;
        }
        product.reverse();
        Self::of_digits(self.negative != (factor < 0), &product, self.scale)
    }

    fn of_digits(negative: bool, digits: &[u8], scale: i64) -> Self {
        let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        Self::new(negative, &text, scale)
    }

    fn canonical(&self, format: QuantityFormat) -> String {
        if self.digits.is_empty() {
            return "0".into();
        }
        let sign = if self.negative { "-" } else { "" };
        if format == QuantityFormat::BinarySi
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
        let suffix = match (format, exponent - shift) {
            (QuantityFormat::DecimalExponent, 0) => String::new(),
            (QuantityFormat::DecimalExponent, exponent) => format!("e{exponent}"),
            // Beyond the last suffix, Go writes no suffix.
            (_, exponent) => {
                DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(suffix, _)| suffix).to_owned()
            }
        };
        format!("{sign}{number}{zeros}{suffix}")
    }
}

/// Compares numbers without leading zeros.
fn compare_digits(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn add_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (mut sum, mut carry) = (Vec::with_capacity(a.len().max(b.len()) + 1), 0);
    for at in 0..a.len().max(b.len()) {
        let digit = |digits: &[u8]| digits.len().checked_sub(at + 1).map_or(0, |at| digits[at]);
        let total = digit(a) + digit(b) + carry;
        sum.push(total % 10);
        carry = total / 10;
    }
    sum.push(carry);
    sum.reverse();
    sum
}

/// Computes `a - b` for `a >= b`.
fn subtract_digits(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (mut difference, mut borrow) = (Vec::with_capacity(a.len()), 0);
    for at in 0..a.len() {
        let digit = |digits: &[u8]| digits.len().checked_sub(at + 1).map_or(0, |at| digits[at]);
        let take = digit(b) + borrow;
        borrow = u8::from(digit(a) < take);
        difference.push(digit(a) + 10 * borrow - take);
    }
    difference.reverse();
    difference
}

fn low_digit(number: u128) -> u8 {
    u8::try_from(number % 10).unwrap_or_default()
}

#[cfg(test)]
mod tests;
