//! The ingress manager: a Service that is annotated `ingress/http` is reached from outside the cluster.
//!
//! ```text
//! cargo run -p ingress-manager                             # a cluster in this process, and somebody who uses it
//! cargo run -p ingress-manager -- --kubeconfig PATH        # works there until it is interrupted
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `wish.rs` | what a Service asks for: a value, decided without a cluster |
//! | `controller.rs` | what is done about it |
//! | `tour.rs` | somebody who uses it, and what they see |
//! | `main.rs` | flags, and where the cluster is |
//!
//! The page about it, with a picture of its loop, is `docs/examples/ingress-manager.md`.

mod controller;
mod tour;
mod wish;

pub use controller::controller;
pub use tour::tour;
pub use wish::{ANNOTATION, Refusal, wish};
