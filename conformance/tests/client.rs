//! The client suite: windlass-client against each server. What a test does happens in a namespace of its own, or under
//! names that no other test uses.

mod certificates;
mod clientset;
mod expiry;
mod identity;
mod names;
mod rest;
mod verbs;
mod writes;
