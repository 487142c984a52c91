//! The well-behaved client that runs during an attack.

use std::time::{Duration, Instant};

use http::Request;
use http_body_util::BodyExt as _;
use tokio::{sync::watch, task::JoinHandle, time};
use windlass_client::{Body, Client};

use crate::server::Server;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(10);

/// A request that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct WellBehavedClient {
    stop: watch::Sender<bool>,
    asking: JoinHandle<Waits>,
}

/// The latencies of the client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) median: Duration,
    pub(crate) maximum: Duration,
    pub(crate) failures: usize,
}

impl WellBehavedClient {
    pub(crate) fn start(server: &Server) -> Self {
        let (stop, stopped) = watch::channel(false);
        let client = server.client();
        let asking = tokio::spawn(async move {
            let (mut waits, mut failures) = (Vec::new(), 0);
            while !*stopped.borrow() {
                let started = Instant::now();
                failures += usize::from(!time::timeout(PATIENCE, get(&client)).await.unwrap_or(false));
                waits.push(started.elapsed());
                time::sleep(PAUSE).await;
            }
            waits.sort_unstable();
            let maximum = waits.last().copied().unwrap_or_default();
            Waits { median: waits.get(waits.len() / 2).copied().unwrap_or_default(), maximum, failures }
        });
        Self { stop, asking }
    }

    pub(crate) async fn stop(self) -> Waits {
        self.stop.send_replace(true);
        self.asking.await.unwrap_or(Waits { failures: 1, ..Waits::default() })
    }
}

async fn get(client: &Client) -> bool {
    let Ok(request) = Request::get("/api/v1/namespaces/default").body(Body::empty()) else { return false };
    match client.request(request).await {
        Ok(response) => response.status() == 200 && response.into_body().collect().await.is_ok(),
        Err(_) => false,
    }
}
