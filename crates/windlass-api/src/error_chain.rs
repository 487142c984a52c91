//! An error with its causes, as one line.

use std::{error::Error, fmt};

/// Displays an error and its causes in one line: `reading x: permission denied`.
///
/// The text of a Windlass error never contains that of its [`Error::source`], so nothing is repeated.
#[derive(Clone, Copy)]
pub struct ErrorChain<'e>(pub &'e (dyn Error + 'e));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ListWatchError, Status};

    #[test]
    fn error_causes_are_printed_in_order() {
        let error = ListWatchError::from(Status::expired("too old"));
        assert_eq!(ErrorChain(&error).to_string(), "the server answered 410 Expired: too old");
    }
}
