//! The complete Kubernetes controller toolkit: one line in a `Cargo.toml`, and one `use`.
//!
//! A controller, whole:
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
//! # The way of a change
//!
//! Each station is a crate of its own, usable without the later ones; the modules here stand in this order.
//!
//! 1. [`client`] sends requests to an API server, and cuts its answers into objects and events.
//! 2. [`cache`] lists and watches; keeps the objects encoded, indexed and decoded on use; tells handlers what changed.
//! 3. [`runtime`] turns what changed into keys,
//! 4. [`queue`] keeps the keys until a worker is free, each once,
//! 5. and [`runtime`] again calls the reconciler, which writes through the [`client`].
//!
//! Under all of them lies [`api`]: objects, kinds, keys, selectors, patches and statuses. [`k8s`] has the built-in kinds.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `v1_36` | yes | the built-in kinds of Kubernetes 1.36, and `Clientset` over them |
//! | `envtest` | no | `windlass::envtest`: API server, clients and managers of one test, in process |
//! | `config` | no | `windlass::config`: what a manager may be told by a file |
//! | `flags` | no | the same by flags, for `clap` |
//! | `logging` | no | the log that file and flags ask for, by `tracing-subscriber` |
//! | `manifests` | no | `windlass::manifests`: definitions, roles and webhooks of a project, checked and written as YAML |
//! | `server` | no | `windlass::server`, the embedded API server |
//! | `webhook` | no | `windlass::webhook`: what an API server asks before it writes, converts, or lets somebody in; in `windlass::runtime::webhook` their certificates |

mod informers;
pub mod prelude;

pub use informers::informer_factory;

pub use windlass_api as api;
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
#[cfg(feature = "server")]
pub use windlass_server as server;
#[cfg(feature = "webhook")]
pub use windlass_webhook as webhook;

/// The built-in kinds, by group and version: `k8s::apps::v1::Deployment`.
pub use k8s_openapi::api as k8s;

/// Times, as the built-in kinds and `windlass::api` have them.
pub use windlass_api::jiff;

pub use windlass_api::{
    ApiResource, Clock, DynamicObject, Entropy, Nested, Object, ObjectBuilder, ObjectExt, ObjectKey, ObjectRef,
    PartialObject, Patch, Resource, Scheme, Scope, Status,
};

/// The identity of a custom kind: `#[derive(Resource)]`.
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

/// The definition of a custom kind, `#[derive(CustomResource)]`; the schemas of its parts, `#[derive(Schema)]`.
///
/// ```
/// use windlass::{CustomResource, Schema, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};
///
/// /// A page, and as many servers as it takes.
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

/// Kinds with definitions, and types with schemas.
pub use windlass_api::crd::{CustomResource, Definition, Schema};

#[cfg(feature = "v1_36")]
pub use windlass_client::Clientset;
pub use windlass_client::{Client, Propagation};

pub use windlass_cache::{Cached, Lister, Notification, SharedInformer};

pub use windlass_queue::WorkQueue;

pub use windlass_runtime::{
    Action, CacheOptions, Context, Controller, ControllerDefaults, ControllerHandle, Error, LeaderElection, Manager,
    ManagerHandle, Owners, ReconcileEvent, Reconciler, Result, Retry, Runnable, Task, Watch, predicate, shutdown,
};
