//! Resolution of host names, with metrics.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use tokio::time::Instant;
use tower::Service;

use crate::metrics::Audience;

/// The system's resolver. It is not used if the host is an IP address.
#[derive(Clone)]
pub(super) struct Resolver {
    system: GaiResolver,
    audience: Audience,
}

impl Resolver {
    pub(super) fn new(audience: Audience) -> Self {
        Self { system: GaiResolver::new(), audience }
    }
}

impl Service<Name> for Resolver {
    type Response = GaiAddrs;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<GaiAddrs>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (host, audience, began) = (name.as_str().to_owned(), self.audience.clone(), Instant::now());
        let looked_up = self.system.call(name);
        Box::pin(async move {
            let addresses = looked_up.await;
            audience.tell(|metrics| metrics.resolved(&host, began.elapsed()));
            addresses
        })
    }
}
