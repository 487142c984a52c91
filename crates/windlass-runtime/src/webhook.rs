//! Webhooks in a manager: the webhook server, and certificates that the program manages itself.
//!
//! A [`windlass_webhook::Server`] is a runnable. So is [`WebhookCertificates`]: it creates a certificate authority and
//! a serving certificate, stores them in a Secret shared by the replicas, and renews them before they expire. It also
//! injects the authority's certificate (`caBundle`) into webhook configurations and CRDs. Requires the feature
//! `webhook`, and for the certificates also `certificates`.
//!
//! ```no_run
//! use windlass_runtime::{Manager, shutdown, webhook::{CaBundleTarget, WebhookCertificates}};
//! use windlass_webhook::{Server, Webhooks};
//!
//! # async fn main_(webhooks: Webhooks) -> windlass_runtime::Result<()> {
//! let mut manager = Manager::try_default().await?;
//! let certificates = WebhookCertificates::in_secret("shop", "webhook-certificates")
//!     .for_service("shop", "webhooks")
//!     .inject_into([CaBundleTarget::mutating("shop"), CaBundleTarget::conversion("websites.shop.example.com")]);
//! manager.add(Server::new(webhooks).certificate(certificates.serving()));
//! manager.add(certificates);
//! manager.run(shutdown::signal()).await
//! # }
//! ```
//!
//! # Guarantees
//!
//! - A serving certificate is used only after the API server was given its authority, and an authority is removed only
//!   after it has expired. Calls succeed whichever version a replica and an API server use.
//! - Replicas agree: a replica replaces the content of the Secret only if it has read the current version.
//! - A `caBundle` that another client removes is restored.
//!
//! # Not guaranteed
//!
//! - API servers do not confirm that they use a new `caBundle`. The rotation waits for a fixed time instead
//!   ([`WebhookCertificates::settle`]).
//! - A client that can read the Secret can impersonate the webhooks.

#[cfg(feature = "certificates")]
mod ca_bundle;
#[cfg(feature = "certificates")]
mod certificates;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "certificates")]
mod shared;

use futures::{FutureExt as _, future::BoxFuture};
use windlass_webhook::Server;

#[cfg(feature = "metrics")]
pub use self::metrics::PrometheusWebhookMetrics;
#[cfg(feature = "certificates")]
pub use self::{ca_bundle::CaBundleTarget, certificates::WebhookCertificates};
use crate::{
    Error, Result,
    runnable::{Group, Runnable, RunnableContext},
};

impl Runnable for Server {
    fn name(&self) -> String {
        "webhooks".to_owned()
    }

    fn group(&self) -> Group {
        Group::Webhooks
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        #[cfg(feature = "otlp")]
        let server = self.trace_parent(crate::otlp::extract);
        #[cfg(not(feature = "otlp"))]
        let server = self;
        async move { server.serve(context.stop().requested()).await.map_err(Error::other) }.boxed()
    }
}
