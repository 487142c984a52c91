//! CBOR → JSON: a state machine that consumes chunks and appends JSON.
//!
//! The input is not held: text is copied as it arrives, with its quotes and escapes, and heads are translated into brackets,
//! commas and numbers. Only keys are remembered, as hashes.

mod scalar;
mod string;
mod text;

use std::collections::hash_map::RandomState;

use self::text::Text;
use crate::{
    error::{Error, Problem},
    head::{Argument, Head, LONGEST, Major},
};

/// The maximum nesting of maps and lists, as in Kubernetes.
pub const MAX_DEPTH: usize = 10_000;

/// The maximum number of keys in all open maps. In Kubernetes it is the maximum of each map.
pub const MAX_KEYS: usize = 2_097_152;

/// The maximum length of a key in bytes.
const MAX_KEY: usize = 1 << 20;

/// The form of floats without a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Floats {
    /// As integers, `2`, which is how Go writes them in JSON.
    #[default]
    Shortest,
    /// With a fraction, `2.0`, so that they differ from integers.
    Kept,
}

/// Converts a stream of CBOR to JSON.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// The start of a head that continues in the next chunk.
    head: ([u8; LONGEST], usize),
    /// The open maps and lists.
    open: Vec<Open>,
    /// The hashes of the keys of the open maps, those of inner maps after those of outer ones.
    keys: Vec<u64>,
    /// The key that is being read, as JSON.
    key: Vec<u8>,
    hasher: RandomState,
    tags: Tags,
    /// The number of bytes of complete heads and strings so far.
    offset: u64,
    /// The input is a sequence of items. Each ends with a newline in the output.
    is_sequence: bool,
    floats: Floats,
}

#[derive(Debug)]
enum State {
    /// Before the head of an item or a break.
    Head,
    /// Within a string or a chunk of one.
    Text(Text),
    /// Before the head of a chunk of a string of indefinite length.
    Chunk(Text),
    /// After the only item.
    Complete,
}

/// An open map or list.
#[derive(Debug)]
struct Open {
    kind: Kind,
    /// The elements or pairs that are missing; `None` if the length is indefinite.
    left: Option<u64>,
    is_empty: bool,
    /// The form of byte strings within.
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    List,
    Map {
        /// The position of its first key in the hashes.
        keys: usize,
        /// The next item is a value.
        has_key: bool,
    },
}

/// The JSON form of byte strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// The bytes are text.
    #[default]
    Text,
    Base64Url,
    Base64,
    Base16,
}

/// The tags before an item.
#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    /// At least one tag was read, so that an item must follow.
    is_any: bool,
    form: Option<Form>,
    time: Option<Time>,
}

/// The required content of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Text,
    Seconds,
}

/// Converts a document to JSON, as Go writes it apart from the order of keys and the escapes of `<`, `>` and `&`.
pub fn to_json(document: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(document.len() + document.len() / 4);
    let mut decoder = Decoder::document();
    decoder.push(document, &mut out)?;
    decoder.finish()?;
    Ok(out)
}

impl Decoder {
    /// Creates a decoder for one document.
    #[must_use]
    pub fn document() -> Self {
        Self {
            state: State::Head,
            head: ([0; LONGEST], 0),
            open: Vec::new(),
            keys: Vec::new(),
            key: Vec::new(),
            hasher: RandomState::new(),
            tags: Tags::default(),
            offset: 0,
            is_sequence: false,
            floats: Floats::default(),
        }
    }

    /// Creates a decoder for a sequence, such as a watch. In the output, a newline ends each item.
    #[must_use]
    pub fn sequence() -> Self {
        Self { is_sequence: true, ..Self::document() }
    }

    /// Sets the form of floats without a fraction.
    #[must_use]
    pub fn with_floats(self, floats: Floats) -> Self {
        Self { floats, ..self }
    }

    /// Appends the JSON of a chunk. After an error, the decoder must not be used.
    pub fn push(&mut self, mut chunk: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        while !chunk.is_empty() {
            match std::mem::replace(&mut self.state, State::Head) {
                State::Head => {
                    if let Some(head) = self.read_head(&mut chunk)? {
                        self.begin(head, &mut chunk, out)?;
                    }
                }
                State::Chunk(text) => {
                    self.state = match self.read_head(&mut chunk)? {
                        Some(head) => self.chunk(text, head, out)?,
                        None => State::Chunk(text),
                    };
                }
                State::Text(mut text) => {
                    let part = text.take(&mut chunk);
                    self.offset += part.len() as u64;
                    self.write(&mut text, part, out)?;
                    self.state = if text.is_complete() { self.end_text(text, out)? } else { State::Text(text) };
                }
                State::Complete => return Err(self.error(Problem::Trailing)),
            }
        }
        Ok(())
    }

    /// Ends the input. Returns an error if an item is incomplete, or if a document is missing.
    pub fn finish(&self) -> Result<(), Error> {
        let is_between =
            matches!(self.state, State::Head) && self.head.1 == 0 && self.open.is_empty() && !self.tags.is_any;
        if matches!(self.state, State::Complete) || self.is_sequence && is_between {
            return Ok(());
        }
        Err(self.error(Problem::Truncated))
    }

