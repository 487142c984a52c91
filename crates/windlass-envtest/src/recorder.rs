//! Recording of requests.

use std::{fmt, sync::Arc};

use http::StatusCode;
use parking_lot::Mutex;

use crate::{
    requests::{Requests, Sent},
    wire::Taps,
};

/// A request with its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The request.
    pub sent: Sent,
    /// The status code of the response; `None` if the client got none.
    pub status: Option<StatusCode>,
}

/// Records the requests of all clients of an environment, in the order of their responses. A watch is recorded when it
/// starts.
///
/// Recording starts with the creation and ends when the recorder is dropped. Requests of other clients over a socket
/// are not recorded.
#[must_use = "a recorder records until it is dropped"]
pub struct Recorder {
    tape: Arc<Tape>,
    taps: Arc<Taps>,
}

/// The recorded requests.
pub(crate) struct Tape {
    wanted: Requests,
    heard: Mutex<Vec<Recorded>>,
}

impl Recorder {
    pub(crate) fn new(taps: &Arc<Taps>, wanted: Requests) -> Self {
        let tape = Arc::new(Tape { wanted, heard: Mutex::default() });
        taps.add_tape(tape.clone());
        Self { tape, taps: taps.clone() }
    }

    /// Returns all requests recorded so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.tape.heard.lock().clone()
    }

    /// Returns and removes the requests recorded so far.
    #[must_use]
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.tape.heard.lock())
    }

    /// Returns the number of matching requests recorded so far.
    #[must_use]
    pub fn count(&self, of: &Requests) -> usize {
        self.tape.heard.lock().iter().filter(|recorded| of.contain(&recorded.sent)).count()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.taps.remove_tape(&self.tape);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tape.heard.lock().iter().map(|recorded| recorded.sent.to_string())).finish()
    }
}

impl Tape {
    pub(crate) fn wants(&self, sent: &Sent) -> bool {
        self.wanted.contain(sent)
    }

    pub(crate) fn add(&self, recorded: Recorded) {
        self.heard.lock().push(recorded);
    }
}
