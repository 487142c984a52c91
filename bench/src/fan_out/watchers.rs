//! A connection with watches, and the cheapest way to read them.

use std::{cell::RefCell, rc::Rc};

use tokio::time::Instant;
use windlass_api::BoxError;

use super::deliveries::Deliveries;
use crate::load::{Address, DIGITS, Frames, Outcome, ResponseParser, SMALL_READ, TlsConnection};

/// The end of an event after the digits of its number: `data`, the object and the event are closed.
const END: &[u8; 4] = b"\"}}}";

/// The bytes before the end of a line that contain the number.
const TAIL: usize = DIGITS + END.len();

/// A connection with its watches.
pub(super) struct WatcherConnection {
    connection: TlsConnection,
    responses: ResponseParser,
    outcome: Outcome,
    lines: Vec<Lines>,
}

/// The lines of one watch.
#[derive(Debug, Default)]
struct Lines {
    /// The number of the last write.
    last: u32,
    /// The last bytes before the next ones.
    tail: [u8; TAIL],
}

impl WatcherConnection {
    pub(super) fn open(address: &Address, greeting: &[u8]) -> Result<Self, BoxError> {
        Ok(Self {
            connection: address.connect(SMALL_READ, greeting)?,
            responses: ResponseParser::new(),
            outcome: Outcome::default(),
            lines: Vec::new(),
        })
    }

    /// Sends the requests of watches.
    pub(super) fn watch(&mut self, request: &Frames, watches: usize) -> Result<(), BoxError> {
        let mut out = Vec::new();
        for stream in (1..).step_by(2).take(watches) {
            request.write(stream, 0, 0, &mut out);
            self.lines.push(Lines::default());
        }
        self.connection.send(&out)
    }

    /// Reads the watches until the connection ends.
    pub(super) async fn follow(self, deliveries: Rc<RefCell<Deliveries>>) -> Result<(), BoxError> {
        let Self { connection, mut responses, mut outcome, mut lines } = self;
        let mut connection = connection.into_async()?;
        loop {
            connection.receive().await?;
            let now = Instant::now();
            let deliveries = &mut *deliveries.borrow_mut();
            deliveries.count_read();
            connection.process(&mut |bytes| {
                responses.take_bodies(bytes, &mut outcome, &mut |stream, part| {
                    if let Some(lines) = lines.get_mut(stream as usize / 2) {
                        lines.take(part, |last, write, count| deliveries.receive(last, write, count, now));
                    }
                })
            })?;
            deliveries.open(std::mem::take(&mut outcome.begun));
            if outcome.ended > 0 {
                return Err("the server has ended a watch".into());
            }
            if !outcome.reply.is_empty() {
                connection.send(&outcome.reply)?;
                outcome.reply.clear();
            }
        }
    }
}

impl Lines {
    /// Counts the lines that end in these bytes, and reads the number of the last one. Passes on the number before, that
    /// number, and the count.
    fn take(&mut self, bytes: &[u8], received: impl FnOnce(u32, u32, u64)) {
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            let write = number(&self.last_bytes(&bytes[..end])).unwrap_or(self.last);
            #[expect(clippy::naive_bytecount, reason = "it is vectorized, and the parts are short")]
            let count = bytes.iter().filter(|byte| **byte == b'\n').count();
            received(self.last, write, count as u64);
            self.last = write.max(self.last);
        }
        self.tail = self.last_bytes(bytes);
    }

    /// Returns the last bytes after these.
    fn last_bytes(&self, bytes: &[u8]) -> [u8; TAIL] {
        if let Some(last) = bytes.last_chunk() {
            return *last;
        }
        let mut tail = self.tail;
        tail.rotate_left(bytes.len());
        tail[TAIL - bytes.len()..].copy_from_slice(bytes);
        tail
    }
}

/// Returns the number at the end of an event.
fn number(tail: &[u8; TAIL]) -> Option<u32> {
    let digits = tail.strip_suffix(END)?;
    digits.iter().try_fold(0_u32, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_the_last_line_is_read_at_any_cut() {
        let text: String = (1..=3)
            .map(|number| {
                format!("{{\"type\":\"MODIFIED\",\"object\":{{\"data\":{{\"sequence\":\"{number:08}\"}}}}}}\n")
            })
            .collect();
        for at_a_time in [1, 3, 12, 13, 64, 70, text.len()] {
            let (mut lines, mut reached, mut count) = (Lines::default(), 0, 0);
            for part in text.as_bytes().chunks(at_a_time) {
                lines.take(part, |last, write, lines| {
                    assert_eq!(last, reached);
                    (reached, count) = (write, count + lines);
                });
            }
            assert_eq!((reached, count), (3, 3), "{at_a_time} at a time");
        }
    }

    #[test]
    fn line_without_a_number_is_counted_only() {
        let mut lines = Lines { last: 7, ..Lines::default() };
        lines.take(b"{\"type\":\"ADDED\",\"object\":{\"data\":{\"sequence\":\"new\"}}}\n", |last, write, count| {
            assert_eq!((last, write, count), (7, 7, 1));
        });
        assert_eq!(lines.last, 7);
    }
}
