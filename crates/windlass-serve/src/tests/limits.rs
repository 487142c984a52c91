//! Tests of the limits of connections and requests.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio_rustls::rustls::{ServerConfig, crypto::ring, server::ResolvesServerCertUsingSni};

use super::*;

#[tokio::test(start_paused = true)]
async fn accept_backs_off_without_file_descriptors() {
    const EMFILE: i32 = 24;
    let running = Running::start(HttpServer::new(), echo);
    let mut idle = running.connect();
    idle.write_all(GET).await.unwrap();
    until(&mut idle, "\r\n\r\n/").await;
    let started = Instant::now();
    for _ in 0..4 {
        running.fail(io::Error::from_raw_os_error(EMFILE));
    }
    // An idle connection makes room.
    assert_eq!(rest(&mut idle).await, "");
    let mut next = running.connect();
    next.write_all(GET).await.unwrap();
    until(&mut next, "\r\n\r\n/").await;
    // The first pause ended with the idle connection.
    assert_eq!(started.elapsed().as_millis(), 10 + 20 + 40);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lost_client_does_not_delay_the_next() {
    let running = Running::start(HttpServer::new(), echo);
    let started = Instant::now();
    running.fail(io::ErrorKind::ConnectionAborted.into());
    let mut next = running.connect();
    next.write_all(GET).await.unwrap();
    until(&mut next, "\r\n\r\n/").await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn connection_at_the_limit_waits_for_a_busy_one() {
    let permits = Arc::new(Semaphore::new(0));
    let running = Running::start(HttpServer::new().connections(1), waiting(&permits));
    let mut first = running.connect();
    first.write_all(GET).await.unwrap();
    let mut second = running.connect();
    second.write_all(GET).await.unwrap();
    // Requests in progress are not interrupted.
    time::sleep(10 * SECOND).await;
    permits.add_permits(1);
    until(&mut first, "at last").await;
    // The first connection is idle and gives way.
    assert_eq!(rest(&mut first).await, "");
    permits.add_permits(1);
    until(&mut second, "at last").await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn tls_handshake_times_out() {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    let running = Running::start(HttpServer::new().tls(Arc::new(config)), echo);
    assert_eq!(closed_after(running.connect()).await, 10 * SECOND);
    let silent = running.connect();
    time::sleep(SECOND).await;
    assert_eq!(running.stop().await, (0, Duration::ZERO), "a handshake does not delay the stop");
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn unfinished_head_times_out() {
    for protocols in [Protocols::Http1, Protocols::Http1And2] {
        let limit = 7 * SECOND;
        let running = Running::start(HttpServer::new().protocols(protocols).head_timeout(limit), echo);
        let mut stream = running.connect();
        time::sleep(20 * SECOND).await;
        stream.write_all(b"GET / HTT").await.unwrap();
        assert_eq!(closed_after(stream).await, limit);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn idle_connection_times_out() {
    let running = Running::start(HttpServer::new(), echo);
    assert_eq!(closed_after(running.connect()).await, 90 * SECOND, "before the first request");
    let mut stream = running.connect();
    time::sleep(80 * SECOND).await;
    stream.write_all(GET).await.unwrap();
    until(&mut stream, "\r\n\r\n/").await;
    assert_eq!(closed_after(stream).await, 90 * SECOND, "after a request");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn http2_client_that_ignores_pings_is_closed() {
    let running = Running::start(HttpServer::new(), echo);
    let mut silent = running.connect();
    // The preface and empty settings.
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let started = Instant::now();
    let mut frames = Vec::new();
    silent.read_to_end(&mut frames).await.unwrap();
    assert_eq!(started.elapsed(), 45 * SECOND);
    // A client that answers them stays.
    let (mut sender, _connection) = http2(running.connect(), &mut builder()).await;
    time::sleep(300 * SECOND).await;
    assert_eq!(sender.send_request(get("/a")).await.unwrap().status(), StatusCode::OK);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_is_closed() {
    let limit = 7 * SECOND;
    let running = Running::start(HttpServer::new().connections(1).write_timeout(limit), endless);
    let mut stalled = running.connect();
    stalled.write_all(GET).await.unwrap();
    let started = Instant::now();
    // There is only one place, and a busy connection does not give way.
    let mut next = running.connect();
    next.write_all(GET).await.unwrap();
    until(&mut next, "200 OK").await;
    assert_eq!(started.elapsed(), limit);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn http2_stream_that_is_not_read_is_reset() {
    let limit = 7 * SECOND;
    let running = Running::start(HttpServer::new().write_timeout(limit), endless);
    let (mut sender, _connection) = http2(running.connect(), builder().initial_stream_window_size(0)).await;
    let started = Instant::now();
    let response = sender.send_request(get("/")).await.unwrap();
    response.into_body().frame().await.unwrap().unwrap_err();
    assert_eq!(started.elapsed(), limit);
    // The connection continues.
    assert_eq!(sender.send_request(get("/")).await.unwrap().status(), StatusCode::OK);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn http2_streams_are_limited() {
    let permits = Arc::new(Semaphore::new(0));
    let begun = Arc::new(AtomicUsize::new(0));
    let application = {
        let (permits, begun) = (Arc::clone(&permits), Arc::clone(&begun));
        move |_: Request<RequestBody>| {
            let (permits, begun) = (Arc::clone(&permits), Arc::clone(&begun));
            async move {
                begun.fetch_add(1, Relaxed);
                permits.acquire().await.unwrap().forget();
                Response::new(String::new())
            }
        }
    };
    let running = Running::start(HttpServer::new().streams(3), application);
    let (sender, _connection) = http2(running.connect(), &mut builder()).await;
    // The client knows the limit when the settings have arrived.
    permits.add_permits(1);
    assert_eq!(sender.clone().send_request(get("/")).await.unwrap().status(), StatusCode::OK);
    let requests: Vec<_> = (0..10)
        .map(|_| {
            let mut sender = sender.clone();
            tokio::spawn(async move { sender.send_request(get("/")).await.unwrap().status() })
        })
        .collect();
    time::sleep(SECOND).await;
    assert_eq!(begun.load(Relaxed), 1 + 3);
    permits.add_permits(10);
    for request in requests {
        assert_eq!(request.await.unwrap(), StatusCode::OK);
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn large_head_is_rejected() {
    let running = Running::start(HttpServer::new(), echo);
    for (length, status) in [(400 << 10, "200 OK"), (408 << 10, "431 Request Header Fields Too Large")] {
        let (mut ours, mut theirs) = tokio::io::split(running.connect());
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {}\r\n\r\n", "x".repeat(length));
        // The server may close the connection before it has read everything.
        let writing = async { drop(theirs.write_all(head.as_bytes()).await) };
        let mut response = Vec::new();
        let reading = async { drop(ours.read_to_end(&mut response).await) };
        tokio::join!(writing, reading);
        assert!(response.starts_with(format!("HTTP/1.1 {status}\r\n").as_bytes()), "{length}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn client_that_resets_its_streams_is_closed() {
    const HEADERS: u8 = 1;
    const RESET: u8 = 3;
    const SETTINGS: u8 = 4;
    const GO_AWAY: u8 = 7;
    const ENHANCE_YOUR_CALM: u8 = 11;
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, stream];
        frame.extend_from_slice(payload);
        frame
    };
    let running = Running::start(HttpServer::new(), echo);
    let mut stream = running.connect();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(SETTINGS, 0, 0, &[]));
    for stream in (1..100).step_by(2) {
        // GET, http and / are in the static table of HPACK. The flags end headers and stream.
        sent.extend(frame(HEADERS, 5, stream, &[0x82, 0x86, 0x84]));
        sent.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
    }
    stream.write_all(&sent).await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    let mut frames = &read[..];
    let mut reasons = Vec::new();
    while let [_, high, low, kind, rest @ ..] = frames {
        let length = usize::from(*high) << 8 | usize::from(*low);
        if *kind == GO_AWAY {
            // After flags and stream: the last stream, and the error code.
            reasons.push(rest[5 + 7]);
        }
        frames = &rest[5 + length..];
    }
    assert_eq!(reasons, [ENHANCE_YOUR_CALM]);
    running.stop().await;
}

/// Sends a large frame, and records whether the connection has reported that it wrote what the client accepts of it.
#[derive(Clone, Default)]
struct Reporting(Arc<Reports>);

#[derive(Default)]
struct Reports {
    has_frame: AtomicBool,
    is_writing: AtomicBool,
    is_written: AtomicBool,
}

impl Application for Reporting {
    type Connection = Self;

    fn connect(&self, _: SocketAddr) -> Self {
        self.clone()
    }
}

impl Connection for Reporting {
    type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

    fn answer(&self, _: Request<RequestBody>) -> impl Future<Output = Response<Self::Body>> + Send + use<> {
        let reports = Arc::clone(&self.0);
        let frame = async move {
            reports.has_frame.store(true, Relaxed);
            Ok(Frame::data(Bytes::from(vec![b'x'; 1 << 20])))
        };
        let body = StreamBody::new(futures::StreamExt::chain(futures::stream::once(frame), futures::stream::pending()));
        std::future::ready(Response::new(body.boxed_unsync()))
    }

    fn writing(&self) {
        self.0.is_writing.store(self.0.has_frame.load(Relaxed), Relaxed);
    }

    fn written(&self) {
        self.0.is_written.store(self.0.is_writing.load(Relaxed), Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn connection_reports_that_a_client_does_not_read() {
    for is_http2 in [false, true] {
        let application = Reporting::default();
        let running = Running::start(HttpServer::new(), application.clone());
        let mut stream = running.connect();
        if is_http2 {
            let (mut client, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(0)
                .handshake(TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(async move { drop(connection.await) });
            let request = Request::get("http://x/").body(Full::<Bytes>::default()).unwrap();
            let _unread = client.send_request(request).await.unwrap();
            eventually_written(&application).await;
        } else {
            stream.write_all(GET).await.unwrap();
            eventually_written(&application).await;
        }
        drop(running);
    }
}

/// Waits for the report, less than until a timeout.
async fn eventually_written(application: &Reporting) {
    let reported = async {
        while !application.0.is_written.load(Relaxed) {
            time::sleep(Duration::from_millis(1)).await;
        }
    };
    time::timeout(SECOND, reported).await.unwrap();
}
