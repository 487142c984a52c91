//! Compression of large responses.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{StreamExt, stream};
use http::{HeaderValue, Response, header};
use tokio::task;

use super::body::Body;

/// The minimum size of a compressed response in bytes. Smaller ones are sent uncompressed.
const LARGE: usize = 128 << 10;

/// The number of bytes that are compressed at a time.
const PIECE: usize = 64 << 10;

/// Compresses a large response with objects if the client accepts the encoding.
pub(super) async fn compress(response: Response<Body>, accept: Option<&str>) -> Response<Body> {
    let accepts_gzip = accept.into_iter().flat_map(|accept| accept.split(',')).any(|coding| coding.trim() == "gzip");
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_objects = kind.is_some_and(|kind| kind.starts_with("application/"));
    let is_small = response.body().length().is_some_and(|length| length <= LARGE);
    if !accepts_gzip || !is_objects || is_small {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let held = body.held_bytes();
    let mut frames = body.into_frames(PIECE);
    let (mut first, mut length) = (Vec::new(), 0);
    while length <= LARGE {
        let Some(frame) = frames.next().await else {
            return Response::from_parts(parts, Body::pieces(first));
        };
        length += frame.len();
        first.push(frame);
    }
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed =
        stream::unfold((Some(encoder), stream::iter(first).chain(frames)), |(encoder, mut frames)| async {
            let mut encoder = encoder?;
            // Writing into memory cannot fail.
            while let Some(frame) = frames.next().await {
                if encoder.write_all(&frame).is_err() {
                    return None;
                }
                let ready = std::mem::take(encoder.get_mut());
                if !ready.is_empty() {
                    return Some((Bytes::from(ready), (Some(encoder), frames)));
                }
                // The compressor buffers its output: let other requests run.
                task::yield_now().await;
            }
            let last = encoder.finish().ok()?;
            Some((Bytes::from(last), (None, frames)))
        });
    Response::from_parts(parts, Body::frames(compressed).with_held_bytes(held))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    async fn answer(body: Body, accept: &str) -> (bool, Vec<u8>) {
        let response = Response::builder().header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
        let response = compress(response, Some(accept)).await;
        let is_compressed = response.headers().contains_key(header::CONTENT_ENCODING);
        (is_compressed, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn large_responses_round_trip_through_gzip() {
        let text = "abcdefgh".repeat(LARGE / 4).into_bytes();
        let pieces: Vec<Bytes> = text.chunks(1000).map(Bytes::copy_from_slice).collect();
        for body in [Body::whole(text.clone()), Body::frames(stream::iter(pieces))] {
            let (is_compressed, sent) = answer(body, "deflate, gzip").await;
            assert!(is_compressed && sent.len() < text.len() / 10);
            let mut read = Vec::new();
            GzDecoder::new(&*sent).read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }

    #[tokio::test]
    async fn small_or_unrequested_responses_are_not_compressed() {
        let small = b"small".to_vec();
        let pieces = Body::frames(stream::iter([Bytes::from(small.clone())]));
        assert_eq!(answer(Body::whole(small.clone()), "gzip").await, (false, small.clone()));
        assert_eq!(answer(pieces, "gzip").await, (false, small));
        let large = vec![b'x'; LARGE + 1];
        assert_eq!(answer(Body::whole(large.clone()), "gzip;q=1.0").await, (false, large));
    }
}
