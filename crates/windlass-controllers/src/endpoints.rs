//! Endpoints: publishes the pods of a service in EndpointSlices and, for legacy clients, in Endpoints.
//!
//! Guaranteed: a service with a selector has slices with the addresses, ports and readiness of its pods, each pod in
//! one slice. It also has an Endpoints object with the same content. User-defined Endpoints of a service without a
//! selector are mirrored into slices.
//!
//! Not guaranteed: which slice a pod is in. Not implemented: topology hints, and a second IP family of pods.

mod backend;
mod mirror;
mod legacy;
mod packing;
mod slices;

pub(crate) use self::{
    legacy::add_to as add_legacy_to, mirror::add_to as add_mirror_to, slices::add_to as add_slices_to,
};
