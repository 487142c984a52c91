//! The first program: a loop that lists everything.
//!
//! It is correct, and needs no memory. Its cost depends on the number of objects and the polling period, not on the
//! number of changes. Each further controller lists the pods again.

use std::time::Duration;

use windlass::{Client, ObjectExt as _, client::Result, k8s::core::v1::Pod};

use crate::work::{Difference, Workload};

/// The polling period: the maximum delay until a change is noticed.
pub(crate) const PERIOD: Duration = Duration::from_secs(5);

/// Runs until an error occurs.
pub(crate) async fn run<K: Workload>(client: &Client) -> Result<()> {
    loop {
        for workload in client.list::<K>().await? {
            // The pods of a workload are listed by its labels, in a separate request.
            let labels = workload.template().metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
            let selector: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let namespace = workload.namespace().unwrap_or_default();
            let pods = client.list::<Pod>().within(namespace).labels(selector.join(",")).await?;
            Difference::of(&workload, pods).settle(client).await?;
        }
        tokio::time::sleep(PERIOD).await;
    }
}
