//! StorageVersionMigrator: rewrites the stored objects of a resource, so that they have the current storage version and
//! encryption key.
//!
//! Guaranteed: of each resource, at most one migration runs, the oldest first. A migration succeeds only after each
//! object that existed at its start was written or deleted since then. Its decisions are based on the server's state, not
//! on the cache. Not guaranteed: that the server stores an unchanged object again; it does so if the stored form differs.
//!
//! Kubernetes serves the API since 1.37. Until the server does, the controller only asks for it now and then.
//!
//! ```text
//! migration    the API type, and the next step of a migration
//! conditions   the conditions of a migration
//! definition   the status of the CustomResourceDefinition
//! objects      discovery, and the rewrite of the objects
//! ```

mod conditions;
mod definition;
mod migration;
mod objects;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::SignedDuration;
use tokio::{sync::Mutex, time::sleep};
use windlass_api::{Clock, GroupResource, ObjectExt, ObjectRef, Resource, ResourceVersion};
use windlass_cache::Cached;
use windlass_client::Client;
use windlass_runtime::{
    Action, Context, Controller, Group, Manager, Result, Runnable, RunnableContext, Task, Watch, shutdown::Stop,
};

use self::{
    migration::{Step, StorageVersionMigration},
    objects::{Rewrite, missing_verbs},
};
use crate::error::ReconcileError;

/// The controller's name.
const NAME: &str = "storageversionmigrator";
/// The number of migrations that run at the same time.
const WORKERS: usize = 5;
/// The interval between two checks whether the server serves the API.
const UNSERVED: Duration = Duration::from_secs(30);
/// The age of a migration at which a resource that is not served fails it.
const GRACE: SignedDuration = SignedDuration::from_mins(1);
/// The interval between two discoveries of a resource that is not served yet.
const REDISCOVERY: Duration = Duration::from_secs(10);

/// Adds the controller to a manager. It starts when the server serves the API.
pub(crate) fn add_to(manager: &mut Manager) {
    let start = async |running: RunnableContext| {
        tokio::select! {
            biased;
            () = running.stop().requested() => return Ok(()),
            () = until_served(running.cluster().client()) => {}
        }
        if let Err(error) = running.manager().add(controller(running.stop().clone())) {
            tracing::debug!(%error, "the manager stops before the controller starts");
        }
        // The controller stops its rewrites with this task, which therefore runs as long as the controller.
        running.stop().requested().await;
        Ok(())
    };
    manager.add(Task::new(format!("{NAME} start"), start).in_group(Group::Controllers));
}

async fn until_served(client: &Client) {
    let resource = StorageVersionMigration::api_resource().gvr();
    loop {
        match client.is_enabled(&resource).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::debug!(error = error.chain(), "cannot discover {resource}; retrying later"),
        }
        sleep(UNSERVED).await;
    }
}

fn controller(stop: Stop) -> impl Runnable {
    let promotion = Arc::new(Mutex::new(()));
    let migrations = Watch::<StorageVersionMigration>::all().filter_updates(changes_step);
    Controller::watching(migrations).named(NAME).concurrency(WORKERS).reconcile_keys(move |key, cx| {
        let (promotion, stop) = (Arc::clone(&promotion), stop.clone());
        async move {
            // A rewrite may take longer than the grace period. It can be interrupted at any request, and begins again.
            tokio::select! {
                biased;
                () = stop.requested() => Ok(Action::await_change()),
                outcome = reconcile(&key, &cx, &promotion) => outcome,
            }
        }
    })
}

/// Reports whether an update leads to another step. Transient errors only change the message of a condition; if they
/// counted, they would be retried without back-off.
fn changes_step(old: &Cached<StorageVersionMigration>, new: &Cached<StorageVersionMigration>) -> bool {
    match (old.get(), new.get()) {
        (Ok(old), Ok(new)) => old.uid() != new.uid() || old.step() != new.step(),
        _ => true,
    }
}

async fn reconcile(
    key: &ObjectRef<StorageVersionMigration>,
    cx: &Context,
    promotion: &Mutex<()>,
) -> Result<Action, ReconcileError> {
    // The cache may be stale, and a repeated rewrite is expensive. The role of the controller permits lists only.
    let fields = format!("metadata.name={}", key.name());
    let found = cx.live().list::<StorageVersionMigration>().fields(fields).await?;
    let Some(migration) = found.items.into_iter().next() else {
        return promote(cx, promotion).await;
    };
    match migration.step() {
        Step::Wait | Step::None => promote(cx, promotion).await,
        Step::RecordVersion => record_version(migration, cx).await,
        Step::Rewrite => rewrite(migration, cx).await,
        Step::Finish => finish(migration, cx).await,
    }
}

/// Starts the oldest waiting migration of each resource without a running one.
async fn promote(cx: &Context, promotion: &Mutex<()>) -> Result<Action, ReconcileError> {
    // Each change of a migration leads here after the cache shows it.
    let cached = cx.store::<StorageVersionMigration>().list();
    let cached = cached.iter().map(Cached::get).collect::<Result<Vec<_>, _>>()?;
    if !cached.iter().any(|migration| migration.step() == Step::Wait) {
        return Ok(Action::await_change());
    }
    // Two workers could start two migrations of the same resource.
    let _alone = promotion.lock().await;
    let mut failure = None;
    for migration in startable(cx.live().list::<StorageVersionMigration>().await?.items) {
        if let Err(error) = start(migration, cx).await {
            failure.get_or_insert(error);
        }
    }
    failure.map_or(Ok(Action::await_change()), Err)
}

