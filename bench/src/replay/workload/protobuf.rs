//! Lists and events in Kubernetes' protobuf encoding. Go's encoder creates the messages of the objects once, at the
//! start of the replay. This module encodes the surrounding messages; their lengths are known, because marks have a
//! fixed width.

use std::{
    io::{Read as _, Write as _},
    ops::Range,
    path::Path,
    process::{Command, Stdio},
};

use windlass_api::BoxError;

use super::{
    Workload,
    template::{FIRST_VERSION, Template},
};

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
pub(super) const WATCH_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The prefix of every body.
const PREFIX: &[u8] = b"k8s\0";

/// The end of every body: two empty fields of the outer message.
pub(super) const ENVELOPE_TAIL: &[u8] = b"\x1a\0\"\0";

/// Encodes these objects with the program, and returns templates of the messages.
pub(super) fn templates(program: &Path, kind: &str, objects: Vec<Vec<u8>>) -> Result<Vec<Template>, BoxError> {
    let mut encoder = Command::new(program)
        .args(["--encode", kind])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("starting {}: {error}", program.display()))?;
    let (input, output) = (encoder.stdin.take(), encoder.stdout.take());
    let (mut input, mut output) = (input.ok_or("no stdin")?, output.ok_or("no stdout")?);
    // The pipes have small buffers, so they are written and read concurrently.
    let writer = std::thread::spawn(move || {
        objects.iter().try_for_each(|object| input.write_all(object).and_then(|()| input.write_all(b"\n")))
    });
    let mut messages = Vec::new();
    output.read_to_end(&mut messages)?;
    let status = encoder.wait()?;
    if !status.success() {
        return Err(format!("{} failed ({status})", program.display()).into());
    }
    writer.join().map_err(|_| "writing the objects panicked")??;

    let (mut templates, mut rest) = (Vec::new(), messages.as_slice());
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let (message, after) = after.split_at_checked(length).ok_or("the last message is cut off")?;
        templates.push(Template::new(message.to_vec()));
        rest = after;
    }
    Ok(templates)
}

impl Workload {
    pub(super) fn protobuf_list_head(&self, out: &mut Vec<u8>, page: Range<usize>) {
        let mut metadata = Vec::new();
        field(&mut metadata, 2, FIRST_VERSION.to_string().as_bytes());
        if page.end < self.objects {
            field(&mut metadata, 3, page.end.to_string().as_bytes());
            metadata.push(4 << 3);
            varint(&mut metadata, self.objects - page.end);
        }
        let mut list = Vec::new();
        field(&mut list, 1, &metadata);
        let items: usize = page.map(|object| field_length(self.message(object).len())).sum();
        self.envelope(out, "List", list.len() + items);
        out.extend(list);
    }

    pub(super) fn protobuf_item(&self, out: &mut Vec<u8>, object: usize) {
        let message = self.message(object);
        head(out, 2, message.len());
        message.write(out, self.filling(object, 0));
    }

    /// Appends a frame: a length, then event type and object.
    pub(super) fn protobuf_event(&self, out: &mut Vec<u8>, object: usize, change: u64) {
        let message = self.message(object);
        let mut envelope = Vec::new();
        self.envelope(&mut envelope, "", message.len());
        let body = envelope.len() + message.len() + ENVELOPE_TAIL.len();
        let mut event = Vec::new();
        field(&mut event, 1, b"MODIFIED");
        head(&mut event, 2, field_length(body));
        head(&mut event, 1, body);
        let length = u32::try_from(event.len() + body).expect("objects are far below 4 GiB");
        out.extend(length.to_be_bytes());
        out.extend(event);
        out.extend(envelope);
        message.write(out, self.filling(object, change));
        out.extend_from_slice(ENVELOPE_TAIL);
    }

    fn message(&self, object: usize) -> &Template {
        &self.messages[object % self.messages.len()]
    }

    /// Appends the outer message up to the inner one, which has `length` bytes.
    fn envelope(&self, out: &mut Vec<u8>, suffix: &str, length: usize) {
        let mut types = Vec::new();
        field(&mut types, 1, self.api_version.as_bytes());
        field(&mut types, 2, format!("{}{suffix}", self.kind).as_bytes());
        out.extend_from_slice(PREFIX);
        field(out, 1, &types);
        head(out, 2, length);
    }
}

// === wire ===

/// Appends a field of bytes. Field numbers are below 16.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    head(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a field's number and length.
fn head(out: &mut Vec<u8>, number: u8, length: usize) {
    out.push(number << 3 | 2);
    varint(out, length);
}

/// Returns the length of a field, including its number and length prefix.
fn field_length(length: usize) -> usize {
    let mut head_of = Vec::new();
    head(&mut head_of, 1, length);
    head_of.len() + length
}

/// Appends a varint: seven bits per byte, the lowest first.
fn varint(out: &mut Vec<u8>, mut number: usize) {
    loop {
        let [lowest, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return out.push(lowest);
        }
        out.push(lowest | 0x80);
    }
}
