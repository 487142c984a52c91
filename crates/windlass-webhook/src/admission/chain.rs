//! Several handlers that answer as one.

use std::fmt;

use super::{DynHandler, Handler, Request, Response};

/// Asks handlers one after the other: each sees what those before it have made of the object, all must allow, and what they
/// warn of is told together. The first that does not allow answers for all.
#[derive(Default)]
#[must_use]
pub struct Chain(Vec<Box<dyn DynHandler>>);

impl Chain {
    /// Allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks this one next.
    pub fn then(mut self, handler: impl Handler) -> Self {
        self.0.push(Box::new(handler));
        self
    }
}

impl Handler for Chain {
    async fn handle(&self, request: &Request) -> Response {
        let mut request = request.clone();
        let mut answer = Response::allowed();
        for handler in &self.0 {
            let mut next = handler.handle(&request).await.after(&answer.warnings, answer.annotations());
            if !next.is_allowed() {
                return next;
            }
            match &next.object {
                Some(object) => request.review.object.clone_from(object),
                None => next.object = answer.object,
            }
            answer = next;
        }
        answer
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&self.0.len()).finish()
    }
}
