//! What was asked of the server.

use std::{fmt, sync::Arc};

use http::StatusCode;
use parking_lot::Mutex;

use crate::{
    requests::{Requests, Sent},
    wire::Taps,
};

/// A request, and how it ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// What was sent.
    pub sent: Sent,
    /// The answer's; `None` where the client got none.
    pub status: Option<StatusCode>,
}

/// Keeps the requests of all clients of an environment that were answered since it was made, in the order of their answers;
/// a watch is answered when it begins.
///
/// Dropped, it forgets them. What is sent over a socket by clients that are not the environment's is not heard.
#[must_use = "a recorder records until it is dropped"]
pub struct Recorder {
    tape: Arc<Tape>,
    taps: Arc<Taps>,
}

/// What a recorder has heard.
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

    /// What there was so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.tape.heard.lock().clone()
    }

    /// What there was since the last time that this was asked.
    #[must_use]
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.tape.heard.lock())
    }

    /// How many there were so far of some.
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
