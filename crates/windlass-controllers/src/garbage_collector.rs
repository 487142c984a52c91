//! Garbage collector: deletes objects whose owners are gone, and completes foreground and orphaning deletions of
//! owners.
//!
//! Informers of all deletable resources feed a [`graph`] of owners and dependents. An object that may need a decision
//! becomes a work item. A worker reads the object and its owners from the server, computes the [`decision`] and carries
//! it out ([`collector`]).
//!
//! Guaranteed: the graph alone never causes a deletion. Before a decision, the object and its owners are read from the
//! server. The object is deleted only with the UID and in the state that were read. An owner in another namespace is
//! not an owner; an event reports it. Events are never touched.
//!
//! Not guaranteed: the foreground deletion of an owner waits only for dependents that the informers have shown by then,
//! and an orphaning deletion releases only those. A dependent that is created at the same moment may be missed. An
//! object whose owner's kind is not served is kept until that kind is served.

mod absent;
mod collector;
mod decision;
mod graph;
mod identity;
mod kinds;
mod monitors;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::sleep};
use windlass_queue::WorkQueue;
use windlass_runtime::{Group, Manager, Result, RunnableContext, Task};

use self::{
    collector::{Collector, Outcome},
    graph::Job,
    monitors::Monitors,
};

/// The controller's name and its field manager.
const NAME: &str = "garbagecollector";
/// The number of work items processed at the same time.
const WORKERS: usize = 8;
/// The interval of rediscovery, for resources that no CustomResourceDefinition announces.
const REDISCOVERY: Duration = Duration::from_secs(30);
/// The delays of rediscovery after a change of a CustomResourceDefinition: a server may serve the new kind a moment
/// after it reports the kind as established.
const AFTER_DEFINITION: [Duration; 3] = [Duration::from_millis(50), Duration::from_secs(1), Duration::from_secs(5)];

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    manager.add(Task::new(NAME, run).in_group(Group::Controllers));
}

async fn run(running: RunnableContext) -> Result<()> {
    let client = running.cluster().client().clone().with_field_owner(NAME);
    let recorder = running.cluster().recorder("garbage-collector-controller");
    let collector = Arc::new(Collector::new(client, WorkQueue::builder().name(NAME).build(), recorder));
    let mut monitors = Monitors::new(Arc::clone(&collector), running.cluster().entropy().clone());
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(Arc::clone(&collector), monitors.ready(), running.clone()));
    }

    let stop = running.stop();
    tokio::select! {
        () = stop.requested() => {}
        () = follow(&mut monitors) => {}
    }
    collector.queue().shut_down();
    monitors.stop().await;
    while let Some(ended) = workers.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    collector.queue().shut_down_with_drain().await; // already shut down: only waits for its timer task
    Ok(())
}

/// Keeps the informers in step with the served resources, without end.
async fn follow(monitors: &mut Monitors) {
    let definitions = monitors.definitions();
    let mut pauses = VecDeque::new();
    loop {
        monitors.update().await;
        let pause = pauses.pop_front().unwrap_or(REDISCOVERY);
        tokio::select! {
            () = definitions.notified() => {
                pauses = AFTER_DEFINITION.into();
                sleep(pauses.pop_front().unwrap_or_default()).await;
            }
            () = sleep(pause) => {}
        }
    }
}

/// Processes work items until shutdown.
async fn work(collector: Arc<Collector>, mut ready: watch::Receiver<bool>, running: RunnableContext) {
    let queue = collector.queue();
    loop {
        let job = tokio::select! {
            biased;
            () = running.stop().requested() => return,
            job = queue.get() => match job {
                Some(job) => job,
                None => return,
            },
        };
        tokio::select! {
            biased;
            () = running.stop().requested() => return,
            // The receiver fails when the monitors are gone, so the work ends.
            is_ready = ready.wait_for(|ready| *ready) => if is_ready.is_err() { return },
        }
        do_job(&collector, job).await;
    }
}

async fn do_job(collector: &Collector, job: Job) {
    let queue = collector.queue();
    match collector.process(&job).await {
        Ok(Outcome::Done) => queue.forget(&job),
        Ok(Outcome::Again) => queue.add_rate_limited(job.clone()),
        Err(error) => {
            tracing::debug!(?job, %error, cause = ?std::error::Error::source(&error), "work item failed; retrying");
            queue.add_rate_limited(job.clone());
        }
    }
    queue.done(&job);
}
