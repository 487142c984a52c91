//! The planted bug `missed-event`: children are deleted in response to the events of deleted websites.

use std::{convert::Infallible, time::Duration};

use futures::StreamExt as _;
use windlass_client::{Client, Result, WatchEvent};

use crate::{api::Website, children};

/// Follows the deletions of websites, and deletes their children.
pub(crate) async fn follow(client: Client) -> Infallible {
    loop {
        if let Err(error) = watch(&client).await {
            tracing::warn!(%error, "the watch of websites ended");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Lists websites, and watches them from there. A website that was deleted before the list is not missed in it.
async fn watch(client: &Client) -> Result<()> {
    let websites = client.list::<Website>().await?;
    let version = websites.metadata.resource_version.to_string();
    let mut events = client.watch::<Website>().resource_version(version).await?;
    while let Some(event) = events.next().await {
        if let WatchEvent::Deleted(website) = event?
            && let Err(error) = children::delete_all(&website, client).await
        {
            tracing::warn!(%error, "cannot delete the children of a website");
        }
    }
    Ok(())
}
