//! Endpoints: tells which pods are behind a service, in EndpointSlices and, for older readers, in Endpoints.
//!
//! Guaranteed: a service with a selector has slices that hold its pods with their addresses, ports and readiness, each pod
//! in one slice, and an object of the older kind that says the same. Services without a selector are left alone.
//!
//! Not guaranteed: which slice a pod is in. Not there: hints for topology, a second IP family, mirrors of objects of the
//! older kind that people write.

mod backend;
mod older;
mod packing;
mod slices;

pub(crate) use self::{older::add_to as add_older_to, slices::add_to as add_slices_to};
