//! An embedded Kubernetes API server, in process or over HTTPS.
//!
//! The modules, from the entry points down. Each depends only on modules below it:
//!
//! ```text
//! server          a handle: built, called in process (a tower service) or served on a socket (TLS, HTTP/1.1 and 2)
//! http            maps requests to verbs of the registry and renders results: media types, watches (also over WebSockets), errors
//! health          the probes and the version
//! reviews         access reviews, and tokens of service accounts
//! state           the state that all requests share
//! bootstrap       the objects that every cluster has, and the background tasks
//! extension       the kinds of a program that extends a cluster
//! admission       the admission plugins and webhooks
//! kinds           the rules of the built-in kinds: defaults, validation, conversion
//! apiextensions   CustomResourceDefinitions and custom resources
//! aggregation     the API servers that extend this one
//! api_services    the APIService objects of this server
//! authn           authentication: tokens, impersonation
//! authz           authorization: roles, webhooks
//! connect         connections to pods, nodes and services
//! openapi         the OpenAPI documents
//! discovery       the discovery documents
//! table           tables, as `kubectl get` prints them
//! registry        the verbs for all kinds, and the interface of admission plugins
//! resource        the vocabulary of resources: kinds, rules, versions, targets
//! field_manager   managed fields and server-side apply
//! flow_control    priority and fairness: the limits on requests at the same time
//! audit           the audit log: policy, events, and the log and webhook backends
//! webhook         calls of webhooks
//! request         the verb, resource and query of a request
//! watch_cache     one watch of the storage, shared by all client watches
//! encoded         objects, encoded once per write
//! patch           JSON patch, merge patch and strategic merge patch
//! schemas         the recorded schemas of the built-in kinds
//! object          the vocabulary of objects: values, field paths, names, addresses
//! tls             certificates of the server and of clients
//! storage         revisions, compare-and-put, history: a trait modeled on etcd's MVCC, implemented in memory
//! codec           JSON, YAML and protobuf, decoded by the rules of the Go types
//! descriptions    descriptions of fields
//! kubernetes      the Kubernetes versions that a server can serve, and the recorded tables of each
//! identity        users and groups
//! trust           verification of other servers by a CA bundle
//! budget          the memory that each connection holds, and its limits
//! metrics         the metrics of the server
//! warning         warnings in responses
//! trace_context   the trace context of a request
//! offload         long computations outside of the asynchronous runtime
//! single_flight   calls that several requests share
//! turns           turns at long computations and large responses, by priority and fairness
//! ```
//!
//! [`Server`] is the entry point:
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass_server::Server;
//! # use tower::ServiceExt as _;
//!
//! let server = Server::builder().build();
//! let request = http::Request::get("/api/v1/namespaces/default").body(String::new())?;
//! let response = server.service().oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! Its responses are those of kube-apiserver 1.36 in status, headers and body. [`ServerBuilder::kubernetes`] selects
//! another [`KubernetesVersion`]. The server depends on neither the client
//! nor the runtime, and starts no controllers. As in Kubernetes, controllers do garbage collection and delete the
//! content of namespaces.

#![allow(clippy::result_large_err, reason = "a Status is sent to the client; boxing only adds an indirection")]

mod server;
mod http;
mod health;
mod reviews;
mod renewal;
mod state;
mod bootstrap;
mod extension;
mod admission;
mod kinds;
mod apiextensions;
mod aggregation;
mod api_services;
mod authn;
mod authz;
mod connect;
mod openapi;
mod discovery;
mod table;
mod registry;
mod resource;
mod field_manager;
mod flow_control;
mod audit;
mod webhook;
mod request;
mod watch_cache;
mod encoded;
mod patch;
mod schemas;
mod object;
mod tls;
pub mod storage;
mod codec;
mod descriptions;
mod kubernetes;
mod identity;
mod trust;
mod budget;
mod metrics;
mod warning;
mod trace_context;
mod offload;
mod single_flight;
mod turns;

pub use self::{
    admission::{AdmissionConfiguration, AdmissionConfigurationError, AdmissionPlugins, PodAccounts},
    aggregation::{ProxyIdentity, ProxyIdentityError},
    apiextensions::{DefinitionError, definition_to_v1},
    audit::{
        AuditBatchOptions, AuditConfiguration, AuditError, AuditFormat, AuditLogOptions, AuditMode, AuditPolicy,
        AuditPolicyError, AuditTruncateOptions, AuditWebhook, AuditWebhookOptions,
    },
    authn::{
        Anonymous, AuthenticationConfiguration, AuthenticationConfigurationError, FrontProxy, KeyError, OidcOptions,
        TokenIssuer, TokenReviewError, TokenReviewVersion, TokenReviewer, TokenWebhook, parse_token_file,
    },
    authz::{
        AccessReviewer, Authorization, AuthorizationConfiguration, AuthorizationWebhookOptions, AuthorizerChain,
        ConfigurationError,
    },
    budget::Limits,
    encoded::{DamagedBody, is_body},
    extension::ExtensionApi,
    http::{Body, BodyError},
    identity::User,
    kubernetes::{KubernetesVersion, UnknownKubernetesVersion},
    renewal::CertificateRenewal,
    resource::ResourceRules,
    server::{Server, ServerBuilder, Service},
    tls::{TlsError, TlsIdentity, TlsVersion},
};
pub use crate::kinds::{
    RuntimeConfig, RuntimeConfigError, StoredKinds, StoredResource,
    core::service::{InvalidServiceCidr, ServiceCidr},
    stored_resources,
};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
