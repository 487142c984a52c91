//! The watches of the counted resources. They start when a quota first limits a resource, and end when none does.

use std::sync::Arc;

use futures::future::BoxFuture;
use hashbrown::HashMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::OnceCell, task::yield_now, time::Instant};
use windlass_api::{
    ApiResource, Clock, DynamicObject, Object, ObjectRef, PartialObject,
    quota::{Amounts, Evaluator, ScopeRequirement, add_amounts},
};
use windlass_cache::{Cached, Lister};
use windlass_client::Client;
use windlass_runtime::{Cluster, ControllerHandle, Predicate, Watch, WatchHandle};

use super::{REDISCOVERY, RESYNC};
use crate::error::ReconcileError;

/// The verbs that a counted resource must support.
const NEEDED: [&str; 4] = ["create", "delete", "list", "watch"];
/// The number of objects that are measured before other tasks run.
const OBJECTS_PER_TURN: usize = 100;

/// A served resource that quotas can limit.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    pub(super) evaluator: Evaluator,
    resource: ApiResource,
}

/// The running watches.
pub(super) struct Monitors {
    cluster: Cluster,
    handle: ControllerHandle<ResourceQuota>,
    /// The served resources, and the time of their discovery.
    known: tokio::sync::Mutex<Option<(Instant, Arc<[Counter]>)>>,
    watches: Mutex<HashMap<ApiResource, Arc<OnceCell<WatchHandle>>>>,
}

impl Monitors {
    pub(super) fn new(cluster: Cluster, handle: ControllerHandle<ResourceQuota>) -> Self {
        Self { cluster, handle, known: tokio::sync::Mutex::default(), watches: Mutex::default() }
    }

    /// Returns the resources that use the amounts with these names, and whether each amount belongs to one of them.
    pub(super) async fn counters(
        &self,
        client: &Client,
        names: &[&str],
    ) -> Result<(Vec<Counter>, bool), ReconcileError> {
        let mut known = self.known.lock().await;
        let is_complete = |counters: &[Counter]| {
            names.iter().all(|name| counters.iter().any(|counter| counter.evaluator.counts(name)))
        };
        let is_recent = known
            .as_ref()
            .is_some_and(|(at, counters)| at.elapsed() < if is_complete(counters) { RESYNC } else { REDISCOVERY });
        if !is_recent {
            *known = Some((Instant::now(), discover(client).await?));
        }
        let counters = known.as_ref().map(|(_, counters)| Arc::clone(counters)).unwrap_or_default();
        let used = counters.iter().filter(|counter| names.iter().any(|name| counter.evaluator.counts(name)));
        Ok((used.cloned().collect(), is_complete(&counters)))
    }

    /// Returns the usage of a resource in a namespace, by objects in all of the scopes.
    pub(super) async fn usage(
        &self,
        counter: &Counter,
        namespace: &str,
        scopes: &[ScopeRequirement],
        now: Timestamp,
    ) -> Result<Amounts, ReconcileError> {
        let cell = Arc::clone(self.watches.lock().entry(counter.resource.clone()).or_default());
        cell.get_or_try_init(|| self.visit(counter, Start)).await?;
        Ok(self.visit(counter, Measure { namespace, scopes, now }).await)
    }

    /// Ends the watches of resources that no quota limits.
    pub(super) async fn release(&self, quotas: &[Cached<ResourceQuota>]) {
        let Some((_, counters)) = self.known.lock().await.clone() else { return };
        let names: Vec<String> = quotas
            .iter()
            .filter_map(|quota| quota.get().ok())
            .flat_map(|quota| super::hard_of(&quota).keys().cloned().collect::<Vec<_>>())
            .collect();
        for counter in counters.iter() {
            if names.iter().any(|name| counter.evaluator.counts(name)) {
                continue;
            }
            let ended = {
                let mut watches = self.watches.lock();
                // A watch in use stays until the next quota is deleted.
                let is_idle = watches.get(&counter.resource).is_some_and(|watch| Arc::strong_count(watch) == 1);
                if is_idle { watches.remove(&counter.resource) } else { None }
            };
            if let Some(watch) = ended.and_then(Arc::into_inner).and_then(OnceCell::into_inner) {
                watch.remove().await;
                self.visit(counter, Forget).await;
            }
        }
    }

    /// Calls a visitor with the type in which the objects of a resource are cached. Pods, services and claims have
    /// their own types, whose caches other controllers share. Of other resources only metadata is cached.
    fn visit<'v, V: Visitor + 'v>(&'v self, counter: &'v Counter, visitor: V) -> BoxFuture<'v, V::Output> {
        let resource = &counter.resource;
        match (&*resource.group, &*resource.plural) {
            ("", "pods") => visitor.visit(self, counter, Watch::<Pod>::all()),
            ("", "services") => visitor.visit(self, counter, Watch::<Service>::all()),
            ("", "persistentvolumeclaims") => visitor.visit(self, counter, Watch::<PersistentVolumeClaim>::all()),
            ("resource.k8s.io", "resourceclaims") => {
                visitor.visit(self, counter, Watch::<DynamicObject>::dynamic(resource.clone()))
            }
            _ => visitor.visit(self, counter, Watch::<PartialObject>::dynamic(resource.clone())),
        }
    }
}

