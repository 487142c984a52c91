//! The decision whether to retry a request, as a value.

use std::{error::Error, io, time::Duration};

use http::{Method, Response, StatusCode, header};
use thiserror::Error;
use windlass_api::BoxError;

use super::Reading;
use crate::body::Body;
#[cfg(feature = "http2")]
use crate::transport::NotBegun;

/// The delay before a retry if the server specifies none.
const LOST_WAIT: Duration = Duration::from_secs(1);

/// The minimum number of retries of a request that the server has not started, whatever the configured maximum. Go's
/// transport retries these below the client.
const UNBEGUN_RETRIES: u32 = 3;

/// The attempts to send one request.
#[derive(Debug)]
pub(super) struct Attempts {
    /// The number of failed attempts so far.
    made: u32,
    retries: u32,
    on_loss: OnLoss,
    /// The result of the previous attempt.
    previous: Option<String>,
}

/// The decision to retry a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) wait: Duration,
    pub(super) why: &'static str,
}

/// The action after a lost connection, when the server may have carried out the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnLoss {
    Repeat,
    Fail,
}

/// How a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The server has not seen the request, or reports that it has not started it.
    Unprocessed,
    /// The server may have carried out the request.
    Unknown,
}

/// The error of a request whose earlier attempts also failed.
#[derive(Debug, Error)]
#[error("attempt {attempts} failed; previous attempt: {previous}")]
struct Repeated {
    attempts: u32,
    previous: String,
    source: BoxError,
}

type Outcome = Result<Response<Body>, BoxError>;

impl Attempts {
    pub(super) fn new(retries: u32, method: &Method, reading: Reading) -> Self {
        // Writes are not retried, not even idempotent ones: the second response would report the effect of the first (a
        // conflict, or an object that no longer exists).
        let on_loss = match reading {
            Reading::Watch => OnLoss::Repeat,
            Reading::Whole if method.is_safe() => OnLoss::Repeat,
            Reading::Whole | Reading::Stream => OnLoss::Fail,
        };
        Self { made: 0, retries, on_loss, previous: None }
    }

    /// Returns the number of the current attempt; 0 for the first.
    pub(super) const fn number(&self) -> u32 {
        self.made
    }

    /// Decides whether to retry after the current attempt.
    pub(super) fn decide_retry(&self, outcome: &Outcome) -> Option<Repeat> {
        let again = self.made < self.retries;
        match outcome {
            Ok(response) if again => asked(response),
            Ok(_) => None,
            Err(error) => match Loss::of(&**error)? {
                // As in Go's transport: first immediately, then with a delay.
                Loss::Unprocessed if again || self.made < UNBEGUN_RETRIES => {
                    let wait = if self.made == 0 { Duration::ZERO } else { LOST_WAIT };
                    Some(Repeat { wait, why: "the server has not started the request" })
                }
                Loss::Unknown if again && self.on_loss == OnLoss::Repeat => {
                    Some(Repeat { wait: LOST_WAIT, why: "the connection was lost" })
                }
                Loss::Unprocessed | Loss::Unknown => None,
            },
        }
    }

    /// Records that the current attempt failed and is retried.
    pub(super) fn failed(&mut self, outcome: Outcome) {
        self.made += 1;
        self.previous = Some(match outcome {
            Ok(response) => format!("the server answered {}", response.status().as_u16()),
            Err(error) => windlass_api::ErrorChain(&*error).to_string(),
        });
    }

    /// Returns the result of the last attempt.
    pub(super) fn conclude(self, outcome: Outcome) -> Outcome {
        outcome.map_err(|source| match self.previous {
            Some(previous) if previous != windlass_api::ErrorChain(&*source).to_string() => {
                Repeated { attempts: self.made + 1, previous, source }.into()
            }
            _ => source,
        })
    }
}

/// Checks for `Retry-After`, with which a server asks for a retry.
fn asked(response: &Response<Body>) -> Option<Repeat> {
    let status = response.status();
    let why = match status {
        StatusCode::TOO_MANY_REQUESTS => "the server throttles its clients",
        _ if status.is_server_error() => "the server failed and asks to try again",
        _ => return None,
    };
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Repeat { wait: Duration::from_secs(seconds), why })
}

impl Loss {
    /// Classifies an error. Returns `None` for errors other than a lost connection, such as an unknown host, an
    /// untrusted certificate or an unreachable server.
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let chain = std::iter::successors(Some(error), |&error| error.source());
        // The most specific cause decides: below an unprocessed request there may be an ordinary broken pipe.
        chain.filter_map(Self::of_one).min_by_key(|loss| *loss == Self::Unknown)
    }

    fn of_one(error: &(dyn Error + 'static)) -> Option<Self> {
        #[cfg(feature = "http2")]
        if error.is::<NotBegun>() {
            return Some(Self::Unprocessed);
        }
        #[cfg(feature = "http2")]
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            // A server that shuts down names the last stream that it has accepted. Only later streams get this error.
            let refused =
                error.is_remote() && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM));
            return if refused { Some(Self::Unprocessed) } else { error.get_io().and_then(Self::of_io) };
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return if error.is_canceled() {
                Some(Self::Unprocessed)
            } else if error.is_incomplete_message() || error.is_closed() || error.is_timeout() {
                Some(Self::Unknown)
            } else {
                None
            };
        }
        error.downcast_ref().and_then(Self::of_io)
    }

    fn of_io(error: &io::Error) -> Option<Self> {
        use io::ErrorKind as Kind;
        let lost = [Kind::ConnectionReset, Kind::ConnectionAborted, Kind::BrokenPipe, Kind::UnexpectedEof];
        lost.contains(&error.kind()).then_some(Self::Unknown)
    }
}

#[cfg(test)]
mod tests;
