//! Waits until an API server is ready, possibly before it is started.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::Args;
use http::Request;
use tokio::time::{Instant, sleep};
use windlass_api::BoxError;
use windlass_client::{Client, Config};

/// The flags of `windlass-bench ready`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server; the file need not exist yet
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The timeout, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// The first pause between two attempts. Later pauses are a hundredth of the elapsed time: this is precise for servers
/// that start fast, and does not load servers that start slowly.
const PAUSE: Duration = Duration::from_millis(1);
const SHARE: u32 = 100;

/// Prints a line when it starts to wait, and another when the server is ready.
pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    println!("waiting");
    let started = Instant::now();
    let ready = async {
        let mut client = None;
        while !asked(&mut client, &options.kubeconfig).await {
            sleep(PAUSE.max(started.elapsed() / SHARE)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(options.seconds), ready)
        .await
        .map_err(|_| "the server is not ready in time")?;
    println!("ready");
    Ok(())
}

/// Reports whether the server is ready. Creates the client when the kubeconfig exists.
async fn asked(client: &mut Option<Client>, kubeconfig: &PathBuf) -> bool {
    if client.is_none() {
        *client = Config::from_file(kubeconfig).ok().and_then(|config| Client::new(config).ok());
    }
    let (Some(client), Ok(request)) = (client, Request::get("/readyz").body(Bytes::new())) else { return false };
    client.request(request).await.is_ok_and(|response| response.status().is_success())
}