    /// Returns the next head; `None`, after keeping its start, if it is incomplete.
    fn read_head(&mut self, chunk: &mut &[u8]) -> Result<Option<Head>, Error> {
        let (bytes, held) = &mut self.head;
        let first = if *held == 0 { chunk[0] } else { bytes[0] };
        let Some(length) = Head::length(first) else { return Err(self.error(Problem::Malformed)) };
        let head = if *held == 0 && chunk.len() >= length {
            let (head, rest) = chunk.split_at(length);
            *chunk = rest;
            Head::read(head)
        } else {
            let (more, rest) = chunk.split_at((length - *held).min(chunk.len()));
            bytes[*held..*held + more.len()].copy_from_slice(more);
            *held += more.len();
            *chunk = rest;
            if *held < length {
                return Ok(None);
            }
            *held = 0;
            Head::read(&bytes[..length])
        };
        self.offset += length as u64;
        Ok(Some(head))
    }

    /// Begins an item, or ends a map or list of indefinite length. Leaves the state for the bytes that follow.
    fn begin(&mut self, head: Head, chunk: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if head.major == Major::Tag {
            return self.tag(head);
        }
        if head.major == Major::Simple && head.argument == Argument::Indefinite {
            return self.end_indefinite(out);
        }
        let is_string = matches!(head.major, Major::Bytes | Major::Text);
        let tags = std::mem::take(&mut self.tags);
        let inherited = self.open.last().map_or(Form::Text, |open| open.form);
        if let Some(open) = self.open.last_mut() {
            match &open.kind {
                Kind::Map { has_key: false, .. } if !is_string => return Err(self.error(Problem::Key)),
                Kind::Map { has_key: true, .. } => {}
                _ if open.is_empty => open.is_empty = false,
                _ => out.push(b','),
            }
        }
        let form = tags.form.unwrap_or(inherited);
        match (head.major, tags.time) {
            (Major::Text, Some(Time::Text)) | (_, None) => {}
            (_, Some(Time::Seconds)) => return self.time(head, out),
            _ => return Err(self.error(Problem::Tag)),
        }
        match head.major {
            Major::Bytes | Major::Text => {
                let form = if head.major == Major::Text { Form::Text } else { form };
                let mut text = Text::new(head, form);
                self.quote(out);
                self.state = match head.value() {
                    None => State::Chunk(text),
                    // Most strings are within one chunk.
                    Some(length) if length <= chunk.len() as u64 => {
                        let part = text.take(chunk);
                        self.offset += length;
                        self.write(&mut text, part, out)?;
                        self.end_text(text, out)?
                    }
                    Some(_) => State::Text(text),
                };
                Ok(())
            }
            Major::List | Major::Map => self.open(head, form, out),
            _ => {
                self.scalar(head, out)?;
                self.end_item(out)
            }
        }
    }

    fn tag(&mut self, head: Head) -> Result<(), Error> {
        self.tags.is_any = true;
        match head.value() {
            None => return Err(self.error(Problem::Malformed)),
            // The content of a time is checked; nothing may come between.
            _ if self.tags.time.is_some() => return Err(self.error(Problem::Tag)),
            Some(0) => self.tags.time = Some(Time::Text),
            Some(1) => self.tags.time = Some(Time::Seconds),
            // Big integers.
            Some(2 | 3) => return Err(self.error(Problem::Tag)),
            Some(21) => self.tags.form = Some(Form::Base64Url),
            Some(22) => self.tags.form = Some(Form::Base64),
            Some(23) => self.tags.form = Some(Form::Base16),
            Some(_) => {}
        }
        Ok(())
    }

    fn open(&mut self, head: Head, form: Form, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.error(Problem::Depth));
        }
        let (kind, bracket) = match head.major {
            Major::Map => (Kind::Map { keys: self.keys.len(), has_key: false }, b'{'),
            _ => (Kind::List, b'['),
        };
        out.push(bracket);
        self.open.push(Open { kind, left: head.value(), is_empty: true, form });
        if head.value() == Some(0) { self.close(out) } else { Ok(()) }
    }

    fn end_indefinite(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.open.last() {
            Some(Open { left: None, kind: Kind::List | Kind::Map { has_key: false, .. }, .. }) if !self.tags.is_any => {
                self.close(out)
            }
            _ => Err(self.error(Problem::Break)),
        }
    }

    /// Ends the innermost map or list, and each one that it completes.
    fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.close_innermost(out)?;
        self.end_item(out)
    }

    fn close_innermost(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.open.pop().map(|open| open.kind) {
            Some(Kind::Map { keys: first, .. }) => {
                let keys = &mut self.keys[first..];
                keys.sort_unstable();
                if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                    return Err(self.error(Problem::Duplicate));
                }
                self.keys.truncate(first);
                out.push(b'}');
            }
            _ => out.push(b']'),
        }
        Ok(())
    }

    /// Ends an item, and each map and list that it completes.
    fn end_item(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        while let Some(open) = self.open.last_mut() {
            if let Kind::Map { has_key, .. } = &mut open.kind {
                *has_key = !*has_key;
                if *has_key {
                    out.push(b':');
                    return Ok(());
                }
            }
            match &mut open.left {
                Some(left) if *left > 1 => {
                    *left -= 1;
                    return Ok(());
                }
                Some(_) => self.close_innermost(out)?,
                None => return Ok(()),
            }
        }
        if self.is_sequence {
            out.push(b'\n');
        } else {
            self.state = State::Complete;
        }
        Ok(())
    }
}

impl Decoder {
    /// Reports whether the current item is a key.
    fn is_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { kind: Kind::Map { has_key: false, .. }, .. }))
    }

    fn error(&self, problem: Problem) -> Error {
        Error::Cbor { offset: self.offset, problem }
    }
}

#[cfg(test)]
mod tests;
