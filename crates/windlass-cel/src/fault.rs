//! Failures of an evaluation.

use std::rc::Rc;

/// The reason for a missing value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EvalFault {
    /// The evaluation failed. `&&` and `||` can recover from it.
    Error(Rc<str>),
    /// The cost limit was exceeded.
    Exhausted,
}

impl EvalFault {
    pub(crate) fn error(message: impl AsRef<str>) -> Self {
        Self::Error(message.as_ref().into())
    }
}

impl std::fmt::Display for EvalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Error(message) => f.write_str(message),
            Self::Exhausted => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}
