//! Durations and sizes as Kubernetes writes them: `1m30s`, `64Mi`. The modules are for serde's `with`.

use std::{fmt, time::Duration};

use jiff::SignedDuration;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use windlass_api::{Quantity, QuantityFormat, format_duration, parse_duration};

/// Text, which a document may also contain as a number: `bindAddress: 9090`.
#[derive(Debug)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Text, E> {
                Ok(Text(text))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }

        deserializer.deserialize_any(Scalar)
    }
}

/// Deserializes a string or a number as text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Text::deserialize(deserializer).map(|Text(text)| text)
}

/// A `Duration`.
pub(crate) mod duration {
    use serde::{Deserializer, Serializer, de::Error as _};

    use super::{Duration, duration_of, text, text_of};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text_of(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        duration_of(&text(deserializer)?).map_err(D::Error::custom)
    }
}

/// An `Option<Duration>`.
#[allow(clippy::ref_option, reason = "serde calls it so")]
pub(crate) mod optional_duration {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use super::{Duration, Text, duration_of, text_of};

    pub(crate) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(text_of).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<Text>::deserialize(deserializer)?;
        text.map(|Text(text)| duration_of(&text)).transpose().map_err(D::Error::custom)
    }
}

/// An `Option<usize>` of bytes.
#[allow(clippy::ref_option, reason = "serde calls it so")]
pub(crate) mod optional_bytes {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use super::{Text, bytes_of, text_of_bytes};

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<usize>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.map(text_of_bytes).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
        let text = Option::<Text>::deserialize(deserializer)?;
        text.map(|Text(text)| bytes_of(&text)).transpose().map_err(D::Error::custom)
    }
}

fn text_of(duration: Duration) -> String {
    // Durations above 292 years are clamped.
    format_duration(duration.try_into().unwrap_or(SignedDuration::MAX))
}

/// Parses a duration such as `1m30s`.
pub(crate) fn duration_of(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    duration.try_into().map_err(|_| format!("a duration of {text} is negative"))
}

fn text_of_bytes(bytes: usize) -> String {
    Quantity::new(i64::try_from(bytes).unwrap_or(i64::MAX), QuantityFormat::BinarySi).to_string()
}

fn bytes_of(text: &str) -> Result<usize, String> {
    let quantity: Quantity = text.parse().map_err(|_| format!("{text:?} is not a number of bytes, such as 64Mi"))?;
    usize::try_from(quantity.value()).map_err(|_| format!("{text} bytes are negative"))
}
