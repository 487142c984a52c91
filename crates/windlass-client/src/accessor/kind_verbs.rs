//! Verbs of pods, services and nodes beyond their API objects (logs, commands, ports, proxies), and the approval of
//! certificate signing requests.

use std::sync::Arc;

use windlass_api::k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{Node, Pod, Service},
};

use super::Accessor;
use crate::{ApprovalRequest, Logs, Proxied, verbs::PatchOne};
#[cfg(feature = "websockets")]
use crate::{Exec, PortForward};

impl Accessor<Pod> {
    /// Reads the log of a container; see [`Client::logs`](crate::Client::logs).
    pub fn logs(&self, name: impl Into<Arc<str>>) -> Logs {
        self.resources.client.logs(self.key(name))
    }

    /// Runs a command in a container; see [`Client::exec`](crate::Client::exec).
    #[cfg(feature = "websockets")]
    pub fn exec<S: Into<String>>(&self, name: impl Into<Arc<str>>, command: impl IntoIterator<Item = S>) -> Exec {
        self.resources.client.exec(self.key(name), command)
    }

    /// Attaches to the main process of a container.
    #[cfg(feature = "websockets")]
    pub fn attach(&self, name: impl Into<Arc<str>>) -> Exec {
        self.resources.client.attach(self.key(name))
    }

    /// Forwards connections to ports of a pod; see [`Client::port_forward`](crate::Client::port_forward).
    #[cfg(feature = "websockets")]
    pub fn port_forward(&self, name: impl Into<Arc<str>>) -> PortForward {
        self.resources.client.port_forward(self.key(name))
    }

    /// Sends requests to a pod through the API server.
    pub fn proxy(&self, name: impl Into<Arc<str>>) -> Proxied {
        self.resources.client.pod_proxy(self.key(name))
    }
}

impl Accessor<Service> {
    /// Sends requests to a service through the API server; see [`Client::service_proxy`](crate::Client::service_proxy).
    pub fn proxy(&self, name: impl Into<Arc<str>>) -> Proxied {
        self.resources.client.service_proxy(self.key(name))
    }
}

impl Accessor<Node> {
    /// Sends requests to the kubelet of a node through the API server.
    pub fn proxy(&self, name: impl Into<Arc<str>>) -> Proxied {
        self.resources.client.node_proxy(self.key(name))
    }

    /// Cordons a node: marks it as unschedulable.
    pub fn cordon(&self, name: impl Into<Arc<str>>) -> PatchOne<Node> {
        self.resources.client.cordon(self.key(name))
    }

    /// Uncordons a node: marks it as schedulable.
    pub fn uncordon(&self, name: impl Into<Arc<str>>) -> PatchOne<Node> {
        self.resources.client.uncordon(self.key(name))
    }
}

impl Accessor<CertificateSigningRequest> {
    /// Approves a certificate signing request; see [`Client::approve`](crate::Client::approve).
    pub fn approve(&self, name: impl Into<Arc<str>>) -> ApprovalRequest {
        self.resources.client.approve(self.key(name))
    }

    /// Denies a certificate signing request.
    pub fn deny(&self, name: impl Into<Arc<str>>) -> ApprovalRequest {
        self.resources.client.deny(self.key(name))
    }
}
