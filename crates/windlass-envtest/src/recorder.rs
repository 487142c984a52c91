//! Recording of requests.

use std::{fmt, sync::Arc};

use http::StatusCode;
use parking_lot::Mutex;

use crate::{
    registry::Registry,
    requests::{RequestMatcher, Sent},
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
    log: Arc<RequestLog>,
    /// The registry that the log is removed from on drop.
    logs: Arc<Registry<RequestLog>>,
}

/// The recorded requests.
pub(crate) struct RequestLog {
    wanted: RequestMatcher,
    recorded: Mutex<Vec<Recorded>>,
}

impl Recorder {
    pub(crate) fn new(logs: Arc<Registry<RequestLog>>, wanted: RequestMatcher) -> Self {
        let log = Arc::new(RequestLog { wanted, recorded: Mutex::default() });
        logs.add(log.clone());
        Self { log, logs }
    }

    /// Returns all requests recorded so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.log.recorded.lock().clone()
    }

    /// Returns and removes the requests recorded so far.
    #[must_use]
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut *self.log.recorded.lock())
    }

    /// Returns the number of matching requests recorded so far.
    #[must_use]
    pub fn count(&self, of: &RequestMatcher) -> usize {
        self.log.recorded.lock().iter().filter(|recorded| of.matches(&recorded.sent)).count()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.logs.remove(&self.log);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.log.recorded.lock().iter().map(|recorded| recorded.sent.to_string())).finish()
    }
}

impl RequestLog {
    pub(crate) fn wants(&self, sent: &Sent) -> bool {
        self.wanted.matches(sent)
    }

    pub(crate) fn add(&self, recorded: Recorded) {
        self.recorded.lock().push(recorded);
    }
}
