//! Whether a request is sent again, decided as a value.

use std::{error::Error, io, time::Duration};

use http::{Method, Response, StatusCode, header};
use thiserror::Error;
use windlass_api::BoxError;

use super::Reading;
use crate::transport::{Body, NotBegun};

/// How long to wait when no server has said how long.
const LOST_WAIT: Duration = Duration::from_secs(1);

/// How often a request that the server has not begun with is sent again at least, whatever the caller has set: as Go's
/// transport, which does so below the retries.
const UNBEGUN_RETRIES: u32 = 3;

/// The attempts of one request.
#[derive(Debug)]
pub(super) struct Attempts {
    /// How many were made before the present one.
    made: u32,
    retries: u32,
    on_loss: OnLoss,
    /// What became of the last one before the present.
    previous: Option<String>,
}

/// A request that is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) wait: Duration,
    pub(super) why: &'static str,
}

/// Whether a request is sent again when its connection was lost, so that nobody knows what the server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnLoss {
    Repeat,
    Fail,
}

/// How a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The server has not seen the request, or says that it has not begun with it.
    Unprocessed,
    /// It may have done anything.
    Unknown,
}

/// A failure that was not the first.
#[derive(Debug, Error)]
#[error("attempt {attempts} failed; the one before: {previous}")]
struct Repeated {
    attempts: u32,
    previous: String,
    source: BoxError,
}

type Outcome = Result<Response<Body>, BoxError>;

impl Attempts {
    pub(super) fn new(retries: u32, method: &Method, reading: Reading) -> Self {
        // A write is not repeated, not even one that would have the same effect twice: its second answer would be about
        // the first (a conflict, nothing there to delete).
        let on_loss = match reading {
            Reading::Watch => OnLoss::Repeat,
            Reading::Whole if method.is_safe() => OnLoss::Repeat,
            Reading::Whole | Reading::Stream => OnLoss::Fail,
        };
        Self { made: 0, retries, on_loss, previous: None }
    }

    /// Which attempt this is; 0 for the first.
    pub(super) const fn number(&self) -> u32 {
        self.made
    }

    /// Whether the present attempt is not to be the last.
    pub(super) fn judge(&self, outcome: &Outcome) -> Option<Repeat> {
        let again = self.made < self.retries;
        match outcome {
            Ok(response) if again => asked(response),
            Ok(_) => None,
            Err(error) => match Loss::of(&**error)? {
                // As Go's transport: at once, and then with patience.
                Loss::Unprocessed if again || self.made < UNBEGUN_RETRIES => {
                    let wait = if self.made == 0 { Duration::ZERO } else { LOST_WAIT };
                    Some(Repeat { wait, why: "the server has not begun with the request" })
                }
                Loss::Unknown if again && self.on_loss == OnLoss::Repeat => {
                    Some(Repeat { wait: LOST_WAIT, why: "the connection was lost" })
                }
                Loss::Unprocessed | Loss::Unknown => None,
            },
        }
    }

    /// The present attempt is not the last.
    pub(super) fn failed(&mut self, outcome: Outcome) {
        self.made += 1;
        self.previous = Some(match outcome {
            Ok(response) => format!("the server answered {}", response.status().as_u16()),
            Err(error) => windlass_api::ErrorChain(&*error).to_string(),
        });
    }

    /// The present attempt is the last.
    pub(super) fn conclude(self, outcome: Outcome) -> Outcome {
        outcome.map_err(|source| match self.previous {
            Some(previous) if previous != windlass_api::ErrorChain(&*source).to_string() => {
                Repeated { attempts: self.made + 1, previous, source }.into()
            }
            _ => source,
        })
    }
}

/// A server that says how long to wait wants to be asked again.
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
    /// `None` for what is no loss of a connection: a name that is not known, a certificate that is not trusted, a server
    /// that is not there.
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let chain = std::iter::successors(Some(error), |&error| error.source());
        // What says most decides: below an unprocessed request there may be an ordinary broken pipe.
        chain.filter_map(Self::of_one).min_by_key(|loss| *loss == Self::Unknown)
    }

    fn of_one(error: &(dyn Error + 'static)) -> Option<Self> {
        if error.is::<NotBegun>() {
            return Some(Self::Unprocessed);
        }
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            // A server that goes away names the last stream that it has taken up; only later ones get this error.
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
