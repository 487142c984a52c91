//! The chunks in which kube-apiserver sends the events of a watch.
//!
//! It writes an event at a time (a protobuf event with a write of its own for the length), and flushes once no event is
//! waiting. Go's HTTP server buffers small writes and makes a chunk of each write to the connection. Clients read chunk
//! by chunk, so the cost of an event depends on them.
//!
//! `cargo xtask long bench-informer --only framing` captures the chunks of a real kube-apiserver over HTTP/1.1, and fails
//! if these differ.

use std::collections::VecDeque;

use bytes::Bytes;

/// The buffer of Go's HTTP/1 server for the body of a response, in bytes.
const BUFFER: usize = 2048;

/// The length that precedes an event in protobuf, in bytes.
const LENGTH: usize = 4;

/// Splits a response into chunks.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    buffer: Vec<u8>,
    complete: VecDeque<Bytes>,
}

impl Chunks {
    /// Writes an event in JSON.
    pub(crate) fn json(&mut self, event: &[u8]) {
        self.write(event);
    }

    /// Writes an event in protobuf, with its length.
    pub(crate) fn protobuf(&mut self, event: &[u8]) {
        let (length, message) = event.split_at(LENGTH.min(event.len()));
        self.write(length);
        self.write(message);
    }

    /// Ends the current chunk.
    pub(crate) fn flush(&mut self) {
        if !self.buffer.is_empty() {
            self.complete.push_back(std::mem::take(&mut self.buffer).into());
        }
    }

    /// Returns the next complete chunk.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        self.complete.pop_front()
    }

    fn write(&mut self, mut bytes: &[u8]) {
        while bytes.len() > BUFFER - self.buffer.len() {
            if self.buffer.is_empty() {
                return self.complete.push_back(Bytes::copy_from_slice(bytes));
            }
            let (fitting, rest) = bytes.split_at(BUFFER - self.buffer.len());
            self.buffer.extend_from_slice(fitting);
            self.flush();
            bytes = rest;
        }
        self.buffer.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(chunks: &mut Chunks) -> Vec<usize> {
        std::iter::from_fn(|| chunks.next()).map(|chunk| chunk.len()).collect()
    }

    #[test]
    fn large_event_in_json_is_a_chunk() {
        let mut chunks = Chunks::default();
        chunks.json(&[b'x'; 9000]);
        chunks.json(&[b'y'; 3000]);
        assert_eq!(lengths(&mut chunks), [9000, 3000]);
    }

    #[test]
    fn small_events_share_chunks_until_a_flush() {
        let mut chunks = Chunks::default();
        for _ in 0..5 {
            chunks.json(&[b'x'; 1000]);
        }
        assert_eq!(lengths(&mut chunks), [2048, 2048]);
        chunks.flush();
        assert_eq!(lengths(&mut chunks), [904]);
    }

    #[test]
    fn large_event_in_protobuf_is_two_chunks_because_of_its_length() {
        let mut chunks = Chunks::default();
        for _ in 0..2 {
            chunks.protobuf(&[b'x'; 9004]);
        }
        assert_eq!(lengths(&mut chunks), [2048, 6956, 2048, 6956]);
    }
}
