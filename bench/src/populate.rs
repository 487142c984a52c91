//! Creates the custom resources of the controller benchmark.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use windlass_api::BoxError;
use windlass_client::{Client, Config};

use windlass_bench::widget::{Widget, definition, widget};

/// The flags of `windlass-bench populate`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The number of objects to create
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
}

/// The number of concurrent requests.
const WRITERS: usize = 16;

/// The maximum time until the server serves the new kind.
const SERVED_WITHIN: Duration = Duration::from_secs(10);

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let client = Client::new(Config::from_file(&options.kubeconfig)?)?.without_rate_limit();
    let definition: CustomResourceDefinition = serde_json::from_value(definition())?;
    client.create(&definition).await?;
    let served = async {
        while client.list::<Widget>().limit(1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SERVED_WITHIN, served)
        .await
        .map_err(|_| "the server does not serve the kind that it was told")?;
    let creates = stream::iter(0..options.objects).map(|at| {
        let client = client.clone();
        async move { client.create(&widget(at)).await.map(drop) }
    });
    creates.buffer_unordered(WRITERS).try_for_each(async |()| Ok(())).await?;
    Ok(())
}
