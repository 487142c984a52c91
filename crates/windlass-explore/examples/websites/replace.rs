//! A step that deletes a website and creates it again before anything settles.

use windlass_api::ObjectBuilder as _;
use windlass_client::{Client, Tolerate as _};
use windlass_runtime::{Error, Result};

use crate::api::{Website, WebsiteSpec};

/// Deletes the website, waits until it is gone, and creates it again.
pub(crate) async fn run(name: &str, pages: &str) -> Result<()> {
    let client = Client::try_default().await?;
    let pages = pages.parse().map_err(Error::other)?;
    client.delete::<Website>(name).await?;
    while client.get::<Website>(name).await.or_not_found()?.is_some() {
        tokio::task::yield_now().await;
    }
    let website = Website::named(name).with(|website| {
        website.spec = WebsiteSpec { title: "Again".to_owned(), replicas: pages, theme: None };
    });
    client.create(&website).await?;
    Ok(())
}
