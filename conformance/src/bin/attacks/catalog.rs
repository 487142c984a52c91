//! The list of all attacks, by topic.

use futures::future::BoxFuture;

use crate::{identity, numbers, proxy, server::Server, sizes, transport};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// An attack.
pub(crate) struct Attack {
    /// The number of its topic.
    pub(crate) item: u8,
    pub(crate) name: &'static str,
    pub(crate) run: fn(Server) -> BoxFuture<'static, Result<AttackResult, Error>>,
}

/// The result of an attack, with a description.
#[derive(Debug)]
pub(crate) enum AttackResult {
    Held(String),
    Broken(String),
}

impl AttackResult {
    /// Returns `Held` if the condition is true.
    pub(crate) fn when(condition: bool, outcome: impl Into<String>) -> Self {
        if condition { Self::Held(outcome.into()) } else { Self::Broken(outcome.into()) }
    }
}

macro_rules! attacks {
    ($($item:literal $name:literal $run:path;)*) => {
        vec![$(Attack { item: $item, name: $name, run: |server| Box::pin($run(server)) }),*]
    };
}

pub(crate) fn attacks() -> Vec<Attack> {
    attacks! {
        1 "Impersonate-User that is not ASCII" identity::foreign_user;
        1 "Impersonate-Group that is not ASCII" identity::foreign_group;
        1 "Impersonate-Extra that is not ASCII" identity::foreign_extra;
        2 "create by server-side apply with the verb patch" identity::create_by_apply;
        2 "create by PUT with the verb update" identity::create_by_put;
        3 "YAML: 500 KiB behind an anchor, 5,000 aliases, four times" sizes::yaml_aliases;
        3 "YAML: 30 levels of doubling anchors" sizes::yaml_doubling;
        4 "60,000 invalid requirements, four times" sizes::invalid_requirements;
        5 "Role with 40 groups × resources × verbs × names" identity::combinatorial_role;
        6 "Service with 60,000 ports" sizes::service_ports;
        6 "EndpointSlice with 60,000 addresses" sizes::slice_addresses;
        6 "Pod with 20,000 volumes and mounts" sizes::pod_volumes;
        6 "Ingress with 20,000 rules" sizes::ingress_rules;
        6 "CertificateSigningRequest with 100,000 usages" sizes::certificate_usages;
        7 "proxy: encoded exec, other origins" proxy::bypasses;
        8 "terminationGracePeriodSeconds of 2^63-1" numbers::grace_period_of_pod;
        8 "?gracePeriodSeconds=300000000000" numbers::grace_period_of_request;
        8 "watch with timeoutSeconds=2^63-1" numbers::watch_timeout;
        8 "extreme numbers in queries" numbers::queries;
        9 "60 streams of large answers, window 0" transport::window_zero;
        9 "16 connections of such streams" transport::window_zero_everywhere;
        9 "400 connections that read nothing over HTTP/1.1" transport::unread_http1;
        9 "600 request bodies that do not end" transport::partial_bodies;
        9 "1,000 heads that do not end" transport::slow_heads;
        9 "4,000 idle connections" transport::idle_connections;
        9 "connections as fast as they are accepted, 10 s" transport::connection_churn;
        10 "token of a deleted service account" identity::deleted_account;
        11 "CertificateSigningRequest for system:masters" identity::masters_certificate;
        13 "object of 1.6 MiB" sizes::oversized_object;
        13 "JSON patch with 10,000 operations" sizes::json_patch;
        13 "CRD with the pattern ((a{1000}){1000}){1000}" sizes::pattern;
        13 "JSON nested 100,000 deep" sizes::deep_json;
    }
}
