//! Counts that may be percentages: `maxUnavailable: 25%`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thiserror::Error;

/// The rounding of a percentage's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds up.
    Up,
    /// Rounds down.
    Down,
}

/// The error of a text that is not a percentage. The messages are Go's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PercentError {
    /// The text does not end with a percent sign.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NoPercentage,
    /// The text before the percent sign is not an integer.
    #[error(
        "invalid value for IntOrString: invalid value {text:?}: strconv.Atoi: parsing {:?}: invalid syntax",
        text.trim_end_matches('%')
    )]
    NoNumber {
        /// The whole text.
        text: String,
    },
}

/// Numbers, and percentages of a total.
///
/// ```
/// use windlass_api::{IntOrPercent as _, Rounding};
/// # use windlass_api::k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
///
/// assert_eq!(IntOrString::Int(3).scaled_to(10, Rounding::Up), Ok(3));
/// assert_eq!(IntOrString::String("25%".to_owned()).scaled_to(10, Rounding::Up), Ok(3));
/// assert_eq!(IntOrString::String("25%".to_owned()).scaled_to(10, Rounding::Down), Ok(2));
/// ```
pub trait IntOrPercent: Sized {
    /// Returns the number, or the percentage of `total`.
    fn scaled_to(&self, total: i64, rounding: Rounding) -> Result<i64, PercentError>;

    /// Parses a number if the text is one, or else keeps the text.
    fn parse_lenient(text: &str) -> Self;
}

impl IntOrPercent for IntOrString {
    fn scaled_to(&self, total: i64, rounding: Rounding) -> Result<i64, PercentError> {
        let text = match self {
            Self::Int(number) => return Ok(i64::from(*number)),
            Self::String(text) => text,
        };
        let percent = text.strip_suffix('%').ok_or(PercentError::NoPercentage)?;
        let percent: i64 = percent.parse().map_err(|_| PercentError::NoNumber { text: text.clone() })?;
        let hundredfold = i128::from(percent) * i128::from(total);
        let part = match rounding {
            Rounding::Down => hundredfold.div_euclid(100),
            Rounding::Up => -(-hundredfold).div_euclid(100),
        };
        Ok(i64::try_from(part).unwrap_or(if part < 0 { i64::MIN } else { i64::MAX }))
    }

    fn parse_lenient(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::String(text.to_owned()), Self::Int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up_or_down() {
        for (text, total, up, down) in [
            ("0%", 7, 0, 0),
            ("1%", 1, 1, 0),
            ("50%", 5, 3, 2),
            ("100%", 5, 5, 5),
            ("-10%", 15, -1, -2),
            ("200%", 3, 6, 6),
        ] {
            let value = IntOrString::String(text.to_owned());
            assert_eq!(
                (value.scaled_to(total, Rounding::Up), value.scaled_to(total, Rounding::Down)),
                (Ok(up), Ok(down)),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_int_or_string_has_gos_error() {
        let error =
            |text: &str| IntOrString::String(text.to_owned()).scaled_to(1, Rounding::Up).unwrap_err().to_string();
        assert_eq!(error("5"), "invalid value for IntOrString: invalid type: string is not a percentage");
        assert_eq!(
            error("x%"),
            "invalid value for IntOrString: invalid value \"x%\": strconv.Atoi: parsing \"x\": invalid syntax"
        );
    }

    #[test]
    fn texts_that_are_numbers_become_numbers() {
        assert_eq!(IntOrString::parse_lenient("80"), IntOrString::Int(80));
        assert_eq!(IntOrString::parse_lenient("http"), IntOrString::String("http".to_owned()));
        assert_eq!(IntOrString::parse_lenient("99999999999"), IntOrString::String("99999999999".to_owned()));
    }
}
