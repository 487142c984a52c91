//! The chunks of a server's watch, compared with those that the replay would send.

use std::{collections::BTreeMap, ops::Range, path::PathBuf};

use clap::Args;
use serde_json::json;
use windlass_api::BoxError;
use windlass_client::Config;

use crate::{
    load::Address,
    replay::{chunks::Chunks, workload::Encoding},
};

/// The flags of `windlass-bench framing`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The path of the collection
    #[arg(long, default_value = "/api/v1/pods")]
    path: String,
    /// The version after which the watch starts; an old one makes a burst of the events since then
    #[arg(long, default_value = "0")]
    version: String,
    /// The encoding of the events
    #[arg(long, value_enum, default_value_t = Encoding::Json)]
    encoding: Encoding,
    /// The number of events
    #[arg(long, default_value_t = 2_000)]
    events: usize,
}

/// The blank line after the headers.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// The length that precedes an event in protobuf, in bytes.
const LENGTH: usize = 4;

/// The captured body of a watch.
#[derive(Debug, Default, PartialEq, Eq)]
struct Capture {
    body: Vec<u8>,
    /// The sizes of the chunks.
    chunks: Vec<usize>,
}

/// The chunks of the replay for the same events.
#[derive(Debug, Default, PartialEq, Eq)]
struct Predicted {
    chunks: Vec<usize>,
    /// How often the server flushed after this many events. Flushes of an empty buffer leave no trace.
    flushes: BTreeMap<usize, usize>,
}

#[expect(clippy::unused_async, reason = "a benchmark like the others")]
pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let (capture, events) = tokio::task::block_in_place(|| capture(&options))?;
    let predicted = predict(options.encoding, &capture, &events);
    let differing = predicted.chunks.iter().zip(&capture.chunks).filter(|(ours, theirs)| ours != theirs).count();
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for size in &capture.chunks[..predicted.chunks.len().min(capture.chunks.len())] {
        *sizes.entry(*size).or_default() += 1;
    }
    let mut frequent: Vec<_> = sizes.into_iter().collect();
    frequent.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    frequent.truncate(6);
    println!(
        "{}",
        json!({
            "bench": "framing", "path": options.path, "encoding": format!("{:?}", options.encoding), "events": events.len(),
            "chunks": predicted.chunks.len(), "differing_chunks": differing, "frequent_sizes": frequent,
            "flushes_after_events": predicted.flushes,
        })
    );
    if differing > 0 {
        return Err(format!("{differing} of {} chunks differ from those of the replay", predicted.chunks.len()).into());
    }
    Ok(())
}

/// Reads a watch until it has sent enough events, and returns their positions.
fn capture(options: &Options) -> Result<(Capture, Vec<Range<usize>>), BoxError> {
    let address = Address::of(&Config::from_file(&options.kubeconfig)?)?;
    let Options { path, version, encoding, .. } = options;
    let accepted = encoding.watch_type();
    let path = format!("{path}?watch=true&resourceVersion={version}&allowWatchBookmarks=false");
    let mut connection = address.get(&path, &format!("Accept: {accepted}\r\n"))?;
    let (mut received, mut is_body) = (Vec::new(), false);
    let (mut capture, mut events) = (Capture::default(), Vec::new());
    loop {
        connection.read(&mut |bytes| {
            received.extend_from_slice(bytes);
            Ok(())
        })?;
        if !is_body {
            let Some(end) = find(&received, END_OF_HEAD) else { continue };
            let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
            if !head.starts_with("http/1.1 200") || !head.contains("transfer-encoding: chunked") {
                return Err(format!("GET {path}: {}", String::from_utf8_lossy(&received)).into());
            }
            received.drain(..end + END_OF_HEAD.len());
            is_body = true;
        }
        let parsed = capture.extend(&received)?;
        received.drain(..parsed);
        find_events(options.encoding, &capture.body, &mut events)?;
        if events.len() >= options.events {
            events.truncate(options.events);
            return Ok((capture, events));
        }
    }
}

impl Capture {
    /// Appends the complete chunks, and returns their encoded length.
    fn extend(&mut self, received: &[u8]) -> Result<usize, BoxError> {
        let mut at = 0;
        while let Some(line) = find(&received[at..], b"\r\n") {
            let text = str::from_utf8(&received[at..at + line])?;
            let size = usize::from_str_radix(text, 16).map_err(|error| format!("a chunk of {text:?}: {error}"))?;
            let start = at + line + 2;
            let Some(chunk) = received.get(start..start + size + 2) else { break };
            if size == 0 {
                return Err("the server has ended the watch".into());
            }
            self.body.extend_from_slice(&chunk[..size]);
            self.chunks.push(size);
            at = start + size + 2;
        }
        Ok(at)
    }
}

