//! The run of a controller, from the creation of its queue to the end of its last worker.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};
use windlass_api::{ApiResource, Object};
use windlass_cache::{AddIndexError, InformerSet, Registrations, Stopped};
use windlass_queue::WorkQueue;

use super::{
    Controller, moves,
    worker::{Work, Worker},
};
use crate::{
    CachedClient, Error, Result, RunnableContext,
    console_data::ControllerEntry,
    controller_settings::Order,
    reconcile::{Shared, Stores},
    sharding::ShardGate,
    source::{Started, Target},
    write_attribution,
};

/// Runs a controller until shutdown.
pub(super) async fn run<K, R, W>(
    controller: Controller<K, R>,
    context: RunnableContext,
    work: impl FnOnce(InformerSet<K>, Duration, R) -> W,
) -> Result<()>
where
    K: Object,
    W: Work<K>,
{
    let name: Arc<str> = controller.display_name().into();
    let settings = context.overrides.apply(&name, context.defaults.resolve(&controller.options, &controller.root));
    let workers = settings.concurrency.get();

    let (leadership, shard) = controller.activation.resolve(&name, &context)?;
    let preparation = shard.prepare();

    // 1. Create the queue.
    let mut queue = WorkQueue::builder().name(&*name);
    if settings.order == Order::Priority {
        queue = queue.by_priority();
    }
    if let Some(limiter) = controller.limiter {
        queue = queue.rate_limiter(limiter);
    }
    if let Some(metrics) = context.reporter.metrics.controller(&name, workers) {
        queue = queue.metrics(metrics);
    }
    let queue = queue.build();
    let unfinished = queue.clone();
    context.reporter.metrics.queue(&name, Box::new(move || unfinished.unfinished_work()));
    let _guard =
        context.reporter.add_controller(|| ControllerEntry::new(&name, &controller.root, workers, queue.clone()));

    // 2. Start all sources before waiting for any of them, so that they list concurrently. Sources added later are not
    //    waited for.
    let target = Target {
        cluster: context.cluster().clone(),
        controller: Arc::clone(&name),
        queue: queue.clone(),
        reporter: context.reporter.clone(),
    };
    let mut stores = Stores::default();
    let started: Vec<_> = controller.sources.into_iter().map(|source| source.start(&target, &mut stores)).collect();

    let mut tasks = JoinSet::new();
    tasks.spawn(controller.additions.serve(target, settings.sync_timeout, context.clone()));

    // 3. Wait for the initial lists. A worker that starts earlier would treat objects that are not cached yet as
    //    missing, and might create them again.
    let Some(registrations) = sync(started, settings.sync_timeout, &context).await? else { return Ok(()) };

    drop(preparation);

    // 4. Start the workers when this process may act. With sharding, each key is checked.
    tokio::select! {
        biased;
        () = context.stop().requested() => {}
        () = leadership.acquired() => {
            tracing::info!(controller = &*name, workers, "caches are synced, starting workers");
        }
    }
    let informers = stores.informers::<K>(&controller.root);
    let informers = informers.expect("the root's source was started").clone();
    let mut client = write_attribution::reporting_client(context.cluster().client_for(&name), &context.reporter);
    if shard.is_shared() {
        client = client.with_gate(ShardGate::new(shard.clone()));
        tasks.spawn(moves::follow(shard.clone(), informers.store(), queue.clone(), Arc::clone(&name), context.clone()));
    }
    let worker = Arc::new(Worker {
        queue: queue.clone(),
        work: Arc::new(work(informers, context.cluster().own_writes_timeout(), controller.reconciler)),
        layers: controller.layers,
        timeout: settings.reconcile_timeout,
        shared: Arc::new(Shared {
            client: CachedClient::new(client, context.cluster().clone()),
            clock: context.cluster().clock().clone(),
            entropy: context.cluster().entropy().clone(),
            recorder: context.cluster().recorder(Arc::clone(&name)),
            controller: Arc::clone(&name),
            stores,
        }),
        reporter: context.reporter.clone(),
        leadership,
        shard,
        root: controller.root,
    });
    for mut keys in controller.triggers {
        let (queue, context) = (queue.clone(), context.clone());
        tasks.spawn(async move {
            let feed = async {
                while let Some(key) = keys.next().await {
                    queue.add(key);
                }
            };
            tokio::select! {
                () = context.stop().requested() => {}
                () = feed => {}
            }
        });
    }
    for _ in 0..workers {
        let (worker, context) = (Arc::clone(&worker), context.clone());
        tasks.spawn(async move { worker.run(context.stop()).await });
    }

    // 5. Stop: deliver no new events and add no new keys, then finish the running reconciles. The manager limits the
    //    time. Workers observe the stop themselves.
    context.stop().requested().await;
    for registration in &registrations {
        registration.shut_down().await;
    }
    queue.shut_down();
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    queue.shut_down_with_drain().await; // which is shut down already: waits for its timer task only
    tracing::info!(controller = &*name, "stopped");
    Ok(())
}

/// Waits for all sources. Returns `None` if a stop is requested meanwhile.
async fn sync(
    started: Vec<Started>,
    timeout: Duration,
    context: &RunnableContext,
) -> Result<Option<Vec<Arc<Registrations>>>> {
    let deadline = Instant::now() + timeout;
    let mut all = Vec::with_capacity(started.len());
    for source in started {
        let Started { resource, indexed, synced, registrations } = source;
        all.extend(registrations);
        let synced = tokio::select! {
            biased;
            () = context.stop().requested() => return Ok(None),
            synced = timeout_at(deadline, ready(&resource, indexed, synced)) => synced,
        };
        match synced {
            Ok(result) => result?,
            Err(_elapsed) => return Err(Error::SyncTimeout { resource: Box::new(resource), timeout }),
        }
    }
    Ok(Some(all))
}

/// Resolves when a source has added its indices and its initial list is in the queue.
pub(super) async fn ready(
    resource: &ApiResource,
    indexed: BoxFuture<'static, Result<(), AddIndexError>>,
    synced: BoxFuture<'static, Result<(), Stopped>>,
) -> Result<()> {
    indexed.await.map_err(|source| Error::Index { resource: Box::new(resource.clone()), source })?;
    synced.await.map_err(|_stopped| Error::CacheStopped { resource: Box::new(resource.clone()) })
}
