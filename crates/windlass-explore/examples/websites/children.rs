//! The ConfigMaps of a website: the index, the pages and the key.

use std::{process, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_api::{ObjectBuilder as _, ObjectExt as _, ObjectRef};
use windlass_client::Client;
use windlass_runtime::{Context, Error, Result};

use crate::{api::Website, bug::Bug};

/// The label with the name of the website.
const WEBSITE: &str = "example.dev/website";
/// The label with the UID of the website. A website that was created again has another one.
const UID: &str = "example.dev/website-uid";
/// The label that tells index, pages and key apart.
const ROLE: &str = "example.dev/role";

/// Returns the namespace and the name of the website that a ConfigMap belongs to.
pub(crate) fn website_of(child: &ConfigMap) -> Option<ObjectRef<Website>> {
    let name = child.labels().get(WEBSITE)?;
    Some(ObjectRef::new(name.as_str()).within(child.namespace().unwrap_or_default()))
}

/// Creates the index, or updates its title and its theme.
pub(crate) async fn write_index(website: &Website, cx: &Context) -> Result<()> {
    let theme = website.spec.theme.clone().map(|theme| ("theme".to_owned(), theme));
    let data = [("title".to_owned(), website.spec.title.clone())].into_iter().chain(theme);
    let wanted = child(website, ConfigMap::named(format!("{}-index", website.name())), "index")
        .with(|index| index.data = Some(data.collect()));
    let index = match cx.live().get::<ConfigMap>(wanted.object_ref()).await {
        Ok(index) => index,
        Err(error) if error.is_not_found() => return create(&wanted, cx).await.map(drop),
        Err(error) => return Err(error.into()),
    };
    belongs_to(&index, website)?;
    let mut data = wanted.data.clone().unwrap_or_default();
    if Bug::is(Bug::StickyTheme)
        && let Some(theme) = index.data.as_ref().and_then(|data| data.get("theme"))
    {
        data.entry("theme".to_owned()).or_insert_with(|| theme.clone());
    }
    if index.data.as_ref() == Some(&data) || Bug::is(Bug::FirstIndex) {
        return Ok(());
    }
    let changed = if Bug::is(Bug::Overwrite) { wanted } else { index.with(|index| index.data = Some(data)) };
    cx.live().update(&changed).await?;
    Ok(())
}

/// Creates missing pages and deletes surplus ones.
pub(crate) async fn scale(website: &Website, cx: &Context) -> Result<()> {
    assert!(website.spec.replicas > 0 || !Bug::is(Bug::NoPages), "a website without pages");
    let wanted: Vec<String> = (0..website.spec.replicas).map(|number| page(website, number)).collect();
    let pages = of(website, Some("page"), cx.live()).await?;
    for name in &wanted {
        if !pages.iter().any(|page| page.name() == name) {
            create(&child(website, ConfigMap::named(name), "page"), cx).await?;
        }
    }
    for page in pages.iter().filter(|page| !wanted.iter().any(|name| name == page.name())) {
        delete_one(page, cx.live()).await?;
    }
    Ok(())
}

/// Returns the name of the key, which is created if there is none.
pub(crate) async fn key(website: &Website, cx: &Context) -> Result<String> {
    let known = match &website.status {
        status if Bug::is(Bug::CrashLeak) => status.as_ref().and_then(|status| status.key.clone()),
        _ => of(website, Some("key"), cx.live()).await?.first().map(|key| key.name().to_owned()),
    };
    if let Some(name) = known {
        return Ok(name);
    }
    let key = child(website, ConfigMap::with_generated_name(format!("{}-key-", website.name())), "key");
    Ok(create(&key, cx).await?.name().to_owned())
}

/// Deletes the children of a website that is being deleted.
pub(crate) async fn delete(website: Arc<Website>, cx: Context) -> Result<()> {
    if Bug::is(Bug::StaleDeletion) {
        return delete_by_name(&website, cx.live()).await;
    }
    delete_all(&website, cx.live()).await
}

/// Deletes the children of a website, and not those of another one with the same name.
pub(crate) async fn delete_all(website: &Website, client: &Client) -> Result<()> {
    for child in of(website, None, client).await? {
        delete_one(&child, client).await?;
    }
    Ok(())
}

/// Deletes children by name, which may belong to a newer website with the same name.
async fn delete_by_name(website: &Website, client: &Client) -> Result<()> {
    let status = website.status.clone().unwrap_or_default();
    let pages = (0..status.replicas).map(|number| page(website, number));
    for name in pages.chain([format!("{}-index", website.name())]).chain(status.key) {
        let key = ObjectRef::<ConfigMap>::new(name).within(website.namespace().unwrap_or_default());
        match client.delete(key).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

async fn delete_one(child: &ConfigMap, client: &Client) -> Result<()> {
    match client.delete::<ConfigMap>(child.object_ref()).uid(child.uid().unwrap_or_default()).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Lists the children of a website from the server.
async fn of(website: &Website, role: Option<&str>, client: &Client) -> Result<Vec<ConfigMap>> {
    let mut selector = format!("{UID}={}", website.uid().unwrap_or_default());
    if let Some(role) = role {
        selector = format!("{selector},{ROLE}={role}");
    }
    Ok(client.list::<ConfigMap>().within(website.namespace().unwrap_or_default()).labels(selector).await?.items)
}

async fn create(child: &ConfigMap, cx: &Context) -> Result<ConfigMap> {
    match cx.live().create(child).await {
        Err(error) if Bug::is(Bug::LostResponse) => {
            tracing::error!(%error, "cannot create a ConfigMap");
            process::exit(1)
        }
        created => Ok(created?),
    }
}

/// Fails for the child of another website with the same name: its finalizer has not finished.
fn belongs_to(child: &ConfigMap, website: &Website) -> Result<()> {
    if Bug::is(Bug::StaleDeletion) || child.labels().get(UID).map(String::as_str) == website.uid() {
        return Ok(());
    }
    Err(Error::other(format!("ConfigMap {} belongs to another website", child.name())))
}

fn page(website: &Website, number: usize) -> String {
    format!("{}-page-{number}", website.name())
}

fn child(website: &Website, child: ConfigMap, role: &str) -> ConfigMap {
    child
        .in_namespace(website.namespace().unwrap_or_default())
        .label(WEBSITE, website.name())
        .label(UID, website.uid().unwrap_or_default())
        .label(ROLE, role)
}