/// Returns the oldest waiting migration of each resource without a running one. Migrations of the same age are ordered
/// by name.
fn startable(migrations: Vec<StorageVersionMigration>) -> Vec<StorageVersionMigration> {
    let mut by_resource: BTreeMap<GroupResource, Vec<StorageVersionMigration>> = BTreeMap::new();
    for migration in migrations {
        by_resource.entry(migration.spec.resource.clone()).or_default().push(migration);
    }
    let oldest = by_resource.into_values().filter_map(|migrations| {
        let is_busy = migrations.iter().any(|migration| !matches!(migration.step(), Step::Wait | Step::None));
        let waiting = migrations.into_iter().filter(|migration| !is_busy && migration.step() == Step::Wait);
        waiting.min_by(|a, b| a.created().cmp(&b.created()).then_with(|| a.name().cmp(b.name())))
    });
    oldest.collect()
}

async fn start(mut migration: StorageVersionMigration, cx: &Context) -> Result<(), ReconcileError> {
    let now = cx.clock().now();
    definition::begin(cx.live(), &migration.spec.resource, migration.name(), now).await?;
    conditions::start(&mut migration, cx.clock());
    cx.live().update_status(&migration).discard_response().await?;
    Ok(())
}

/// Records the current resource version of the resource. Objects up to this version are rewritten.
async fn record_version(mut migration: StorageVersionMigration, cx: &Context) -> Result<Action, ReconcileError> {
    let client = cx.live();
    let Some(found) = objects::discover(client, &migration.spec.resource).await? else {
        return not_served(migration, cx, |migration, clock| {
            conditions::fail(migration, "resource does not exist in discovery", clock);
        })
        .await;
    };
    let gvr = found.resource.gvr();
    if let Some(why) = missing_verbs(&found) {
        conditions::fail(&mut migration, &why, cx.clock());
        return write(&migration, cx).await;
    }
    let version = objects::current_version(client, &found.resource).await?;
    match version.compare(&version) {
        Ok(_) => version.as_str().clone_into(&mut migration.status.resource_version),
        Err(error) => {
            let why = format!("latest resourceVersion for {gvr} is not valid: {error}");
            conditions::fail(&mut migration, &why, cx.clock());
        }
    }
    write(&migration, cx).await
}

async fn rewrite(mut migration: StorageVersionMigration, cx: &Context) -> Result<Action, ReconcileError> {
    let (client, clock) = (cx.live(), cx.clock());
    let Some(found) = objects::discover(client, &migration.spec.resource).await? else {
        return not_served(migration, cx, |migration, clock| {
            conditions::fail_unhandled(migration, "unable to obtain GVR from discovery", clock);
        })
        .await;
    };
    let until = ResourceVersion::new(&migration.status.resource_version);
    let candidates = match objects::candidates(client, &found.resource, &until).await? {
        Ok(candidates) => candidates,
        Err(error) => {
            conditions::fail_unhandled(&mut migration, &error.to_string(), clock);
            return write(&migration, cx).await;
        }
    };
    let total = candidates.total;
    match objects::rewrite(client, &found.resource, candidates).await {
        Rewrite::Done => conditions::succeed(&mut migration, total, clock),
        Rewrite::Failed { left, error } => {
            conditions::fail_at(&mut migration, left, total, &objects::text(&error), clock);
        }
        Rewrite::Interrupted { left, error } => {
            conditions::report_transient(&mut migration, left, total, &objects::text(&error), clock);
            if let Err(error) = client.update_status(&migration).discard_response().await {
                tracing::debug!(error = error.chain(), "cannot report a transient error of the migration");
            }
            return Err(error.into());
        }
    }
    write(&migration, cx).await
}

/// Completes a migration that has succeeded or failed, so that the next one of the resource can start.
async fn finish(mut migration: StorageVersionMigration, cx: &Context) -> Result<Action, ReconcileError> {
    let now = cx.clock().now();
    definition::end(cx.live(), &migration.spec.resource, migration.has_succeeded(), now).await?;
    conditions::finish(&mut migration, cx.clock());
    write(&migration, cx).await
}

/// Retries discovery while the migration is young, because its resource may have just been created. Then fails it.
async fn not_served(
    mut migration: StorageVersionMigration,
    cx: &Context,
    fail: impl FnOnce(&mut StorageVersionMigration, &Clock),
) -> Result<Action, ReconcileError> {
    let age = cx.clock().now().duration_since(migration.created());
    if let Some(rest) = Duration::try_from(GRACE - age).ok().filter(|rest| !rest.is_zero()) {
        return Ok(Action::requeue_after(rest.min(REDISCOVERY)));
    }
    fail(&mut migration, cx.clock());
    write(&migration, cx).await
}

/// Writes the status. The resulting event triggers the next step.
async fn write(migration: &StorageVersionMigration, cx: &Context) -> Result<Action, ReconcileError> {
    cx.live().update_status(migration).discard_response().await?;
    Ok(Action::await_change())
}

#[cfg(test)]
mod tests;
