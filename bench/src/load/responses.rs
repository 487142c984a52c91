//! Parsing of responses: keeps only the frames that show how a request began and ended.

use windlass_api::BoxError;

use super::request::frame;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// The ACK flag of SETTINGS and PING.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest flow control window.
const WINDOW: u32 = (1 << 31) - 1;
const FIRST_WINDOW: u32 = (1 << 16) - 1;
/// The amount of data after which the window is extended.
const REFILL: u32 = 1 << 28;

/// Parses frames, independent of TLS record boundaries.
#[derive(Debug)]
pub(crate) struct ResponseParser {
    /// The partial header of the current frame.
    head: Vec<u8>,
    /// The remaining bytes of its payload.
    left: usize,
    /// The received payload, unless it is discarded.
    kept: Vec<u8>,
    /// The data since the last window update.
    data: u32,
    /// A failed response: its stream, and its body so far.
    failed: Option<(u32, String)>,
}

/// The result of the received bytes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The number of successful responses that have begun, and of those that have ended.
    pub(crate) begun: usize,
    pub(crate) ended: usize,
    /// The bytes to send.
    pub(crate) reply: Vec<u8>,
}

/// Returns the start of a connection: no dynamic header table, so each response is self-contained, and the maximum
/// window.
pub(crate) fn greeting() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    let mut settings = Vec::new();
    for (setting, value) in [(1_u16, 0_u32), (2, 0), (4, WINDOW)] {
        settings.extend_from_slice(&setting.to_be_bytes());
        settings.extend_from_slice(&value.to_be_bytes());
    }
    frame(&mut out, SETTINGS, 0, 0, &settings);
    frame(&mut out, WINDOW_UPDATE, 0, 0, &(WINDOW - FIRST_WINDOW).to_be_bytes());
    out
}

/// Returns the start of a connection with the windows that every connection has at first: 64 KiB.
pub(crate) fn greeting_with_small_windows() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    frame(&mut out, SETTINGS, 0, 0, &[]);
    out
}

impl ResponseParser {
    pub(crate) fn new() -> Self {
        Self { head: Vec::with_capacity(9), left: 0, kept: Vec::new(), data: 0, failed: None }
    }

    /// Processes received bytes, and discards the bodies of responses. Returns an error for a failed response.
    pub(crate) fn take(&mut self, bytes: &[u8], outcome: &mut Outcome) -> Result<(), BoxError> {
        self.take_bodies(bytes, outcome, &mut |_, _| {})
    }