async fn discover(client: &Client) -> Result<Arc<[Counter]>, ReconcileError> {
    let discovery = client.discovery().await?;
    let resources = discovery.preferred_namespaced_resources();
    let resources = resources.filter(|found| NEEDED.iter().all(|verb| found.supports(verb)));
    let counters = resources.filter_map(|found| {
        let resource = found.resource.clone();
        Some(Counter { evaluator: Evaluator::of(&resource.group, &resource.plural)?, resource })
    });
    Ok(counters.collect())
}

/// An operation on the watch of a resource.
trait Visitor: Send {
    type Output;

    fn visit<'v, T: Object>(
        self,
        monitors: &'v Monitors,
        counter: &'v Counter,
        watch: Watch<T>,
    ) -> BoxFuture<'v, Self::Output>
    where
        Self: 'v;
}

/// Starts the watch and waits until its cache has synced.
struct Start;

impl Visitor for Start {
    type Output = Result<WatchHandle, ReconcileError>;

    fn visit<'v, T: Object>(
        self,
        monitors: &'v Monitors,
        counter: &'v Counter,
        watch: Watch<T>,
    ) -> BoxFuture<'v, Self::Output>
    where
        Self: 'v,
    {
        let quotas = monitors.cluster.informer(&Watch::<ResourceQuota>::all()).store();
        let changes = UsageChanges {
            evaluator: counter.evaluator.clone(),
            quotas: quotas.clone(),
            clock: monitors.cluster.clock().clone(),
        };
        let evaluator = counter.evaluator.clone();
        let affected = move |object: &Cached<T>| quotas_of(&quotas, &evaluator, object.key().namespace.as_deref());
        Box::pin(async move { Ok(monitors.handle.watches_with(watch.filter(changes), affected).await?) })
    }
}

/// Measures the objects in a namespace.
struct Measure<'m> {
    namespace: &'m str,
    scopes: &'m [ScopeRequirement],
    now: Timestamp,
}

impl Visitor for Measure<'_> {
    type Output = Amounts;

    fn visit<'v, T: Object>(
        self,
        monitors: &'v Monitors,
        counter: &'v Counter,
        watch: Watch<T>,
    ) -> BoxFuture<'v, Self::Output>
    where
        Self: 'v,
    {
        let objects = monitors.cluster.informer(&watch).store().within(self.namespace).list();
        Box::pin(async move {
            let mut total = Amounts::new();
            for (index, object) in objects.into_iter().enumerate() {
                if index % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
                    yield_now().await;
                }
                let usage = counter.evaluator.measure(&content(&object), self.now);
                if self.scopes.iter().all(|scope| usage.is_in(scope)) {
                    add_amounts(&mut total, &usage.amounts);
                }
            }
            total
        })
    }
}

/// Stops the cache of a watch that has ended, unless other controllers use it.
struct Forget;

impl Visitor for Forget {
    type Output = ();

    fn visit<'v, T: Object>(
        self,
        monitors: &'v Monitors,
        counter: &'v Counter,
        watch: Watch<T>,
    ) -> BoxFuture<'v, Self::Output>
    where
        Self: 'v,
    {
        let is_shared = counter.resource.group.is_empty()
            && matches!(&*counter.resource.plural, "pods" | "services" | "persistentvolumeclaims");
        Box::pin(async move {
            if !is_shared {
                monitors.cluster.forget(&watch).await;
            }
        })
    }
}

/// Returns the object as JSON.
fn content<T>(object: &Cached<T>) -> Value {
    // The cache has parsed the object before.
    serde_json::from_slice(&object.bytes()).unwrap_or_default()
}

/// Returns the quotas of a namespace that limit a resource.
fn quotas_of(
    quotas: &Lister<ResourceQuota>,
    evaluator: &Evaluator,
    namespace: Option<&str>,
) -> Vec<ObjectRef<ResourceQuota>> {
    let limits = |quota: &&Cached<ResourceQuota>| {
        quota.get().map_or(true, |quota| super::hard_of(&quota).keys().any(|name| evaluator.counts(name)))
    };
    let quotas = quotas.within(namespace.unwrap_or_default()).list();
    quotas.iter().filter(limits).map(Cached::object_ref).collect()
}

/// Selects the events that change the usage. The server has charged new objects already, except that a pod may have ended
/// before the cache shows it first.
struct UsageChanges {
    evaluator: Evaluator,
    quotas: Lister<ResourceQuota>,
    clock: Clock,
}

impl UsageChanges {
    fn quotas_of<T>(&self, object: &Cached<T>) -> Vec<ObjectRef<ResourceQuota>> {
        quotas_of(&self.quotas, &self.evaluator, object.key().namespace.as_deref())
    }
}

impl<T: Object> Predicate<T> for UsageChanges {
    fn added(&self, object: &Cached<T>) -> bool {
        if !self.evaluator.counts("pods") || self.quotas_of(object).is_empty() {
            return false;
        }
        let usage = self.evaluator.measure(&content(object), self.clock.now());
        !usage.amounts.contains_key("pods")
    }

    fn updated(&self, old: &Cached<T>, new: &Cached<T>) -> bool {
        if self.quotas_of(new).is_empty() {
            return false;
        }
        let now = self.clock.now();
        let usage = |object: &Cached<T>| self.evaluator.measure(&content(object), now);
        usage(old) != usage(new)
    }
}
