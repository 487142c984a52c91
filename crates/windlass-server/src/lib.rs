//! An embedded Kubernetes API server, in process or over HTTPS
