//! Load for an API server that costs as little as it can: what runs beside a server on the same processors takes them from it,
//! and the more the faster the server is.
//!
//! Requests are bytes before the clock starts; each connection has a thread, a blocking socket and so many requests under way;
//! of an answer only the status is looked at. One that is no success ends the load with an error. The same for every server.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use tokio::time::Instant;
use windlass_api::BoxError;
use windlass_client::{Auth, Config};

pub(crate) use self::request::{OBJECT, REQUEST, Request};
use self::{
    answers::{Answers, Outcome},
    request::Frames,
    secured::Secured,
};

mod answers;
mod request;
mod secured;

/// A server, and who asks it.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    host: String,
    port: u16,
    token: String,
}

/// Which objects the requests of a load are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// Each about one of its own.
    New,
    /// About so many, one after the other, again and again.
    Known(usize),
}

/// How many requests are under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    pub(crate) connections: usize,
    /// On each of them.
    pub(crate) requests: usize,
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) requests: usize,
    /// Until the last of them was answered.
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

    /// Sends a request again and again for so long, and waits for the answers.
    pub(crate) fn load(
        &self,
        request: &Request<'_>,
        objects: Objects,
        width: Width,
        lasting: Duration,
    ) -> Result<Done, BoxError> {
        let authority = format!("{}:{}", self.host, self.port);
        let frames = Frames::of(request, &authority, &self.token)?;
        let open = || Conversation::open(self, &frames, objects);
        let mut open = (0..width.connections).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let count = AtomicUsize::new(0);
        let started = Instant::now();
        thread::scope(|scope| {
            let spawn =
                |conversation: &mut Conversation<'_>| conversation.run(width.requests, &count, started + lasting);
            let running: Vec<_> = open.iter_mut().map(|one| scope.spawn(move || spawn(one))).collect();
            running.into_iter().try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
        .map_err(|error| format!("{} {}: {error}", request.method, request.path))?;
        Ok(Done { requests: count.into_inner(), took: started.elapsed() })
    }
}

impl Done {
    pub(crate) fn per_second(self) -> f64 {
        crate::rate(self.requests, self.took)
    }
}

/// One connection.
struct Conversation<'c> {
    secured: Secured,
    answers: Answers,
    frames: &'c Frames,
    objects: Objects,
    /// Of the next request.
    stream: u32,
}

impl<'c> Conversation<'c> {
    fn open(address: &Address, frames: &'c Frames, objects: Objects) -> Result<Self, BoxError> {
        let mut secured = Secured::connect(&address.host, address.port)?;
        secured.send(&answers::greeting())?;
        Ok(Self { secured, answers: Answers::new(), frames, objects, stream: 1 })
    }

    fn run(&mut self, at_once: usize, count: &AtomicUsize, until: Instant) -> Result<(), BoxError> {
        let (mut out, mut wanted, mut open) = (Vec::new(), at_once, 0);
        let mut outcome = Outcome::default();
        loop {
            for _ in 0..wanted {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let object = match self.objects {
                    Objects::New => number,
                    Objects::Known(known) => number % known.max(1),
                };
                self.frames.write(self.stream, object, number, &mut out);
                self.stream += 2;
            }
            open += wanted;
            if open == 0 {
                return Ok(());
            }
            out.append(&mut outcome.reply);
            if !out.is_empty() {
                self.secured.send(&out)?;
                out.clear();
            }
            let answers = &mut self.answers;
            self.secured.read(&mut |bytes| answers.take(bytes, &mut outcome))?;
            open -= outcome.ended;
            wanted = if Instant::now() < until { outcome.ended } else { 0 };
            outcome.ended = 0;
        }
    }
}
