use super::*;

/// Returns an uncompressed block of a compressed sequence.
fn stored(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), content].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns headers, uncompressed.
fn headers(pairs: &[(&str, &str)]) -> Vec<u8> {
    let pairs_of = |(key, value): &(&str, &str)| [text(key), text(value)].concat();
    [u32::try_from(pairs.len()).unwrap().to_be_bytes().to_vec(), pairs.iter().flat_map(pairs_of).collect()].concat()
}

#[test]
fn compressed_headers_are_one_sequence() {
    let mut inflater = Inflater::default();
    for (block, name) in [
        (&include_bytes!("testdata/error")[..], "error"),
        (include_bytes!("testdata/stdin"), "stdin"),
        (include_bytes!("testdata/stdout"), "stdout"),
        (include_bytes!("testdata/stderr"), "stderr"),
    ] {
        let inflated = inflater.inflate(block).unwrap();
        assert_eq!(headers::value(&inflated, "streamtype").as_deref(), Some(name));
    }
    let mut inflater = Inflater::default();
    assert!(inflater.inflate(include_bytes!("testdata/error")).is_some());
    let later = inflater.inflate(include_bytes!("testdata/stdout"));
    let later = later.and_then(|headers| headers::value(&headers, "streamtype"));
    assert_ne!(later.as_deref(), Some("stdout"), "a block is missing");
}

#[test]
fn sequence_without_a_dictionary_is_accepted() {
    let block = stored(&headers(&[("a", "b"), ("streamtype", "error")]));
    let mut inflater = Inflater::default();
    let inflated = inflater.inflate(&[&BEGIN[..], &block].concat()).unwrap();
    assert_eq!(headers::value(&inflated, "streamtype").as_deref(), Some("error"));
    assert_eq!(headers::value(&inflated, "b").as_deref(), Some(""));
}

#[test]
fn invalid_or_long_headers_are_refused() {
    let inflate = |block: &[u8]| Inflater::default().inflate(block);
    assert!(inflate(b"").is_none());
    assert!(inflate(b"\x78").is_none());
    assert!(inflate(b"\x78\x02").is_none(), "the check bits are wrong");
    assert!(inflate(b"\x77\x0a\0\0").is_none(), "another method");
    assert!(inflate(b"\x78\xbb\0").is_none(), "the checksum of the dictionary is missing");
    assert!(inflate(&[&BEGIN[..], &[0xff; 4]].concat()).is_none(), "no such block");
    assert!(inflate(&[&BEGIN[..], &[1, 0, 0, 0xff, 0xff]].concat()).is_none(), "the sequence ends");
    assert!(inflate(&[&BEGIN[..], &stored(&vec![0; 16 << 10])].concat()).is_none(), "too long");
    assert!(inflate(&[&BEGIN[..], &stored(&vec![0; (16 << 10) - 1])].concat()).is_some());
    for malformed in [
        &b""[..],
        b"\0\0\0",
        b"\0\0\0\x01",
        b"\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
        b"\0\0\0\x01\xff\xff\xff\xffa",
        &headers(&[("streamtype", "error")])[..20],
    ] {
        assert_eq!(headers::value(malformed, "streamtype"), None, "{malformed:?}");
    }
}

#[test]
fn replies_are_a_compressed_sequence_of_empty_headers() {
    let mut inflater = Inflater::default();
    let first = [&BEGIN[..], &NO_HEADERS].concat();
    for block in [&first[..], &NO_HEADERS] {
        assert_eq!(inflater.inflate(block).unwrap(), [0; 4]);
    }
}

#[tokio::test]
async fn frames_without_an_effect_are_skipped() {
    let received = async |mut frame: &[u8]| {
        let received = next(&mut frame, &mut Inflater::default()).await;
        assert!(received.is_err() || frame.is_empty(), "all of it is read");
        received
    };
    let data = [&head(5, FIN, 3)[..], b"abc"].concat();
    assert_eq!(received(&data).await.unwrap(), Received::Other);
    assert_eq!(received(&control(RST_STREAM, &[0; 8])).await.unwrap(), Received::Other);
    assert_eq!(received(&control(GO_AWAY, &[0; 8])).await.unwrap(), Received::Other);
    assert_eq!(received(&control(PING, &2u32.to_be_bytes())).await.unwrap(), Received::Other);
    assert_eq!(received(&control(PING, &3u32.to_be_bytes())).await.unwrap(), Received::Ping(3));
    let more = [&[0; 4][..], &BEGIN, &NO_HEADERS].concat();
    assert_eq!(received(&control(HEADERS, &more)).await.unwrap(), Received::Other);
    assert_eq!(received(&data[..10]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(received(&control(HEADERS, &[0; 3])).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
}
