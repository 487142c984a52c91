//! Strings that arrive in parts: escapes, UTF-8 and base64.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};

use super::Form;
use crate::{
    error::Problem,
    head::{Head, Major},
};

/// The longest part of a character, or of a group of base64, that is held.
const LONGEST: usize = 4;

/// A string that is being read.
#[derive(Debug)]
pub(super) struct Text {
    form: Form,
    major: Major,
    /// The string has an indefinite length and consists of chunks.
    is_chunked: bool,
    /// The number of bytes that are missing in the string or its chunk.
    left: u64,
    /// The start of a character or of a group of base64.
    held: ([u8; LONGEST], usize),
}

impl Text {
    pub(super) fn new(head: Head, form: Form) -> Self {
        let left = head.value();
        Self {
            form,
            major: head.major,
            is_chunked: left.is_none(),
            left: left.unwrap_or_default(),
            held: ([0; LONGEST], 0),
        }
    }

    pub(super) fn begin_chunk(&mut self, length: u64) {
        self.left = length;
    }

    /// Takes the bytes of this string from the start of a chunk of the input.
    pub(super) fn take<'c>(&mut self, chunk: &mut &'c [u8]) -> &'c [u8] {
        let count = usize::try_from(self.left).map_or(chunk.len(), |left| left.min(chunk.len()));
        let (part, rest) = chunk.split_at(count);
        *chunk = rest;
        self.left -= count as u64;
        part
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left == 0
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.is_chunked
    }

    pub(super) fn has_type(&self, major: Major) -> bool {
        self.major == major
    }

    /// Reports whether a character is incomplete.
    pub(super) fn is_split(&self) -> bool {
        self.held.1 > 0
    }

    /// Appends a part as JSON, without quotes.
    pub(super) fn push(&mut self, part: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        match self.form {
            Form::Text => self.push_text(part, out),
            Form::Base64 | Form::Base64Url => {
                self.push_base64(part, out);
                Ok(())
            }
            Form::Base16 => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                out.extend(part.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| DIGITS[usize::from(digit)]));
                Ok(())
            }
        }
    }

    /// Appends the rest of the string.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Problem> {
        let (held, length) = self.held;
        match self.form {
            Form::Text if length > 0 => return Err(Problem::Utf8),
            Form::Base64 | Form::Base64Url => self.encode(&held[..length], out),
            Form::Text | Form::Base16 => {}
        }
        Ok(())
    }

    fn push_text(&mut self, mut part: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        while self.held.1 > 0 {
            let Some((byte, rest)) = part.split_first() else { return Ok(()) };
            part = rest;
            let (held, length) = &mut self.held;
            held[*length] = *byte;
            *length += 1;
            match std::str::from_utf8(&held[..*length]) {
                Ok(text) => {
                    escape(text, out);
                    *length = 0;
                }
                Err(error) if error.error_len().is_none() && *length < LONGEST => {}
                Err(_) => return Err(Problem::Utf8),
            }
        }
        let text = match std::str::from_utf8(part) {
            Ok(text) => text,
            Err(error) if error.error_len().is_none() => {
                let (text, split) = part.split_at(error.valid_up_to());
                self.held.0[..split.len()].copy_from_slice(split);
                self.held.1 = split.len();
                std::str::from_utf8(text).map_err(|_| Problem::Utf8)?
            }
            Err(_) => return Err(Problem::Utf8),
        };
        escape(text, out);
        Ok(())
    }

    fn push_base64(&mut self, mut part: &[u8], out: &mut Vec<u8>) {
        let (mut held, length) = self.held;
        if length > 0 {
            let (more, rest) = part.split_at((3 - length).min(part.len()));
            held[length..length + more.len()].copy_from_slice(more);
            part = rest;
            if length + more.len() < 3 {
                self.held = (held, length + more.len());
                return;
            }
            self.encode(&held[..3], out);
        }
        let (groups, rest) = part.split_at(part.len() - part.len() % 3);
        self.encode(groups, out);
        self.held.0[..rest.len()].copy_from_slice(rest);
        self.held.1 = rest.len();
    }

    fn encode(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + bytes.len().div_ceil(3) * 4, 0);
        let written = match self.form {
            Form::Base64Url => URL_SAFE_NO_PAD.encode_slice(bytes, &mut out[start..]),
            _ => STANDARD.encode_slice(bytes, &mut out[start..]),
        };
        out.truncate(start + written.expect("four characters for each three bytes suffice"));
    }
}

/// Appends text with the escapes of JSON.
fn escape(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let low = DIGITS[usize::from(byte & 15)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), low]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
