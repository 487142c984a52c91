//! Windlass beside kube-rs: a program can use both, with the same types and the same connections, and move from one to
//! the other in small steps.
//!
//! - **Types.** This crate enables the feature `kube` of windlass-api. With it, every type that implements
//!   `kube::Resource` for a kind that is known at compile time is a Windlass resource: types with
//!   `#[derive(kube::CustomResource)]`, types that kopium generates, and crates of such types. Types with
//!   `kube::CustomResourceExt` also have the [`CustomResource`](windlass_api::crd::CustomResource) of Windlass.
//! - **Clients.** [`client`] returns a kube-rs client that sends its requests through a Windlass client, and
//!   [`config()`] converts a configuration of kube-rs.
//! - **Finalizers.** [`mod@finalizer`] is the helper of kube-rs for the reconcilers of Windlass.
//! - **Schemas** (feature `schemars`). `Schemars` is the Windlass schema of a type with `schemars::JsonSchema`.
//! - **kube 4** (feature `kube-4`). `kube_4::Compat` wraps a type of kube 4, such as those of gateway-api 0.22.
//!
//! ```
//! use std::sync::Arc;
//! use kube::{CustomResource, CustomResourceExt as _};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use windlass_envtest::Environment;
//! use windlass_runtime::{Action, Context, Controller};
//!
//! #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
//! struct WebsiteSpec {
//!     image: String,
//! }
//!
//! async fn reconcile(website: Arc<Website>, _: Context) -> windlass_runtime::Result<Action> {
//!     println!("{}", website.spec.image);
//!     Ok(Action::await_change())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
//! let env = Environment::start().await;
//! env.install_definition(&Website::crd()).await?; // or env.define::<Website>()
//! let mut manager = env.manager();
//! manager.add(Controller::<Website>::new().reconcile(reconcile));
//! env.run(manager);
//!
//! // A kube-rs client of the same API server.
//! let websites = kube::Api::<Website>::default_namespaced(windlass_kube::client(&env.client()));
//! let website = Website::new("blog", WebsiteSpec { image: "nginx".into() });
//! websites.create(&kube::api::PostParams::default(), &website).await?;
//! env.eventually::<Website>("blog", |_| true).await;
//! env.stop().await?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not covered
//!
//! - Types whose kind is known only at run time: use Windlass' `DynamicObject` instead of that of kube-rs.
//! - `kube::core::PartialObjectMeta<K>` works, but the whole object is requested. Use Windlass' `PartialObject`.
//! - A program that implements `windlass_api::Object` by hand for a type with `kube::Resource` does not compile with
//!   this crate. Remove the implementation.

mod client;
mod config;
pub mod finalizer;
#[cfg(feature = "kube-4")]
pub mod kube_4;
#[cfg(feature = "schemars")]
mod schemars;

#[cfg(feature = "schemars")]
pub use self::schemars::Schemars;
pub use self::{
    client::{client, client_from},
    config::{ConversionError, config},
    finalizer::finalizer,
};

/// The code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/migrate-from-kube-rs.md")]
mod guide {}

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
