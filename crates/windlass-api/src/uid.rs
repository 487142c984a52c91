//! UIDs of objects.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The UID of an object: an opaque text.
///
/// The UUIDs of servers are stored in 16 bytes, any other text as text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    /// A UUID of 32 lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12. Every text of this form is stored
    /// this way, so stored values are equal if and only if the texts are equal.
    Uuid([u8; 16]),
    Text(Arc<str>),
}

/// The positions of the hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// The positions of each byte's two digits.
const PAIRS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The value of each character as a digit.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        digits[HEX[value as usize] as usize] = value;
        value += 1;
    }
    digits
};

/// Has a bit that no digit has.
const NO_DIGIT: u8 = 16;

// === impl Uid ===

impl Uid {
    /// Creates a UID from its text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| Repr::Text(text.into()), Repr::Uuid))
    }

    /// Reports whether the UID is empty, as in objects that no server has stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    let mut uuid = [0; 16];
    let mut seen = 0;
    for (byte, at) in uuid.iter_mut().zip(PAIRS) {
        let (high, low) = (DIGITS[usize::from(text[at])], DIGITS[usize::from(text[at + 1])]);
        seen |= high | low;
        *byte = high << 4 | low & 15;
    }
    (seen < NO_DIGIT && HYPHENS.iter().all(|at| text[*at] == b'-')).then_some(uuid)
}

impl Default for Uid {
    /// Returns the empty UID.
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Text(text) => f.write_str(text),
            Repr::Uuid(uuid) => {
                let mut text = [b'-'; 36];
                for (byte, at) in uuid.iter().zip(PAIRS) {
                    text[at..at + 2].copy_from_slice(&[byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]));
                }
                f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&Uid> for Arc<str> {
    fn from(uid: &Uid) -> Self {
        match &uid.0 {
            Repr::Text(text) => Self::clone(text),
            Repr::Uuid(_) => uid.to_string().into(),
        }
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, text: &str) -> bool {
        match &self.0 {
            Repr::Text(own) => **own == *text,
            Repr::Uuid(own) => uuid(text).is_some_and(|uuid| uuid == *own),
        }
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&std::borrow::Cow::<str>::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_reads_as_it_was_written() {
        for text in [
            "0a1b2c3d-4e5f-4789-8abc-def012345678",
            "00000000-0000-0000-0000-000000000000",
            "0A1B2C3D-4E5F-4789-8ABC-DEF012345678",
            "0a1b2c3d4e5f47898abcdef012345678",
            "0a1b2c3d-4e5f-4789-8abcd-ef01234567",
            "pod-1",
            "",
        ] {
            let uid = Uid::new(text);
            assert_eq!(uid.to_string(), text);
            assert_eq!(&*Arc::<str>::from(&uid), text);
            assert!(uid == *text && uid != *"other" && uid.is_empty() == text.is_empty());
            assert_eq!(serde_json::from_str::<Uid>(&serde_json::to_string(&uid).unwrap()).unwrap(), uid);
        }
        assert_ne!(Uid::new("0A1B2C3D-4E5F-4789-8ABC-DEF012345678"), Uid::new("0a1b2c3d-4e5f-4789-8abc-def012345678"));
    }
}
