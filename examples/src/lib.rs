//! Small programs that each show one use of a Kubernetes client. They run against any server, such as `windlass up`.
//!
//! ```text
//! cargo run --release -- up &                                  # writes windlass.kubeconfig
//! export KUBECONFIG=$PWD/windlass.kubeconfig
//! cargo run -p windlass-examples --bin test_pod -- create      # the pod that the other programs read
//! cargo run -p windlass-examples --bin rest_client
//! ```
//!
//! | program | what it shows |
//! |---|---|
//! | `test_pod` | creates, watches and deletes a pod `test`, as `kubectl run test --image=nginx` does |
//! | `rest_client` | a request in single steps: path, send, decode |
//! | `clientset_pod` | a typed read of one pod |
//! | `clientset_running` | the number of running pods in all namespaces |
//! | `clientset_overview` | an overview of pods and nodes |
//! | `dynamic_client` | objects of a resource that is only known at run time |
//! | `discovery_client` | the versions and resources of the server |
//! | `watch_pods` | a watch of pods |
//! | `informer` | a shared informer with handlers for added, updated and deleted pods |
//! | `informer_workqueue` | an informer whose handlers fill a work queue, and three workers that drain it |
//!
//! `windlass proxy` corresponds to `kubectl proxy`:
//!
//! ```text
//! cargo run --release -- proxy --port 8080 &
//! curl 'http://localhost:8080/api/v1/namespaces/default/pods?watch=true'
//! ```
//!
//! `cargo xtask labs target/release/windlass` starts a control plane and runs all of them.

#[cfg(doctest)]
mod book;
