//! The beginning and the end of strings and of their chunks.

use std::hash::BuildHasher as _;

use super::{Decoder, MAX_KEY, MAX_KEYS, State, Text};
use crate::{
    error::{Error, Problem},
    head::{Head, Major},
};

impl Decoder {
    /// Begins a chunk of a string of indefinite length, or ends the string.
    pub(super) fn chunk(&mut self, mut text: Text, head: Head, out: &mut Vec<u8>) -> Result<State, Error> {
        match (head.major, head.value()) {
            (Major::Simple, None) => self.end_string(text, out),
            (major, Some(length)) if text.has_type(major) => {
                text.begin_chunk(length);
                Ok(if length == 0 { State::Chunk(text) } else { State::Text(text) })
            }
            _ => Err(self.error(Problem::Chunk)),
        }
    }

    /// Ends a string or a chunk of one. Returns the state for the bytes that follow.
    pub(super) fn end_text(&mut self, text: Text, out: &mut Vec<u8>) -> Result<State, Error> {
        if !text.is_chunked() {
            return self.end_string(text, out);
        }
        if text.is_split() && text.has_type(Major::Text) {
            return Err(self.error(Problem::Utf8));
        }
        Ok(State::Chunk(text))
    }

    fn end_string(&mut self, mut text: Text, out: &mut Vec<u8>) -> Result<State, Error> {
        let is_key = self.is_key();
        text.finish(if is_key { &mut self.key } else { out }).map_err(|problem| self.error(problem))?;
        self.quote(out);
        if is_key {
            if self.keys.len() >= MAX_KEYS {
                return Err(self.error(Problem::Keys));
            }
            self.keys.push(self.hasher.hash_one(&*self.key));
            out.extend_from_slice(&self.key);
            self.key.clear();
        }
        // May complete the document.
        self.state = State::Head;
        self.end_item(out)?;
        Ok(std::mem::replace(&mut self.state, State::Head))
    }

    /// Writes a part of a string. Keys are collected, because their hashes are those of the whole.
    pub(super) fn write(&mut self, text: &mut Text, part: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let is_key = self.is_key();
        if is_key && self.key.len() + part.len() > MAX_KEY {
            return Err(self.error(Problem::Keys));
        }
        let out = if is_key { &mut self.key } else { out };
        text.push(part, out).map_err(|problem| self.error(problem))
    }

    /// Writes the quote at the start or the end of a string.
    pub(super) fn quote(&mut self, out: &mut Vec<u8>) {
        if self.is_key() { self.key.push(b'"') } else { out.push(b'"') }
    }
}
