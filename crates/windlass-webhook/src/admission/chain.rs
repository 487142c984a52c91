//! Chains of admission handlers.

use std::fmt;

use super::{DynHandler, Handler, Request, Response};

/// Calls handlers one after the other. Each handler receives the object as changed by the previous ones, and all of
/// them must allow the request. Warnings are combined. The response of the first handler that denies the request is the
/// result.
#[derive(Default)]
#[must_use]
pub struct Chain(Vec<Box<dyn DynHandler>>);

impl Chain {
    /// Creates an empty chain, which allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a handler.
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
