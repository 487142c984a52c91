//! The operator of the tutorial, `docs/tutorial.md`. The tutorial contains this code verbatim, which `tests/book.rs`
//! verifies.

mod api;
mod controller;

pub use api::{Guestbook, GuestbookSpec, GuestbookStatus};
pub use controller::controller;

use windlass::manifests::Manifests;

/// Returns the manifests of the operator.
pub fn manifests() -> Manifests {
    Manifests::new("guestbook").kind::<Guestbook>().rules(controller::RULES)
}
