//! Streaming lists: the items must equal those of serde_json. Input: the length of the pieces in the first byte. The
//! rest is used as a body, and as the seed of a generated list.
#![no_main]

use bytes::Bytes;
use futures::{FutureExt, StreamExt, executor};
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_api::{ListItem, ListMeta, ListOptions, ListWatch, ListWatchError};
use windlass_fuzz::{answered, json};

/// The maximum size of an item.
const LIMIT: usize = 1 << 10;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((length, mut rest)) = data.split_first() else { return };
    let length = usize::from(*length).max(1);
    check(&Bytes::copy_from_slice(rest), length);
    let mut text = String::new();
    json::white_space(&mut rest, &mut text);
    let members = json::take(&mut rest) % 4;
    json::sequence(&mut rest, members, ["{", "}"], &mut text, |input, out| match json::take(input) % 4 {
        0 | 1 => {
            out.push_str(r#""items":"#);
            let items = json::take(input) % 8;
            json::sequence(input, items, ["[", "]"], out, |input, out| {
                let members = json::take(input) % 4;
                json::object(input, members, 4, out);
            });
        }
        2 => out.push_str(r#""metadata":{"resourceVersion":"7","continue":"items"}"#),
        _ => {
            out.push_str(r#""other":"#);
            json::write(input, 4, out);
        }
    });
    check(&Bytes::from(text), length);
});

#[derive(Deserialize)]
struct List<'l> {
    metadata: Option<ListMeta>,
    /// An explicit null is allowed.
    #[serde(borrow, deserialize_with = "Deserialize::deserialize")]
    items: Option<Vec<&'l RawValue>>,
}

/// A decoded item, or the size of a skipped one.
#[derive(Debug, PartialEq)]
enum Item {
    Read(Bytes),
    Oversize(u64),
}

fn check(body: &Bytes, length: usize) {
    let ours = listed(body, length);
    // Invalid UTF-8 may be accepted, because string contents are not validated.
    if std::str::from_utf8(body).is_err() {
        return;
    }
    match serde_json::from_slice::<List<'_>>(body) {
        Ok(list) => {
            let items: Vec<_> = list.items.unwrap_or_default().into_iter().map(RawValue::get).collect();
            if !items.iter().all(|item| item.starts_with('{')) {
                assert!(ours.is_err(), "an item is no object");
                return;
            }
            let items: Vec<_> = items
                .into_iter()
                .map(|item| match item.len() {
                    size @ ..=LIMIT => Item::Read(body.slice_ref(&item.as_bytes()[..size])),
                    size => Item::Oversize(size as u64),
                })
                .collect();
            assert_eq!(ours.expect("it is a list"), (items, list.metadata.unwrap_or_default()));
        }
        // Malformed items are only detected when they are decoded.
        Err(_) => drop(ours),
    }
}

fn listed(body: &Bytes, length: usize) -> Result<(Vec<Item>, ListMeta), ListWatchError> {
    let source = answered(body, length);
    let all: Vec<_> = executor::block_on(
        source.list(ListOptions::default()).then(|items| items.expect("the answer is 200").collect()),
    );
    let mut items = Vec::new();
    for item in all {
        match item {
            Ok(ListItem::Object(bytes)) => items.push(Item::Read(bytes)),
            Ok(ListItem::End(meta)) => return Ok((items, meta)),
            Err(ListWatchError::Oversize(object)) => items.push(Item::Oversize(object.size)),
            Err(error) => return Err(error),
        }
    }
    panic!("a list ends with its metadata or an error");
}
