//! An operator of websites: to be read, run and copied.
//!
//! Of a [`Website`](api::Website) it makes a page, servers and a Service, tells in its status and by events how far it is, and
//! keeps a directory of all websites in order. Defaults are set and nonsense is refused by webhooks, whose certificates it makes
//! itself; it shows metrics, answers probes, and of several of its processes one acts.
//!
//! ```text
//! cargo run --release -- up &                                  # writes windlass.kubeconfig
//! export KUBECONFIG=$PWD/windlass.kubeconfig
//! cargo run -p website-operator -- --install
//! kubectl apply -f examples/website/manifests/sample.yaml
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | `api.rs` | the types |
//! | `controller.rs` | what is done about them |
//! | `webhooks.rs` | what is asked before they are written |
//! | `manifests.rs`, `config/` | what the cluster has to know: `cargo run --bin manifests -- all` writes it |
//! | `install.rs` | tells it |
//! | `main.rs`, `manifests/config.yaml` | flags, configuration, and all of it together |

pub mod api;
pub mod controller;
pub mod install;
mod manifests;
pub mod webhooks;

pub use manifests::manifests;
