//! Headers of SPDY/3: blocks of one compressed sequence.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

use super::dictionary::dictionary;

/// The maximum size of uncompressed headers.
const MAX_INFLATED: usize = 16 << 10;

/// The bit of a zlib header for a preset dictionary.
const HAS_DICTIONARY: u8 = 0x20;

/// Decompresses the headers of a connection. Needs memory for the last 32 KiB of them, from the first block on.
#[derive(Default)]
pub(super) struct Inflater(Option<Decompress>);

impl Inflater {
    /// Decompresses a block. Returns `None` if it is invalid or too long; later blocks are then meaningless.
    pub(super) fn inflate(&mut self, block: &[u8]) -> Option<Vec<u8>> {
        if let Some(inflate) = &mut self.0 {
            return inflate_all(inflate, block);
        }
        let (header, mut rest) = block.split_first_chunk::<2>()?;
        let [method, flags] = *header;
        if method & 0x0f != 8 || u16::from_be_bytes(*header) % 31 != 0 {
            return None;
        }
        let mut inflate = Decompress::new(false);
        if flags & HAS_DICTIONARY != 0 {
            // The checksum of the dictionary.
            rest = rest.get(4..)?;
            prime(&mut inflate)?;
        }
        inflate_all(self.0.insert(inflate), rest)
    }
}

/// Begins with the dictionary: as an uncompressed block that precedes the sequence. Only a part of the implementations
/// under flate2 can set dictionaries.
fn prime(inflate: &mut Decompress) -> Option<()> {
    let dictionary = dictionary();
    let length = u16::try_from(dictionary.len()).ok()?;
    let mut block = vec![0];
    block.extend_from_slice(&length.to_le_bytes());
    block.extend_from_slice(&(!length).to_le_bytes());
    block.extend_from_slice(&dictionary);
    inflate_all(inflate, &block).map(drop)
}

fn inflate_all(inflate: &mut Decompress, block: &[u8]) -> Option<Vec<u8>> {
    let mut inflated = vec![0; MAX_INFLATED];
    let (mut read, mut written) = (0, 0);
    loop {
        let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
        let (input, output) = (block.get(read..)?, inflated.get_mut(written..)?);
        let status = inflate.decompress(input, output, FlushDecompress::Sync).ok();
        read += usize::try_from(inflate.total_in() - before_in).ok()?;
        written += usize::try_from(inflate.total_out() - before_out).ok()?;
        match status {
            // The sequence has no end.
            None | Some(Status::StreamEnd) => return None,
            Some(_) if written == MAX_INFLATED => return None,
            Some(_) if read == block.len() => {
                inflated.truncate(written);
                return Some(inflated);
            }
            Some(_) if inflate.total_in() == before_in && inflate.total_out() == before_out => return None,
            Some(_) => {}
        }
    }
}

/// Returns the value of a header; empty if there is none. Returns `None` if the headers are malformed.
pub(super) fn value(mut headers: &[u8], name: &str) -> Option<String> {
    let mut found = String::new();
    for _ in 0..number(&mut headers)? {
        let (key, value) = (text(&mut headers)?, text(&mut headers)?);
        if key == name.as_bytes() {
            found = String::from_utf8(value.to_vec()).ok()?;
        }
    }
    Some(found)
}

fn number(from: &mut &[u8]) -> Option<u32> {
    let (number, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u32::from_be_bytes(*number))
}

fn text<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(from)?).ok()?;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(text)
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Inflater").field(&self.0.is_some()).finish()
    }
}
