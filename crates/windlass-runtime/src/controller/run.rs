//! The run of a controller, from the creation of its queue to the end of its last worker.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use windlass_api::{Object, ObjectRef};
use windlass_cache::{InformerSet, Registrations};
use windlass_client::Client;
use windlass_queue::{RateLimiter, WorkQueue};

use super::{
    Controller,
    worker::{Work, Worker},
};
#[cfg(feature = "console")]
use crate::console_data::ControllerEntry;
use crate::{
    CachedClient, Error, Result, RunnableContext, Shard,
    controller_settings::{Order, Settings},
    reconcile::{Shared, Stores},
    reporter::Reporter,
    source::{self, Started, Target},
    trigger_notes::TriggerNotes,
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
    #[cfg(feature = "sharding")]
    let preparation = shard.prepare();

    // 1. Create the queue.
    let queue = build_queue(&name, settings, controller.limiter, &context.reporter);
    #[cfg(feature = "console")]
    let _guard =
        context.reporter.add_controller(|| ControllerEntry::new(&name, &controller.root, workers, queue.clone()));

    // 2. Start all sources before waiting for any of them, so that they list concurrently. Sources added later are not
    //    waited for.
    let (mapper_context, notes) = (watch::Sender::new(None), TriggerNotes::default());
    let target = Target {
        cluster: context.cluster().clone(),
        controller: Arc::clone(&name),
        queue: queue.clone(),
        reporter: context.reporter.clone(),
        notes: notes.clone(),
        debounce: controller.options.debounce,
        mapper_context: mapper_context.subscribe(),
    };
    let mut stores = Stores::default();
    let mut started: Vec<_> = controller.sources.into_iter().map(|source| source.start(&target, &mut stores)).collect();

    // Tasks are boxed here and below: the executor's code is compiled once, not for each kind.
    let mut tasks = JoinSet::new();
    for mapping in started.iter_mut().filter_map(|source| source.mapping.take()) {
        tasks.spawn(until_stopped(context.clone(), mapping).boxed());
    }
    tasks.spawn(controller.additions.serve(target, settings.sync_timeout, context.clone()).boxed());

    // 3. Wait for the initial lists. A worker that starts earlier would treat objects that are not cached yet as
    //    missing, and might create them again.
    let Some(registrations) = sync(started, settings.sync_timeout, &context).await? else { return Ok(()) };

    #[cfg(feature = "sharding")]
    drop(preparation);

    let informers = stores.informers::<K>(&controller.root);
    let informers = informers.expect("the root's source was started").clone();
    let client =
        gated(write_attribution::reporting_client(context.cluster().client_for(&name), &context.reporter), &shard);
    let shared = Arc::new(Shared {
        client: CachedClient::new(client, context.cluster().clone()),
        clock: context.cluster().clock().clone(),
        entropy: context.cluster().entropy().clone(),
        recorder: context.cluster().recorder(Arc::clone(&name)),
        controller: Arc::clone(&name),
        stores,
    });
    // From here on, asynchronous mappers are called.
    mapper_context.send_replace(Some(Arc::clone(&shared)));

    // 4. Start the workers when this process may act. With sharding, each key is checked.
    tokio::select! {
        biased;
        () = context.stop().requested() => {}
        () = leadership.acquired() => {
            tracing::info!(controller = &*name, workers, "caches are synced, starting workers");
        }
    }
    #[cfg(feature = "sharding")]
    if shard.is_shared() {
        let (store, key_queue, context) = (informers.store(), queue.clone(), context.clone());
        tasks.spawn(super::moves::follow(shard.clone(), store, key_queue, Arc::clone(&name), context).boxed());
    }
    let worker = Arc::new(Worker {
        queue: queue.clone(),
        work: Arc::new(work(informers, context.cluster().own_writes_timeout(), controller.reconciler)),
        layers: controller.layers,
        timeout: settings.reconcile_timeout,
        shared,
        reporter: context.reporter.clone(),
        notes,
        leadership,
        shard,
        root: controller.root,
    });
    for mut keys in controller.triggers {
        let (queue, debounce) = (queue.clone(), controller.options.debounce);
        let feed = async move {
            while let Some(key) = keys.next().await {
                queue.add_after(key, debounce);
            }
        };
        tasks.spawn(until_stopped(context.clone(), feed.boxed()).boxed());
    }
    for _ in 0..workers {
        let (worker, context) = (Arc::clone(&worker), context.clone());
        tasks.spawn(async move { worker.run(context.stop()).await }.boxed());
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

/// Returns the client with the gate of the shard, if there is one.
#[cfg_attr(not(feature = "sharding"), expect(unused_variables, reason = "there are no shards"))]
fn gated(client: Client, shard: &Shard) -> Client {
    #[cfg(feature = "sharding")]
    if shard.is_shared() {
        return client.with_gate(crate::sharding::ShardGate::new(shard.clone()));
    }
    client
}

/// Runs a future until a stop is requested.
async fn until_stopped(context: RunnableContext, work: BoxFuture<'static, ()>) {
    tokio::select! {
        () = context.stop().requested() => {}
        () = work => {}
    }
}

/// Starts a queue with the settings of a controller.
fn build_queue<K: Object>(
    name: &str,
    settings: Settings,
    limiter: Option<Box<dyn RateLimiter<ObjectRef<K>>>>,
    reporter: &Reporter,
) -> WorkQueue<ObjectRef<K>> {
    let mut queue = WorkQueue::builder().name(name);
    if settings.order == Order::Priority {
        queue = queue.by_priority();
    }
    if let Some(limiter) = limiter {
        queue = queue.rate_limiter(limiter);
    }
    if let Some(metrics) = reporter.metrics.controller(name, settings.concurrency.get()) {
        queue = queue.metrics(metrics);
    }
    let queue = queue.build();
    let unfinished = queue.clone();
    reporter.metrics.queue(name, Box::new(move || unfinished.unfinished_work()));
    queue
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
        let Started { resource, indexed, synced, registrations, mapping: _ } = source;
        all.extend(registrations);
        let synced = tokio::select! {
            biased;
            () = context.stop().requested() => return Ok(None),
            synced = timeout_at(deadline, source::ready(&resource, indexed, synced)) => synced,
        };
        match synced {
            Ok(result) => result?,
            Err(_elapsed) => return Err(Error::SyncTimeout { resource: Box::new(resource), timeout }),
        }
    }
    Ok(Some(all))
}
