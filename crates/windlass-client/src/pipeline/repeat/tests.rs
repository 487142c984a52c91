//! Ways in which connections are lost, with a server that writes frames by hand, in memory.

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;

/// Returns an HTTP/2 frame.
fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, stream], payload].concat()
}

/// Reads up to the headers of the first request.
async fn request_of(server: &mut DuplexStream) {
    server.write_all(&frame(SETTINGS, 0, &[])).await.unwrap();
    let mut preface = [0; PREFACE.len()];
    server.read_exact(&mut preface).await.unwrap();
    loop {
        let mut head = [0; 9];
        server.read_exact(&mut head).await.unwrap();
        let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
        server.read_exact(&mut vec![0; length]).await.unwrap();
        if head[3] == HEADERS {
            return;
        }
    }
}

fn get() -> http::Request<Empty<Bytes>> {
    http::Request::get("http://h/").body(Empty::new()).unwrap()
}

/// Returns how a request is lost if the server sends these bytes and then closes the connection.
async fn over_http2(answer: Vec<u8>) -> Option<Loss> {
    let (client, mut server) = duplex(1 << 16);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    let driven = tokio::spawn(connection);
    let serving = tokio::spawn(async move {
        request_of(&mut server).await;
        server.write_all(&answer).await.unwrap();
    });
    let error = sender.send_request(get()).await.unwrap_err();
    serving.await.unwrap();
    driven.abort();
    Loss::of(&error)
}

#[tokio::test]
async fn rejected_stream_is_an_unprocessed_loss() {
    let refused = 7_u32.to_be_bytes();
    assert_eq!(over_http2(frame(RESET, 1, &refused)).await, Some(Loss::Unprocessed));
    // The server shuts down without an error and has accepted no stream.
    assert_eq!(over_http2(frame(GO_AWAY, 0, &[0; 8])).await, Some(Loss::Unprocessed));
}

#[tokio::test]
async fn accepted_stream_is_an_unknown_loss() {
    // The server shuts down after accepting the request, and closes the connection.
    let taken_up = [0, 0, 0, 1, 0, 0, 0, 0];
    assert_eq!(over_http2(frame(GO_AWAY, 0, &taken_up)).await, Some(Loss::Unknown));
    assert_eq!(over_http2(Vec::new()).await, Some(Loss::Unknown));
    // The server reports an error of this one request, so the connection is not lost.
    let internal = 2_u32.to_be_bytes();
    assert_eq!(over_http2(frame(RESET, 1, &internal)).await, None);

    let (client, mut server) = duplex(1 << 16);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    let driven = tokio::spawn(connection);
    let serving = tokio::spawn(async move { server.read(&mut [0; 1024]).await.unwrap() });
    let error = sender.send_request(get()).await.unwrap_err();
    assert!(serving.await.unwrap() > 0, "the server has seen the request");
    assert_eq!(Loss::of(&error), Some(Loss::Unknown));
    driven.abort();
}

#[test]
fn loss_is_classified_by_the_error() {
    let lost = || io::Error::from(io::ErrorKind::BrokenPipe);
    assert_eq!(Loss::of(&io::Error::other(lost())), None);
    assert_eq!(
        Loss::of(&Repeated { attempts: 2, previous: String::new(), source: lost().into() }),
        Some(Loss::Unknown)
    );
    assert_eq!(Loss::of(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
}
