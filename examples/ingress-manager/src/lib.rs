//! The ingress manager: makes Services with the annotation `ingress/http` reachable from outside the cluster.
//!
//! ```text
//! cargo run -p ingress-manager                             # a cluster in this process, with a demonstration
//! cargo run -p ingress-manager -- --kubeconfig PATH        # runs there until it is interrupted
//! ```
//!
//! | file | content |
//! |---|---|
//! | `desired.rs` | the desired rules of a Service, computed without a cluster |
//! | `controller.rs` | the controller |
//! | `tour.rs` | the demonstration: the steps of a user, with their effects |
//! | `main.rs` | command-line flags and the connection to the cluster |
//!
//! The documentation page, with a diagram of the control loop, is `docs/examples/ingress-manager.md`.

mod controller;
mod tour;
mod desired;

pub use controller::controller;
pub use desired::{ANNOTATION, Refusal, desired_rules};
pub use tour::tour;
