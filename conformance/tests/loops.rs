//! The control loop, step by step, with the same controllers and both servers.

mod deployment;
mod endpoints;
mod roles;
mod walkthrough;

use std::{collections::HashSet, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard, oneshot},
    task::JoinHandle,
};
use windlass_api::{ListWatch, ObjectExt};
use windlass_client::Client;
use windlass_controllers::Controllers;
use windlass_runtime::{Change, Manager, Outcome, ReconcileEvent};

use conformance::{Target, unique};

/// The number of simulated nodes, equal in all tests: nodes remain in the real cluster, and a pod may be scheduled on
/// any of them.
const NODES: usize = 2;

/// An observed step, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A change of an object (kind, name) was converted to a key of a controller.
    Enqueued { kind: String, name: String, change: Change, controller: String, key: String },
    /// A worker took a key.
    Started { controller: String, key: String },
    /// The reconcile succeeded.
    Succeeded { controller: String, key: String },
}

/// Two sets of the same controllers in one cluster would conflict, and the real cluster is shared.
static ONE_SET: AsyncMutex<()> = AsyncMutex::const_new(());

/// Observed controllers with one target.
struct Observed {
    _only: MutexGuard<'static, ()>,
    steps: Arc<Mutex<Vec<Step>>>,
    /// The watched resources.
    watched: Arc<Mutex<HashSet<String>>>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<windlass_runtime::Result<()>>,
}

impl Observed {
    /// Starts controllers. `prepare` can request caches from the manager.
    async fn start<T>(client: &Client, controllers: &Controllers, prepare: impl FnOnce(&Manager) -> T) -> (Self, T) {
        let only = ONE_SET.lock().await;
        let steps = Arc::new(Mutex::new(Vec::new()));
        let watched = Arc::new(Mutex::new(HashSet::new()));
        let source = {
            let (client, watched) = (client.clone(), watched.clone());
            move |resource: &windlass_api::ApiResource, namespace: Option<&str>| {
                watched.lock().insert(resource.plural.clone().into_owned());
                Arc::new(client.list_watch(resource, namespace)) as Arc<dyn ListWatch>
            }
        };
        let mut manager = Manager::builder(client.clone()).list_watch(source).build();
        let prepared = prepare(&manager);
        manager.on_reconcile({
            let steps = steps.clone();
            move |event: &ReconcileEvent<'_>| steps.lock().extend(step(event))
        });
        controllers.add_to(&mut manager);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(manager.run(async { drop(stopped.await) }));
        (Self { _only: only, steps, watched, stop, running }, prepared)
    }

    fn steps(&self) -> Vec<Step> {
        self.steps.lock().clone()
    }

    /// Returns the position of the first matching step at or after `from`.
    fn position(&self, from: usize, wanted: impl Fn(&Step) -> bool) -> Option<usize> {
        self.steps.lock().iter().skip(from).position(wanted).map(|at| at + from)
    }

    async fn stop(self) {
        drop(self.stop);
        self.running.await.expect("the manager does not panic").expect("no runnable fails");
    }
}

fn step(event: &ReconcileEvent<'_>) -> Option<Step> {
    Some(match event {
        ReconcileEvent::Triggered(trigger) => Step::Enqueued {
            kind: trigger.resource.kind.clone().into_owned(),
            name: trigger.object.name.to_string(),
            change: trigger.change,
            controller: trigger.controller.to_owned(),
            key: trigger.key.to_string(),
        },
        ReconcileEvent::Started(started) => {
            Step::Started { controller: started.controller.to_owned(), key: started.key.to_string() }
        }
        ReconcileEvent::Finished(finished) if matches!(finished.outcome, Outcome::Done(_)) => {
            Step::Succeeded { controller: finished.controller.to_owned(), key: finished.key.to_string() }
        }
        _ => return None,
    })
}

/// Creates a namespace for the test.
async fn namespace(target: &Target, prefix: &str) -> String {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(unique(prefix));
    let created = target.client.create(&namespace).await.expect("a namespace can be created");
    created.name().to_owned()
}
