//! The core group.
//!
//! The kind `Event`, which has a second form in `events.k8s.io`, is in [`events`](super::events).

use crate::kinds::{events, prelude::*};

mod component_status;
mod config_map;
pub(super) mod endpoints;
mod limit_range;
mod namespace;
mod node;
pub(super) mod persistent_volume;
pub(super) mod persistent_volume_claim;
pub(super) mod pod;
mod pod_template;
mod replication_controller;
pub(super) mod resource_names;
mod resource_quota;
mod secret;
pub(crate) mod service;
pub(crate) mod service_account;

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "Binding", ..BASE },
    events::CORE,
    component_status::KIND,
    config_map::KIND,
    endpoints::KIND,
    limit_range::KIND,
    namespace::KIND,
    node::KIND,
    persistent_volume::KIND,
    persistent_volume_claim::KIND,
    pod::KIND,
    pod_template::KIND,
    replication_controller::KIND,
    resource_quota::KIND,
    secret::KIND,
    service::KIND,
    service_account::KIND,
];
