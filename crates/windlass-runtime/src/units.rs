//! Durations and sizes as Kubernetes writes them: `1m30s`, `64Mi`. The modules are for serde's `with`.

use std::time::Duration;

use jiff::SignedDuration;
use windlass_api::{Quantity, QuantityFormat, format_duration, parse_duration};

/// A `Duration`.
pub(crate) mod duration {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::{Duration, duration_of, text_of};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&text_of(*duration))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        duration_of(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// An `Option<Duration>`.
#[allow(clippy::ref_option, reason = "serde calls it so")]
pub(crate) mod optional_duration {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use super::{Duration, duration_of, text_of};

    pub(crate) fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(text_of).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| duration_of(&text)).transpose().map_err(D::Error::custom)
    }
}

/// An `Option<usize>` of bytes.
#[allow(clippy::ref_option, reason = "serde calls it so")]
pub(crate) mod optional_bytes {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use super::{bytes_of, text_of_bytes};

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<usize>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.map(text_of_bytes).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| bytes_of(&text)).transpose().map_err(D::Error::custom)
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
