//! A Kubernetes controller toolkit: clients, informers, work queues, controllers, webhooks and an embedded API server.
//!
//! A complete controller:
//!
//! ```no_run
//! use windlass::{k8s::apps::v1::Deployment, k8s::core::v1::ConfigMap, prelude::*};
//!
//! async fn reconcile(config: Arc<ConfigMap>, cx: Context) -> windlass::Result<Action> {
//!     let deployment = deployment_for(&config).controlled_by(&*config);
//!     cx.client().apply(&deployment).await?;
//!     Ok(Action::await_change())
//! }
//!
//! #[tokio::main]
//! async fn main() -> windlass::Result<()> {
//!     let mut manager = Manager::try_default().await?;
//!     manager.add(Controller::<ConfigMap>::new().owns::<Deployment>().reconcile(reconcile));
//!     manager.run(shutdown::signal()).await
//! }
//! # fn deployment_for(_: &ConfigMap) -> Deployment { Deployment::default() }
//! ```
//!
//! # Crates and data flow
//!
//! Each step is a separate crate that you can use without the following ones:
//!
//! 1. [`client`] sends requests to an API server, and decodes responses and watch events.
//! 2. [`cache`] lists and watches. It stores encoded objects with indices, decodes them on first use, and delivers
//!    changes to handlers.
//! 3. [`runtime`] maps changed objects to keys.
//! 4. [`queue`] holds each key once until a worker is free.
//! 5. [`runtime`] calls the reconciler with the object of the key. The reconciler writes through the [`client`].
//!
//! All of them build on [`api`]: objects, kinds, keys, selectors, patches and statuses. [`k8s`] contains the built-in
//! kinds.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `v1_36` | yes | the built-in kinds of Kubernetes 1.36 |
//! | `v1_33`, `v1_34`, `v1_35`, `v1_37` | no | those of another minor version; also `earliest` and `latest`. At most one |
//! | `standard` | yes | all default features except for the Kubernetes version |
//! | `clientset` | yes | `Clientset`: an accessor for each built-in resource of that version |
//! | `apply-configurations` | no | `windlass::apply_configurations`: apply configurations of the built-in kinds |
//! | `schema` | yes | `windlass::api::schema`: the merge and comparison rules of the built-in kinds |
//! | `certificates` | yes | certificates that the program creates itself, for webhooks and metrics; needs `ring` or `aws-lc-rs` |
//! | `console` | yes | `windlass::runtime::console`: the state of a manager in a browser |
//! | `gzip` | yes | compressed responses |
//! | `http2` | yes | HTTP/2 of the client |
//! | `metrics` | yes | `windlass::runtime::metrics`: the Prometheus registry and its server |
//! | `sharding` | yes | `windlass::runtime::sharding`: several replicas divide the objects |
//! | `ring` | yes | TLS with ring |
//! | `aws-lc-rs`, `fips` | no | TLS with aws-lc-rs, or with its FIPS module |
//! | `openssl` | no | TLS with the system's OpenSSL |
//! | `graviola` | no | TLS with graviola, which needs no C compiler |
//! | `envtest` | no | `windlass::envtest`: an API server, clients and managers for tests, in process |
//! | `compression` | no | compression of cached bodies beyond the memory budget, with zstd |
//! | `config` | no | `windlass::config`: the configuration file of a manager; includes `certificates`, `console`, `metrics` and `sharding` |
//! | `flags` | no | command-line flags with the same settings, for `clap` |
//! | `logging` | no | the log configured by file and flags, with `tracing-subscriber` |
//! | `manifests` | no | `windlass::manifests`: CRDs, roles and webhook configurations of a project, validated and written as YAML |
//! | `otlp` | no | `windlass::otlp`: export of spans to an OpenTelemetry collector |
//! | `server` | no | `windlass::server`, the embedded API server |
//! | `views` | no | `windlass::views`: views of the built-in kinds, to read fields of cached objects without decoding them |
//! | `webhook` | no | `windlass::webhook`: admission, conversion, authentication and authorization webhooks; `windlass::runtime::webhook`: their certificates |
//! | `websockets` | no | `Client::exec`, `Client::attach`, `Client::port_forward` |
//!
//! # Kubernetes version
//!
//! A program has the built-in types of one minor version, because all crates share one `k8s-openapi`. Libraries choose
//! none. To use another one than 1.36, switch off the default features:
//!
//! ```toml
//! windlass = { version = "0.1.0", default-features = false, features = ["standard", "v1_34"] }
//! ```
//!
//! With neither, `windlass` has the least dependencies, and needs a feature or a process default for TLS.
//!
//! Without a version feature of Windlass, the version that the program selects on `k8s-openapi` applies. If two are
//! selected, the build fails and names both.

mod informers;
pub mod prelude;

pub use informers::informer_factory;

pub use windlass_api as api;
#[cfg(feature = "apply-configurations")]
pub use windlass_apply_configurations as apply_configurations;
pub use windlass_cache as cache;
pub use windlass_client as client;
#[cfg(feature = "envtest")]
pub use windlass_envtest as envtest;
#[cfg(feature = "manifests")]
pub use windlass_manifests as manifests;
pub use windlass_queue as queue;
pub use windlass_runtime as runtime;
#[cfg(feature = "config")]
pub use windlass_runtime::config;
#[cfg(feature = "otlp")]
pub use windlass_runtime::otlp;
#[cfg(feature = "server")]
pub use windlass_server as server;
pub use windlass_views as views;
#[cfg(feature = "webhook")]
pub use windlass_webhook as webhook;

