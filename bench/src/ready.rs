//! Waits for an API server, which may not have been started yet, to say that it is ready.

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
    /// The server's; it may not be there yet
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// How long to wait
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// The first pause between two attempts. Later ones are a hundredth of the time that has passed: who starts fast is measured
/// closely, and who does not is not kept busy with being asked.
const PAUSE: Duration = Duration::from_millis(1);
const SHARE: u32 = 100;

/// Prints a line when it waits, and another when the server is ready.
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

/// Whether it is there and says that it is ready. Makes the client once that is possible.
async fn asked(client: &mut Option<Client>, kubeconfig: &PathBuf) -> bool {
    if client.is_none() {
        *client = Config::from_file(kubeconfig).ok().and_then(|config| Client::new(config).ok());
    }
    let (Some(client), Ok(request)) = (client, Request::get("/readyz").body(Bytes::new())) else { return false };
    client.request(request).await.is_ok_and(|response| response.status().is_success())
}