    /// Like [`Self::take`], and passes the bodies to `body`, each part with its stream.
    pub(crate) fn take_bodies(
        &mut self,
        mut bytes: &[u8],
        outcome: &mut Outcome,
        body: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<(), BoxError> {
        while !bytes.is_empty() {
            if self.head.len() < 9 {
                let (part, rest) = bytes.split_at(bytes.len().min(9 - self.head.len()));
                self.head.extend_from_slice(part);
                bytes = rest;
                if self.head.len() < 9 {
                    return Ok(());
                }
                self.left = self.head[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            }
            let (part, rest) = bytes.split_at(bytes.len().min(self.left));
            bytes = rest;
            self.left -= part.len();
            if self.head[3] != DATA || self.failed.is_some() {
                self.kept.extend_from_slice(part);
            } else {
                self.data += u32::try_from(part.len())?;
                body(self.stream(), part);
            }
            if self.left == 0 {
                self.frame(outcome)?;
                self.head.clear();
                self.kept.clear();
            }
        }
        Ok(())
    }

    /// Returns the stream of the current frame.
    fn stream(&self) -> u32 {
        u32::from_be_bytes([self.head[5], self.head[6], self.head[7], self.head[8]])
    }

    /// Processes a complete frame.
    fn frame(&mut self, outcome: &mut Outcome) -> Result<(), BoxError> {
        let (kind, flags) = (self.head[3], self.head[4]);
        let stream = self.stream();
        match kind {
            DATA => {
                if let Some((failed, text)) = &mut self.failed
                    && *failed == stream
                {
                    text.push_str(&String::from_utf8_lossy(&self.kept));
                }
                if self.data >= REFILL {
                    frame(&mut outcome.reply, WINDOW_UPDATE, 0, 0, &self.data.to_be_bytes());
                    self.data = 0;
                }
            }
            HEADERS => {
                if flags & END_HEADERS == 0 || flags & (PADDED | PRIORITY) != 0 {
                    return Err("the head of an answer is not in one plain frame".into());
                }
                if is_success(&self.kept) {
                    outcome.begun += 1;
                } else {
                    let status = self.kept.iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>();
                    self.failed.get_or_insert((stream, format!("an answer that is no success (head {status}): ")));
                }
            }
            SETTINGS if flags & ACK == 0 => frame(&mut outcome.reply, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(&mut outcome.reply, PING, ACK, 0, &self.kept),
            RST_STREAM | GOAWAY | CONTINUATION => return Err(format!("a frame of kind {kind}: {:?}", self.kept).into()),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            if let Some((_, text)) = self.failed.take_if(|(failed, _)| *failed == stream) {
                return Err(text.into());
            }
            outcome.ended += 1;
        }
        Ok(())
    }
}

/// Reports whether a header block begins with status 200 or 201.
fn is_success(mut block: &[u8]) -> bool {
    // Skips table size updates.
    while let [0x20..=0x3f, rest @ ..] = block {
        block = rest;
    }
    // Accepts an indexed status, or a literal value, plain or with Huffman coding. The name index is that of `:status`
    // in HPACK's static table.
    matches!(
        block,
        [0x88, ..]
            | [0x08..=0x0e | 0x18..=0x1e | 0x48..=0x4e, 0x03, b'2', b'0', b'0' | b'1', ..]
            | [0x08..=0x0e | 0x18..=0x1e | 0x48..=0x4e, 0x82, 0x10, 0x01 | 0x03, ..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bytes: &[u8], at_a_time: usize) -> Result<Outcome, String> {
        let (mut responses, mut outcome) = (ResponseParser::new(), Outcome::default());
        for part in bytes.chunks(at_a_time) {
            responses.take(part, &mut outcome).map_err(|error| error.to_string())?;
        }
        Ok(outcome)
    }

    #[test]
    fn responses_are_counted_at_any_cut() {
        let mut bytes = Vec::new();
        frame(&mut bytes, SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 250]);
        frame(&mut bytes, HEADERS, END_HEADERS, 1, &[0x20, 0x88, 0x5f]);
        frame(&mut bytes, DATA, 0, 1, b"one half");
        frame(&mut bytes, HEADERS, END_HEADERS | END_STREAM, 3, &[0x08, 0x82, 0x10, 0x03]);
        frame(&mut bytes, DATA, END_STREAM, 1, b"the other");
        for at_a_time in [1, 2, 7, bytes.len()] {
            let outcome = taken(&bytes, at_a_time).unwrap();
            assert_eq!((outcome.begun, outcome.ended, outcome.reply.len()), (2, 2, 9), "{at_a_time} at a time");
        }
    }

    #[test]
    fn bodies_are_passed_on_with_their_streams() {
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS, 1, &[0x88]);
        frame(&mut bytes, DATA, 0, 1, b"one ");
        frame(&mut bytes, DATA, 0, 3, b"two");
        frame(&mut bytes, DATA, 0, 1, b"half");
        let (mut responses, mut outcome) = (ResponseParser::new(), Outcome::default());
        let mut bodies = [Vec::new(), Vec::new()];
        for part in bytes.chunks(5) {
            let mut body = |stream: u32, part: &[u8]| bodies[stream as usize / 2].extend_from_slice(part);
            responses.take_bodies(part, &mut outcome, &mut body).unwrap();
        }
        assert_eq!(bodies, [b"one half".to_vec(), b"two".to_vec()]);
    }

    #[test]
    fn success_status_is_parsed_in_any_spelling() {
        let heads: [&[u8]; 5] = [
            &[0x88],
            &[0x08, 3, b'2', b'0', b'1'],
            &[0x20, 0x0e, 0x82, 0x10, 0x03],
            &[0x48, 0x82, 0x10, 0x03],
            &[0x3f, 0x89],
        ];
        assert_eq!(heads.map(is_success), [true, true, true, true, false]);
        assert!(!is_success(&[0x0e, 3, b'2', b'0', b'2']) && !is_success(&[0x8d]));
    }

    #[test]
    fn an_answer_that_is_no_success_is_an_error_with_its_text() {
        let mut bytes = Vec::new();
        frame(&mut bytes, HEADERS, END_HEADERS, 1, &[0x08, 0x03, b'4', b'0', b'9']);
        frame(&mut bytes, DATA, END_STREAM, 1, b"already exists");
        assert!(taken(&bytes, 4).unwrap_err().ends_with("already exists"));
        let mut bytes = Vec::new();
        frame(&mut bytes, GOAWAY, 0, 0, &[0; 8]);
        assert!(taken(&bytes, 99).is_err());
    }
}
