//! Webhooks in a manager: their server, and certificates that nobody else has to make.
//!
//! A [`windlass_webhook::Server`] is a runnable. [`WebhookCertificates`] is another: it makes an authority and a serving
//! certificate, keeps them in a Secret that the replicas of the program share, replaces them in time, and tells the API server
//! whom to trust (`caBundle`). Needs the feature `webhook`.
//!
//! ```no_run
//! use windlass_runtime::{Manager, shutdown, webhook::{Trustee, WebhookCertificates}};
//! use windlass_webhook::{Server, Webhooks};
//!
//! # async fn main_(webhooks: Webhooks) -> windlass_runtime::Result<()> {
//! let mut manager = Manager::try_default().await?;
//! let certificates = WebhookCertificates::in_secret("shop", "webhook-certificates")
//!     .for_service("shop", "webhooks")
//!     .trusted_by([Trustee::mutating("shop"), Trustee::conversion("websites.shop.example.com")]);
//! manager.add(Server::new(webhooks).certificate(certificates.serving()));
//! manager.add(certificates);
//! manager.run(shutdown::signal()).await
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! - A serving certificate comes into use when the API server has been told of its authority, and an authority is forgotten
//!   when it has ended: whichever of the two a replica and an API server know, calls succeed.
//! - Replicas agree: what is in the Secret is replaced only by who has read it.
//! - A `caBundle` that somebody takes away is put back.
//!
//! # What is not
//!
//! - That an API server has heard of a `caBundle` is not asked, but waited for ([`WebhookCertificates::settle`]).
//! - Who reads the Secret can be taken for the webhooks.

mod certificates;
mod numbers;
mod shared;
mod trustee;

use futures::{FutureExt as _, future::BoxFuture};
use windlass_webhook::Server;

pub use self::{certificates::WebhookCertificates, numbers::WebhookNumbers, trustee::Trustee};
use crate::{
    Error, Result,
    manager::{Group, Runnable, Running},
};

impl Runnable for Server {
    fn name(&self) -> String {
        "webhooks".to_owned()
    }

    fn group(&self) -> Group {
        Group::Webhooks
    }

    fn run(self: Box<Self>, running: Running) -> BoxFuture<'static, Result<()>> {
        async move { self.serve(running.stop().requested()).await.map_err(Error::other) }.boxed()
    }
}