/// Appends the positions of further complete events.
fn find_events(encoding: Encoding, body: &[u8], events: &mut Vec<Range<usize>>) -> Result<(), BoxError> {
    let mut at = events.last().map_or(0, |event| event.end);
    while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
        let length = match encoding {
            Encoding::Json => find(rest, b"\n").map(|end| end + 1),
            Encoding::Protobuf => match rest.first_chunk::<LENGTH>() {
                Some(length) => Some(LENGTH + usize::try_from(u32::from_be_bytes(*length))?),
                None => None,
            },
        };
        let Some(length) = length.filter(|length| *length <= rest.len()) else { break };
        events.push(at..at + length);
        at += length;
    }
    Ok(())
}

/// Returns the replay's chunks of the events, with flushes after the events at whose ends the captured chunks end.
fn predict(encoding: Encoding, capture: &Capture, events: &[Range<usize>]) -> Predicted {
    let ends: std::collections::BTreeSet<usize> = capture
        .chunks
        .iter()
        .scan(0, |end, size| {
            *end += size;
            Some(*end)
        })
        .collect();
    let (mut chunks, mut predicted) = (Chunks::default(), Predicted::default());
    let (mut written, mut since) = (0, 0);
    for event in events {
        match encoding {
            Encoding::Json => chunks.json(&capture.body[event.clone()]),
            Encoding::Protobuf => chunks.protobuf(&capture.body[event.clone()]),
        }
        since += 1;
        let complete = |predicted: &mut Predicted, chunks: &mut Chunks| {
            let mut bytes = 0;
            while let Some(chunk) = chunks.next() {
                bytes += chunk.len();
                predicted.chunks.push(chunk.len());
            }
            bytes
        };
        written += complete(&mut predicted, &mut chunks);
        if written < event.end && ends.contains(&event.end) {
            chunks.flush();
            written += complete(&mut predicted, &mut chunks);
            *predicted.flushes.entry(since).or_default() += 1;
            since = 0;
        }
    }
    predicted
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes chunks as a server sends them.
    fn encoded(chunks: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    fn events(encoding: Encoding, body: &[u8]) -> Vec<Range<usize>> {
        let mut events = Vec::new();
        find_events(encoding, body, &mut events).unwrap();
        events
    }

    #[test]
    fn incomplete_chunk_waits_for_its_rest() {
        let bytes = encoded(&[b"{}\n", b"{}\n{}\n"]);
        let mut capture = Capture::default();
        let parsed = capture.extend(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!((parsed, capture.chunks.as_slice()), (8, &[3][..]));
        assert_eq!(capture.extend(&bytes[parsed..]).unwrap(), bytes.len() - parsed);
        assert_eq!(capture.chunks, [3, 6]);
        assert_eq!(events(Encoding::Json, &capture.body), [0..3, 3..6, 6..9]);
    }

    #[test]
    fn flushes_follow_from_the_ends_of_chunks() {
        let body = [vec![b'x'; 999], vec![b'\n']].concat().repeat(6);
        // A full buffer, the rest of three events, and the other three with a full buffer.
        let capture = Capture { body, chunks: vec![2048, 952, 2048, 952] };
        let events = events(Encoding::Json, &capture.body);
        let predicted = predict(Encoding::Json, &capture, &events);
        assert_eq!(predicted, Predicted { chunks: capture.chunks.clone(), flushes: [(3, 2)].into() });
    }

    #[test]
    fn other_framing_differs() {
        let body = [vec![b'x'; 2999], vec![b'\n']].concat().repeat(2);
        let capture = Capture { body, chunks: vec![6000] };
        let events = events(Encoding::Json, &capture.body);
        assert_eq!(predict(Encoding::Json, &capture, &events).chunks, [3000, 3000]);
    }

    #[test]
    fn event_in_protobuf_is_found_by_its_length() {
        let body = [&[0, 0, 0, 2][..], b"ab", &[0, 0, 0, 1], b"c", &[0, 0, 0, 3], b"de"].concat();
        assert_eq!(events(Encoding::Protobuf, &body), [0..6, 6..11]);
    }
}
