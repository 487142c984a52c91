//! The client suite: windlass-client with each server. Each test uses its own namespace, or names that no other test
//! uses.

mod apply_configurations;
mod cbor;
mod certificates;
mod clientset;
mod expiry;
mod identity;
mod names;
mod protobuf;
mod rest;
mod verbs;
mod writes;