/// The built-in kinds, by group and version: `k8s::apps::v1::Deployment`.
pub use k8s_openapi::api as k8s;

/// The time types of the built-in kinds and of `windlass::api`.
pub use windlass_api::jiff;

pub use windlass_api::{
    ApiResource, Clock, DynamicObject, Entropy, Nested, Object, ObjectBuilder, ObjectExt, ObjectKey, ObjectRef,
    PartialObject, Patch, Resource, Scheme, Scope, Status,
};

/// Derives the resource of a custom kind: its group, version, plural and scope.
///
/// ```
/// use windlass::{ObjectExt, Resource, Scope, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, Resource)]
/// #[resource(group = "example.com", version = "v1")]
/// struct Website {
///     metadata: ObjectMeta,
///     spec: WebsiteSpec,
/// }
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
/// struct WebsiteSpec {
///     image: String,
/// }
///
/// let resource = Website::api_resource();
/// assert_eq!((resource.path(Some("shop")), resource.scope), (
///     "/apis/example.com/v1/namespaces/shop/websites".to_owned(), Scope::Namespaced));
/// # async fn example(client: windlass::Client) -> Result<(), windlass::client::Error> {
/// for website in client.list::<Website>().within("shop").await? {
///     println!("{}: {}", website.name(), website.spec.image);
/// }
/// # Ok(())
/// # }
/// ```
pub use windlass_derive::Resource;

/// Derives the CRD of a custom kind (`#[derive(CustomResource)]`) and the schemas of its parts (`#[derive(Schema)]`).
///
/// ```
/// use windlass::{CustomResource, Schema, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
///
/// /// A web page with a number of replicas.
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, CustomResource)]
/// #[resource(
///     group = "example.com", version = "v1", short_names("web"),
///     column(name = "Replicas", type = "integer", path = ".spec.replicas"),
/// )]
/// struct Website {
///     metadata: ObjectMeta,
///     spec: WebsiteSpec,
/// }
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, Schema)]
/// struct WebsiteSpec {
///     /// The web server.
///     #[schema(min_length = 1)]
///     image: String,
///     #[schema(minimum = 0, default = 1)]
///     replicas: i32,
/// }
///
/// let definition = Website::definition();
/// assert_eq!(definition.metadata.name.as_deref(), Some("websites.example.com"));
/// let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
/// let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
/// assert_eq!(spec["required"], serde_json::json!(["image"]));
/// assert_eq!(spec["properties"]["image"]["description"], "The web server.");
/// ```
pub use windlass_derive::{CustomResource, Schema, rbac};

/// Derives the apply configuration of a type, for server-side apply of some of its fields.
///
/// ```
/// use windlass::{ApplyConfiguration, Resource, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, Resource, ApplyConfiguration)]
/// #[resource(group = "example.com", version = "v1")]
/// pub struct Website {
///     metadata: ObjectMeta,
///     spec: WebsiteSpec,
/// }
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, ApplyConfiguration)]
/// pub struct WebsiteSpec {
///     image: String,
///     replicas: u16,
/// }
///
/// # async fn example(client: windlass::Client) -> windlass::client::Result<()> {
/// let scaled = WebsiteApply::named("web").in_namespace("shop").spec(WebsiteSpecApply::new().replicas(0));
/// let website: Website = client.apply(&scaled).await?; // owns `spec.replicas`, and nothing else
/// # let _ = website;
/// # Ok(())
/// # }
/// ```
pub use windlass_derive::ApplyConfiguration;

/// The trait of everything that can be applied: objects and apply configurations.
pub use windlass_api::ApplyConfiguration;

/// Derives the view of a type, with an accessor for each field: reads of cached objects without decoding them.
///
/// ```
/// use windlass::{Cached, Resource, View, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, Resource, View)]
/// #[resource(group = "example.com", version = "v1")]
/// struct Website {
///     metadata: ObjectMeta,
///     spec: WebsiteSpec,
/// }
///
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, View)]
/// struct WebsiteSpec {
///     image: String,
///     replicas: u16,
/// }
///
/// # fn example(website: &Cached<Website>) -> Result<bool, windlass::cache::DecodeError> {
/// website.view(|website| website.spec().image() == "nginx" && website.spec().replicas() > 1)
/// # }
/// ```
pub use windlass_derive::View;

/// Traits of kinds with CRDs, and of types with schemas.
pub use windlass_api::crd::{CrdBuilder, CustomResource, Schema};

#[cfg(feature = "clientset")]
pub use windlass_client::Clientset;
pub use windlass_client::{Client, Propagation};

pub use windlass_cache::{Cached, Lister, Notification, SharedInformer};

pub use windlass_queue::WorkQueue;

pub use windlass_runtime::{
    Action, CacheOptions, Context, Controller, ControllerDefaults, ControllerHandle, Error, LeaderElection, Manager,
    ManagerHandle, Owners, ReconcileEvent, Reconciler, Result, Retry, RetryHint, Runnable, Task, Watch, predicate,
    shutdown,
};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
