//! The types with their own JSON encoding.

use super::{Encoder, Fault, Result, wrong};
use crate::{
    quantity,
    table::{Message, Special},
    tape::{Index, Kind},
    time::{Precision, Time},
};

impl Encoder<'_, '_> {
    /// Writes the content of a message of a special type; `None` is Go's zero value.
    pub(super) fn special(
        &mut self,
        special: Special,
        message: &'static Message,
        value: Option<Index>,
        depth: usize,
    ) -> Result {
        let Some(index) = value else {
            match special {
                Special::Quantity => self.out.bytes(1, b"0"),
                Special::IntOrString => self.int_or_string(0, 0, ""),
                Special::SchemaOrBool => self.out.number(1, 0),
                // Zero times are empty, and the others consist of pointers and lists.
                _ => {}
            }
            return Ok(());
        };
        let node = self.tape.node(index);
        match special {
            Special::Quantity => self.quantity(index),
            Special::IntOrString if node.kind == Kind::Number => {
                let number = self.integer::<i32>(node)?;
                self.int_or_string(0, number, "");
                Ok(())
            }
            Special::IntOrString => {
                let text = self.text(node).map_err(|_| wrong("an integer or a string", node))?.into_owned();
                self.int_or_string(1, 0, &text);
                Ok(())
            }
            Special::Time => self.time(index, Precision::Seconds),
            Special::MicroTime => self.time(index, Precision::Micros),
            Special::Raw => {
                self.out.bytes(1, self.tape.raw(node).as_bytes());
                Ok(())
            }
            Special::Strings => self.list(&message.fields[0], index, depth),
            Special::SchemaOrBool => match node.kind {
                Kind::True | Kind::False => {
                    self.out.number(1, u64::from(node.kind == Kind::True));
                    Ok(())
                }
                Kind::Object => {
                    self.field(&message.fields[1], index, depth)?;
                    self.out.number(1, 1);
                    Ok(())
                }
                _ => Err(wrong("a boolean or an object", node)),
            },
            Special::SchemaOrArray | Special::SchemaOrStrings => match node.kind {
                Kind::Array => self.list(&message.fields[1], index, depth),
                Kind::Object => self.field(&message.fields[0], index, depth),
                _ => Err(wrong("an object or an array", node)),
            },
        }
    }

    fn quantity(&mut self, value: Index) -> Result {
        let node = self.tape.node(value);
        if !matches!(node.kind, Kind::Plain | Kind::Escaped | Kind::Number) {
            return Err(wrong("a quantity", node));
        }
        // Go does not interpret escapes here.
        let canonical =
            quantity::canonical(self.tape.text(node).trim()).map_err(|error| Fault::new(error.to_string()))?;
        self.out.bytes(1, canonical.as_bytes());
        Ok(())
    }

    fn int_or_string(&mut self, ty: u64, number: i32, text: &str) {
        self.out.bytes(3, text.as_bytes());
        self.out.number(2, i64::from(number).cast_unsigned());
        self.out.number(1, ty);
    }

    /// Writes a time. Go's zero time is empty.
    fn time(&mut self, value: Index, precision: Precision) -> Result {
        let text = self.text(self.tape.node(value))?;
        let Some(time) = Time::parse(&text, precision) else {
            return Err(Fault::new(match precision {
                Precision::Seconds => "expected a time such as \"2006-01-02T15:04:05Z\"",
                Precision::Micros => "expected a time such as \"2006-01-02T15:04:05.000000Z\"",
            }));
        };
        if !time.is_zero() {
            let nanos = if precision == Precision::Seconds { 0 } else { time.nanos };
            self.out.number(2, nanos.into());
            self.out.number(1, time.seconds.cast_unsigned());
        }
        Ok(())
    }
}
