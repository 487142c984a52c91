//! A load generator for API servers with minimal CPU usage. It runs on the same machine as the server, and takes more
//! CPU time from a faster server.
//!
//! Requests are encoded before the measurement. Each connection has a thread, a blocking socket and a fixed number of
//! concurrent requests. Only the status of a response is read. A failure ends the load with an error. All servers get
//! the same load.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use tokio::time::Instant;
use windlass_api::BoxError;
use windlass_client::{Auth, Config};

pub(crate) use self::{
    request::{DIGITS, Frames, OBJECT, RANDOM, REQUEST, Request},
    responses::{Outcome, ResponseParser, greeting, greeting_with_small_windows},
    tls_connection::{LARGE_READ, SMALL_READ, TlsConnection},
};

mod responses;
mod request;
mod tls_connection;

/// The address and credentials of a server.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    host: String,
    port: u16,
    token: String,
}

/// The objects of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// A new object for each request.
    New,
    /// This many objects, in turn.
    Known(usize),
    /// New objects with these numbers, each once.
    Numbers(Range<usize>),
}

/// The number of concurrent requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    pub(crate) connections: usize,
    /// The number per connection.
    pub(crate) requests: usize,
}

/// The result of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadResult {
    pub(crate) requests: usize,
    /// The time until the last response.
    pub(crate) took: Duration,
}

impl Address {
    pub(crate) fn of(config: &Config) -> Result<Self, BoxError> {
        let Auth::Bearer(token) = &config.auth else {
            return Err("only who has a token can put load on a server".into());
        };
        let host = config.server.host().ok_or("a server without a host")?.to_owned();
        Ok(Self { host, port: config.server.port_u16().unwrap_or(443), token: token.expose().to_owned() })
    }

    /// Encodes a request to the server.
    pub(crate) fn frames(&self, request: &Request<'_>) -> Result<Frames, BoxError> {
        Frames::of(request, &format!("{}:{}", self.host, self.port), &self.token)
    }

    /// Connects, and sends the start of a connection. `room` is the maximum size of a read.
    pub(crate) fn connect(&self, room: usize, greeting: &[u8]) -> Result<TlsConnection, BoxError> {
        let mut connection = TlsConnection::connect(&self.host, self.port, "h2", room)?;
        connection.send(greeting)?;
        Ok(connection)
    }

    /// Opens a connection and sends a GET over HTTP/1.1, with these lines of headers.
    pub(crate) fn get(&self, path: &str, headers: &str) -> Result<TlsConnection, BoxError> {
        let mut connection = TlsConnection::connect(&self.host, self.port, "http/1.1", LARGE_READ)?;
        let (host, token) = (&self.host, &self.token);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n");
        connection.send(request.as_bytes())?;
        Ok(connection)
    }

    /// Repeats a request for a duration, and waits for the responses.
    pub(crate) fn load(
        &self,
        request: &Request<'_>,
        objects: Objects,
        width: Width,
        lasting: Duration,
    ) -> Result<LoadResult, BoxError> {
        let frames = self.frames(request)?;
        let open = || Connection::open(self, &frames, objects.clone());
        let mut open = (0..width.connections).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let count = AtomicUsize::new(0);
        let started = Instant::now();
        thread::scope(|scope| {
            let spawn = |connection: &mut Connection<'_>| connection.run(width.requests, &count, started + lasting);
            let running: Vec<_> = open.iter_mut().map(|one| scope.spawn(move || spawn(one))).collect();
            running.into_iter().try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
        .map_err(|error| format!("{} {}: {error}", request.method, request.path))?;
        let most = if let Objects::Numbers(numbers) = &objects { numbers.len() } else { usize::MAX };
        Ok(LoadResult { requests: count.into_inner().min(most), took: started.elapsed() })
    }
}

impl LoadResult {
    pub(crate) fn per_second(self) -> f64 {
        crate::rate(self.requests, self.took)
    }
}

/// One connection.
struct Connection<'c> {
    connection: TlsConnection,
    responses: ResponseParser,
    frames: &'c Frames,
    objects: Objects,
    /// The stream of the next request.
    stream: u32,
}

impl<'c> Connection<'c> {
    fn open(address: &Address, frames: &'c Frames, objects: Objects) -> Result<Self, BoxError> {
        let connection = address.connect(LARGE_READ, &greeting())?;
        Ok(Self { connection, responses: ResponseParser::new(), frames, objects, stream: 1 })
    }

    fn run(&mut self, at_once: usize, count: &AtomicUsize, until: Instant) -> Result<(), BoxError> {
        let (mut out, mut wanted, mut open) = (Vec::new(), at_once, 0);
        let mut outcome = Outcome::default();
        loop {
            for _ in 0..wanted {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let object = match &self.objects {
                    Objects::New => number,
                    Objects::Known(known) => number % known.max(&1),
                    Objects::Numbers(numbers) if number < numbers.len() => numbers.start + number,
                    Objects::Numbers(_) => break,
                };
                self.frames.write(self.stream, object, number, &mut out);
                self.stream += 2;
                open += 1;
            }
            if open == 0 {
                return Ok(());
            }
            out.append(&mut outcome.reply);
            if !out.is_empty() {
                self.connection.send(&out)?;
                out.clear();
            }
            let responses = &mut self.responses;
            self.connection.read(&mut |bytes| responses.take(bytes, &mut outcome))?;
            open -= outcome.ended;
            wanted = if Instant::now() < until { outcome.ended } else { 0 };
            outcome.ended = 0;
        }
    }
}
