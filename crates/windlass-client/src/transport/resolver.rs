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

use crate::metrics::MetricsRecorder;

/// The system's resolver. It is not used if the host is an IP address.
#[derive(Clone)]
pub(super) struct Resolver {
    system: GaiResolver,
    recorder: MetricsRecorder,
}

impl Resolver {
    pub(super) fn new(recorder: MetricsRecorder) -> Self {
        Self { system: GaiResolver::new(), recorder }
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
        let (host, recorder, began) = (name.as_str().to_owned(), self.recorder.clone(), Instant::now());
        let looked_up = self.system.call(name);
        Box::pin(async move {
            let addresses = looked_up.await;
            recorder.record(|metrics| metrics.resolved(&host, began.elapsed()));
            addresses
        })
    }
}
