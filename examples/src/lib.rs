//! Small programs, each one thing that people do with Kubernetes clients, against any server: `windlass up`, say.
//!
//! ```text
//! cargo run --release -- up &                                  # writes windlass.kubeconfig
//! export KUBECONFIG=$PWD/windlass.kubeconfig
//! cargo run -p windlass-examples --bin test_pod -- create      # the pod that the others look at
//! cargo run -p windlass-examples --bin rest_client
//! ```
//!
//! | program | what it shows |
//! |---|---|
//! | `test_pod` | creates, watches and deletes a pod `test`, as `kubectl run test --image=nginx` does |
//! | `rest_client` | a request made by hand: path, send, decode |
//! | `clientset_pod` | one pod, read with its type |
//! | `clientset_running` | how many pods are running, in all namespaces |
//! | `clientset_overview` | pods and nodes, and what is known of them |
//! | `dynamic_client` | objects of a resource that is known at run time only |
//! | `discovery_client` | which versions and resources the server has |
//! | `watch_pods` | what happens to pods, as it happens |
//! | `informer` | a shared informer with handlers for added, updated and deleted pods |
//! | `informer_workqueue` | an informer whose handlers fill a work queue, and three workers that drain it |
//!
//! For `kubectl proxy`, there is the same of `windlass`:
//!
//! ```text
//! cargo run --release -- proxy --port 8080 &
//! curl 'http://localhost:8080/api/v1/namespaces/default/pods?watch=true'
//! ```
//!
//! `cargo xtask labs target/release/windlass` starts a control plane and runs all of them.

#[cfg(doctest)]
mod book;
