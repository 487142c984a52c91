//! Standard base64 with padding, for `[]byte`. Decoding follows Go's decoder, whose error states the offset.

use base64::{Engine, prelude::BASE64_STANDARD};

pub(super) fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Decodes text that [`encode`] has written. Any other text gives no bytes.
pub(super) fn decode(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

/// Returns the text as Go encodes it after decoding; line breaks are skipped. The error is Go's message.
pub(super) fn normalize(text: &str) -> Result<String, String> {
    let corrupt = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    let bytes = text.as_bytes();
    let is_break = |byte: u8| byte == b'\n' || byte == b'\r';
    let mut sextets: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        at += 1;
        if is_break(byte) {
            continue;
        }
        if let Some(sextet) = sextet(byte) {
            sextets.push(sextet);
            continue;
        }
        let filled = sextets.len() % 4;
        if byte != b'=' || filled < 2 {
            return corrupt(at - 1);
        }
        let skip = |mut at: usize| {
            while bytes.get(at).copied().is_some_and(is_break) {
                at += 1;
            }
            at
        };
        at = skip(at);
        if filled == 2 {
            match bytes.get(at) {
                None => return corrupt(bytes.len()),
                Some(b'=') => at += 1,
                Some(_) => return corrupt(at - 1),
            }
        }
        at = skip(at);
        if at < bytes.len() {
            return corrupt(at);
        }
        return Ok(encode(&pack(&sextets)));
    }
    match sextets.len() % 4 {
        0 => Ok(encode(&pack(&sextets))),
        partial => corrupt(bytes.len() - partial),
    }
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Packs values of six bits into bytes; excess bits are dropped.
fn pack(sextets: &[u8]) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(sextets.len() * 3 / 4), 0u32, 0u8);
    for sextet in sextets {
        bits = bits << 6 | u32::from(*sextet);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xFF) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::normalize;

    #[test]
    fn base64_is_validated_and_normalized() {
        for text in ["", "YQ==", "YWI=", "YWJj", "/+8="] {
            assert_eq!(normalize(text).as_deref(), Ok(text));
        }
        assert_eq!(normalize("YW\nJj\r\n").as_deref(), Ok("YWJj"));
        // Excess bits are dropped.
        assert_eq!(normalize("YR==").as_deref(), Ok("YQ=="));
        for (text, at) in
            [("YQ", 0), ("YWJjYQ", 4), ("Y", 0), ("YQ=", 3), ("YQ==x", 4), ("!", 0), ("YW!j", 2), ("=", 0)]
        {
            assert_eq!(normalize(text), Err(format!("illegal base64 data at input byte {at}")), "{text}");
        }
    }
}
