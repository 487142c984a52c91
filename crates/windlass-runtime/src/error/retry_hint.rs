//! The retry policy of a failed reconcile, and errors that determine it.

use std::{error::Error as StdError, fmt, time::Duration};

use windlass_api::BoxError;

use super::Error;

/// The retry policy after a failed reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Retries after a delay that grows with each consecutive failure.
    Backoff,
    /// Retries after this delay. The back-off of later failures does not grow.
    After(Duration),
    /// Waits for the next change, because a retry cannot succeed.
    Never,
}

/// An error with the retry policy for its reconcile. Created by [`Error::terminal`] and [`Error::retry_after`].
///
/// A worker finds it anywhere in the chain of sources, so it may have any context around it.
#[derive(Debug)]
pub struct RetryHint {
    retry: Retry,
    error: BoxError,
}

impl Error {
    /// Marks an error as terminal: the reconcile is not retried until the object changes. controller-runtime's
    /// `TerminalError`.
    ///
    /// ```
    /// # use windlass_runtime::Error;
    /// use windlass_api::ErrorChain;
    ///
    /// let error = Error::terminal("spec.image is empty");
    /// assert_eq!(ErrorChain(&error).to_string(), "terminal error: spec.image is empty");
    /// ```
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::Hinted(RetryHint { retry: Retry::Never, error: error.into() })
    }

    /// Requests a retry of the reconcile after `delay`, without back-off.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::Hinted(RetryHint { retry: Retry::After(delay), error: error.into() })
    }
}

impl RetryHint {
    /// Returns the outermost hint in the chain of an error, if any.
    #[must_use]
    pub fn find<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(hint) = error.downcast_ref() {
                return Some(hint);
            }
            next = error.source();
        }
        None
    }

    /// Returns the retry policy.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        self.retry
    }

    /// Describes the policy, for the error around this one.
    pub(super) fn label(&self) -> String {
        match self.retry {
            Retry::After(delay) => format!("retry after {delay:?}"),
            Retry::Never | Retry::Backoff => "terminal error".to_owned(),
        }
    }
}

/// Displays the marked error.
impl fmt::Display for RetryHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for RetryHint {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::ErrorChain;

    use super::*;

    /// Hides the type of an error, as `anyhow` does when it becomes a box, and keeps its sources.
    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Opaque(Error);

    #[test]
    fn hint_is_found_through_wrapped_errors() {
        let delay = Duration::from_secs(5);
        for (error, retry) in [
            (Error::terminal("bad spec"), Some(Retry::Never)),
            (Error::other(Error::terminal("bad spec")), Some(Retry::Never)),
            (Error::other(Opaque(Error::retry_after(delay, "busy"))), Some(Retry::After(delay))),
            (Error::other("bad spec"), None),
        ] {
            assert_eq!(RetryHint::find(&error).map(RetryHint::retry), retry, "{error:?}");
        }
    }

    #[test]
    fn hint_shows_the_marked_error_with_its_causes() {
        let cause = std::io::Error::other("disk full");
        let error = Error::retry_after(Duration::from_secs(5), Error::Listen { source: cause });
        assert_eq!(ErrorChain(&error).to_string(), "retry after 5s: cannot listen: disk full");
    }
}
