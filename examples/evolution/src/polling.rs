//! The first: a loop that asks for everything.
//!
//! It is right, and needs no memory. What it costs does not depend on what happens, but on how much there is and how often it
//! asks; and each further controller asks for the pods again.

use std::time::Duration;

use windlass::{Client, ObjectExt as _, client::Result, k8s::core::v1::Pod};

use crate::work::{Asks, Difference};

/// How long a change may go unnoticed.
pub(crate) const PERIOD: Duration = Duration::from_secs(5);

/// Never ends but with an error.
pub(crate) async fn run<K: Asks>(client: &Client) -> Result<()> {
    loop {
        for asks in client.list::<K>().await? {
            // Those of a Deployment are found by its labels, in a request of their own.
            let labels = asks.template().metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
            let selector: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let namespace = asks.namespace().unwrap_or_default();
            let pods = client.list::<Pod>().within(namespace).labels(selector.join(",")).await?;
            Difference::of(&asks, pods).settle(client).await?;
        }
        tokio::time::sleep(PERIOD).await;
    }
}
