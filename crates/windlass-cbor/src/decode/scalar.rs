//! Items without content: numbers, simple values and times.

use super::{Decoder, Floats};
use crate::{
    error::{Error, Problem},
    head::{Argument, Head, Major},
    number,
};

impl Decoder {
    /// Writes a number, `true`, `false` or `null`.
    pub(super) fn scalar(&mut self, head: Head, out: &mut Vec<u8>) -> Result<(), Error> {
        let integer = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
        match (head.major, head.argument) {
            (Major::Unsigned, argument) if argument != Argument::Indefinite => {
                let value = integer(head.value()).ok_or_else(|| self.error(Problem::Integer))?;
                out.extend_from_slice(value.to_string().as_bytes());
            }
            (Major::Negative, argument) if argument != Argument::Indefinite => {
                let value = integer(head.value()).ok_or_else(|| self.error(Problem::Integer))?;
                out.extend_from_slice((!value).to_string().as_bytes());
            }
            (Major::Simple, Argument::Short(20)) => out.extend_from_slice(b"false"),
            (Major::Simple, Argument::Short(21)) => out.extend_from_slice(b"true"),
            (Major::Simple, Argument::Short(22)) => out.extend_from_slice(b"null"),
            (Major::Simple, Argument::Long(bytes, bits)) if let Some(float) = number::float(bytes, bits) => {
                if !float.is_finite() {
                    return Err(self.error(Problem::Float));
                }
                number::push_json(float, self.floats == Floats::Kept, out);
            }
            (Major::Simple, _) => return Err(self.error(Problem::Simple)),
            _ => return Err(self.error(Problem::Malformed)),
        }
        Ok(())
    }

    /// Writes a time that is given in seconds.
    pub(super) fn time(&mut self, head: Head, out: &mut Vec<u8>) -> Result<(), Error> {
        let integer = head.value().and_then(|value| i64::try_from(value).ok());
        let time = match (head.major, head.argument) {
            (Major::Unsigned, _) => integer.and_then(number::time_of_integer),
            (Major::Negative, _) => integer.and_then(|value| number::time_of_integer(!value)),
            (Major::Simple, Argument::Long(bytes, bits)) => {
                number::float(bytes, bits).filter(|float| float.is_finite()).and_then(number::time_of_float)
            }
            _ => None,
        };
        let time = time.ok_or_else(|| self.error(Problem::Tag))?;
        out.push(b'"');
        out.extend_from_slice(time.as_bytes());
        out.push(b'"');
        self.end_item(out)
    }
}
