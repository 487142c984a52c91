//! The group `coordination.k8s.io`.
