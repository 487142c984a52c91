//! Clients for the Kubernetes API: kubeconfig, REST, typed, dynamic
