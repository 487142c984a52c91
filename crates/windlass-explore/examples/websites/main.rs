//! An operator of websites, with and without bugs: the program that the tests of this crate explore.
//!
//! A `Website` has an index, a number of pages and a key, each in a ConfigMap. They have no owner references. A
//! finalizer deletes them, as for resources that the garbage collector does not know.
//!
//! ```text
//! windlass explore --crds crds --steps steps -- target/debug/examples/websites
//! ```
//!
//! `websites replace NAME PAGES` deletes a website and creates it again: a step, not the operator.
//!
//! The environment variable `BUG` plants a bug. Without it, the operator has no known bug: it uses its cache only to
//! learn that something may have changed, and decides by reads from the server.

mod api;
mod bug;
mod children;
mod deletions;
mod replace;

use std::{env, process::ExitCode, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass_api::{ErrorChain, ObjectExt as _};
use windlass_cache::{InformerOptions, InitialSync};
use windlass_runtime::{
    Action, Context, Controller, Manager, Result,
    finalizers::{Finalized, Finalizers},
    shutdown,
};

use crate::{
    api::{Website, WebsiteStatus},
    bug::Bug,
};

const FINALIZER: &str = "example.dev/pages";

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [command, name, pages] if command == "replace" => replace::run(name, pages).await,
        _ => run().await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %ErrorChain(&error), "the program failed");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let client = windlass_client::Client::try_default().await?;
    // Lists first, like most controllers written with client-go: a list from the server's cache may be stale.
    let caches = InformerOptions::default().initial_sync(InitialSync::List);
    let mut manager = Manager::builder(client.clone()).caches(caches).build();
    manager.add(Controller::<Website>::new().watches::<ConfigMap, _>(children::website_of).reconcile(reconcile));
    if Bug::is(Bug::MissedEvent) {
        tokio::spawn(deletions::follow(client));
    }
    manager.run(shutdown::signal()).await
}

async fn reconcile(cached: Arc<Website>, cx: Context) -> Result<Action> {
    let website = if Bug::is(Bug::StaleDeletion) { cached } else { current(&cached, &cx).await? };
    let Some(website) = finalized(website, &cx).await? else {
        return Ok(Action::await_change());
    };
    children::write_index(&website, &cx).await?;
    children::scale(&website, &cx).await?;
    let key = children::key(&website, &cx).await?;
    report(&website, key, &cx).await?;
    Ok(Action::await_change())
}

/// Reads the website from the server. It may be newer than the cached one, and even another one with the same name.
async fn current(cached: &Website, cx: &Context) -> Result<Arc<Website>> {
    Ok(Arc::new(cx.live().get::<Website>(cached.object_ref()).await?))
}

/// Returns a live website with its finalizer. Deletes the children of one that is being deleted.
async fn finalized(website: Arc<Website>, cx: &Context) -> Result<Option<Arc<Website>>> {
    if Bug::is(Bug::MissedEvent) {
        return Ok((!website.is_deleting()).then_some(website));
    }
    let finalizers = Finalizers::new().then(FINALIZER, children::delete);
    Ok(match finalizers.finalize(website, cx).await? {
        Finalized::Live(website) => Some(website),
        Finalized::CleanedUp => None,
    })
}

/// Writes the status if it has changed.
async fn report(website: &Website, key: String, cx: &Context) -> Result<()> {
    let status = WebsiteStatus { title: website.spec.title.clone(), replicas: website.spec.replicas, key: Some(key) };
    if website.status.as_ref() != Some(&status) {
        cx.live().update_status(&Website { status: Some(status), ..website.clone() }).await?;
    }
    Ok(())
}
