//! Compression of large responses, on the threads for long computations. The uncompressed bytes take the turns there: a
//! response of many megabytes can be a few kilobytes after compression.

use std::{
    future::ready,
    io::{self, Write},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{StreamExt, TryStreamExt as _, stream};
use http::{HeaderValue, Response, header};

use super::body::{Body, BodyError, Frames};
use crate::offload::offload;

/// The minimum size of a compressed response in bytes. Smaller ones are sent uncompressed.
const LARGE: usize = 128 << 10;

/// The maximum size of a frame before compression, in bytes.
const PIECE: usize = 64 << 10;

/// The number of bytes that are compressed at a time. They take a few milliseconds.
const PART: usize = 256 << 10;

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
        match frames.next().await {
            Some(Ok(frame)) => {
                length += frame.len();
                first.push(frame);
            }
            Some(Err(error)) => {
                let frames = first.into_iter().map(Ok).chain([Err(error)]);
                return Response::from_parts(parts, Body::fallible(stream::iter(frames)));
            }
            None => return Response::from_parts(parts, Body::pieces(first)),
        }
    }
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let frames = stream::iter(first.into_iter().map(Ok)).chain(frames).boxed();
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let compressed = stream::try_unfold(Some((encoder, frames)), |rest| async {
        let Some((encoder, frames)) = rest else { return Ok(None) };
        compress_part(encoder, frames).await.map(Some)
    });
    let compressed = compressed.try_filter(|bytes| ready(!bytes.is_empty()));
    Response::from_parts(parts, Body::fallible(compressed).with_held_bytes(held))
}

type Encoder = GzEncoder<Vec<u8>>;

/// Compresses the next bytes. Returns the encoder and the other frames, unless these were the last bytes. The result can be
/// empty: the encoder buffers.
async fn compress_part(
    mut encoder: Encoder,
    mut frames: Frames,
) -> Result<(Bytes, Option<(Encoder, Frames)>), BodyError> {
    let (mut part, mut length, mut is_last) = (Vec::new(), 0, false);
    while length < PART && !is_last {
        match frames.next().await {
            Some(frame) => {
                let frame = frame?;
                length += frame.len();
                part.push(frame);
            }
            None => is_last = true,
        }
    }
    let compressed = offload(move || {
        for frame in part {
            encoder.write_all(&frame)?;
        }
        if is_last {
            return Ok((encoder.finish()?, None));
        }
        Ok::<_, io::Error>((std::mem::take(encoder.get_mut()), Some(encoder)))
    });
    let (bytes, encoder) = compressed.await.map_err(BodyError::new)?.map_err(BodyError::new)?;
    Ok((bytes.into(), encoder.map(|encoder| (encoder, frames))))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use futures::FutureExt as _;
    use http_body_util::BodyExt;

    use super::*;
    use crate::offload::all_turns;

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

    #[tokio::test]
    async fn compression_needs_turns_for_uncompressed_bytes() {
        let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
        let response = response.body(Body::whole(vec![b'x'; 4 * PART])).unwrap();
        let mut body = compress(response, Some("gzip")).await.into_body();
        let (taking, all) = all_turns().await;
        for _ in 0..10 {
            assert!(body.frame().now_or_never().is_none(), "nothing is compressed without a turn");
            tokio::task::yield_now().await;
        }
        drop(all);
        drop(taking);
        let mut read = Vec::new();
        GzDecoder::new(&*body.collect().await.unwrap().to_bytes()).read_to_end(&mut read).unwrap();
        assert_eq!(read.len(), 4 * PART);
    }

    #[tokio::test]
    async fn compressed_response_fails_with_its_body() {
        for length in [1, 2 * LARGE] {
            let frames = stream::iter([Ok(Bytes::from(vec![b'x'; length])), Err(BodyError::new("broken"))]);
            let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
            let response = response.body(Body::fallible(frames)).unwrap();
            let error = compress(response, Some("gzip")).await.into_body().collect().await.unwrap_err();
            assert_eq!(error, BodyError::new("broken"));
        }
    }
}
