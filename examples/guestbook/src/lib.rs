//! The operator of the book's tutorial, `docs/tutorial.md`, which shows this code word for word (`tests/book.rs` sees to it).

mod api;
mod controller;

pub use api::{Guestbook, GuestbookSpec, GuestbookStatus};
pub use controller::controller;

use windlass::manifests::Manifests;

/// What a cluster has to know of guestbooks.
pub fn manifests() -> Manifests {
    Manifests::new("guestbook").kind::<Guestbook>().rules(controller::RULES)
}
