//! An operator of websites, as an example to run and copy.
//!
//! For each [`Website`](api::Website) it creates a page, a Deployment of web servers and a Service. It reports progress
//! in the status and by events, and maintains a directory of all websites. Webhooks set defaults and reject invalid
//! websites; the operator creates their certificates. It serves metrics and probes, and uses leader election if several
//! copies run.
//!
//! ```text
//! cargo run --release -- up &                                  # writes windlass.kubeconfig
//! export KUBECONFIG=$PWD/windlass.kubeconfig
//! cargo run -p website-operator -- --install
//! kubectl apply -f examples/website/manifests/sample.yaml
//! ```
//!
//! | file | content |
//! |---|---|
//! | `api.rs` | the API types |
//! | `controller.rs` | the controller |
//! | `webhooks.rs` | the admission webhooks |
//! | `manifests.rs`, `config/` | the manifests: `cargo run --bin manifests -- all` writes them |
//! | `install.rs` | the installation of the manifests |
//! | `main.rs`, `manifests/config.yaml` | the program, its flags and its configuration |

pub mod api;
pub mod controller;
pub mod install;
mod manifests;
pub mod webhooks;

pub use manifests::manifests;
