//! Endpoints: tells which pods are behind a service, in EndpointSlices and, for older readers, in Endpoints.
//!
//! Guaranteed: a service with a selector has slices that hold its pods with their addresses, ports and readiness, each pod
//! in one slice, and an object of the older kind that says the same. Endpoints that users write for a service without a
//! selector are mirrored into slices.
//!
//! Not guaranteed: which slice a pod is in. Not there: hints for topology, a second IP family of pods.

mod backend;
mod mirror;
mod older;
mod packing;
mod slices;

pub(crate) use self::{
    mirror::add_to as add_mirror_to, older::add_to as add_older_to, slices::add_to as add_slices_to,
};
