//! Asynchronous mappers: functions from a change to keys that may wait and read caches.
//!
//! # Guarantees
//!
//! - A mapper first runs when all caches of its controller have synced, so an index that it reads is complete.
//! - At most [`CALLS`] calls of one watch run at the same time, each for at most [`TIME_LIMIT`]. Neither the informer
//!   nor its other handlers wait for them.
//! - A call that fails or exceeds the limit is made [`ATTEMPTS`] times, with back-off. A panic is contained.
//!
//! # Not guaranteed
//!
//! - An order: the calls for two changes of one object may overlap.
//! - A change whose mapper fails in all attempts, or panics, leads to no keys. Both are logged.
//! - A bound of the changes that wait: a mapper that is permanently slower than the changes fills the memory.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use windlass_api::{Backoff, BoxError, ErrorChain, Object, ObjectRef};
use windlass_cache::Notification;

use crate::{Context, error::panic_message, key_sink::KeySink, reconcile::Shared};

/// The maximum number of concurrent calls of a mapper.
pub(crate) const CALLS: usize = 8;
/// The time limit of a call.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The maximum number of attempts to map a change.
pub(crate) const ATTEMPTS: u32 = 5;
/// The delays between the attempts.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1)).factor(2.0).jitter(0.1);

/// An asynchronous mapper, and the code that calls it.
pub(crate) struct AsyncMapper<T: Object, K> {
    map: MapFn<T, K>,
    /// [`Mapping::run`], which is compiled only for the types that have an asynchronous mapper.
    run: fn(Mapping<T, K>) -> BoxFuture<'static, ()>,
}

/// Returns the keys for a change.
type MapFn<T, K> =
    Arc<dyn Fn(Notification<T>, Context) -> BoxFuture<'static, Result<Vec<ObjectRef<K>>, BoxError>> + Send + Sync>;

/// The part of a mapper's context that all calls share. `None` until the caches of the controller have synced.
pub(crate) type MapperContext = watch::Receiver<Option<Arc<Shared>>>;

/// The queue of changes before a mapper, and its calls.
struct Mapping<T: Object, K> {
    map: MapFn<T, K>,
    changes: mpsc::UnboundedReceiver<Notification<T>>,
    context: MapperContext,
    keys: KeySink<K>,
}

/// Returns a mapper that calls a function with the change and a context.
pub(crate) fn enqueue_mapped_async<T, K, F, I, E>(
    map: impl Fn(Notification<T>, Context) -> F + Send + Sync + 'static,
) -> AsyncMapper<T, K>
where
    T: Object,
    K: Object,
    F: Future<Output = Result<I, E>> + Send + 'static,
    I: IntoIterator<Item = ObjectRef<K>>,
    E: Into<BoxError>,
{
    let map: MapFn<T, K> = Arc::new(move |change, cx| {
        let keys = |result: Result<I, E>| result.map(|keys| keys.into_iter().collect()).map_err(Into::into);
        map(change, cx).map(keys).boxed()
    });
    AsyncMapper { map, run: |mapping| mapping.run().boxed() }
}

impl<T: Object, K> AsyncMapper<T, K> {
    /// Returns a future that maps changes until their sender is dropped. Dropping the future cancels the running calls.
    pub(crate) fn run(
        self,
        changes: mpsc::UnboundedReceiver<Notification<T>>,
        context: MapperContext,
        keys: KeySink<K>,
    ) -> BoxFuture<'static, ()> {
        (self.run)(Mapping { map: self.map, changes, context, keys })
    }
}

impl<T: Object, K: Object> Mapping<T, K> {
    async fn run(self) {
        let Self { map, changes, mut context, keys } = self;
        let shared = match context.wait_for(Option::is_some).await {
            Ok(shared) => shared.clone(),
            Err(_ended) => None,
        };
        let Some(shared) = shared else { return };
        let changes = stream::unfold(changes, |mut changes| async { Some((changes.recv().await?, changes)) });
        let (map, shared, keys) = (&map, &shared, &keys);
        let mapped = |change| async move {
            if let Some(mapped) = call(map, &change, shared).await {
                keys.add(&change, mapped);
            }
        };
        changes.for_each_concurrent(CALLS, mapped).await;
    }
}

/// Calls a mapper, up to [`ATTEMPTS`] times. Returns `None` if no attempt succeeds.
async fn call<T: Object, K>(
    map: &MapFn<T, K>,
    change: &Notification<T>,
    shared: &Arc<Shared>,
) -> Option<Vec<ObjectRef<K>>> {
    let (controller, object) = (&*shared.controller, change.key());
    let mut delays = BACKOFF.delays(&shared.entropy);
    for attempt in 1..=ATTEMPTS {
        let id: Arc<str> = shared.entropy.uuid().into();
        let cx = Context::new(Arc::clone(shared), id);
        // The mapper itself may panic as well as its future.
        let call = async { map(change.clone(), cx).await };
        match timeout(TIME_LIMIT, AssertUnwindSafe(call).catch_unwind()).await {
            Ok(Ok(Ok(keys))) => return Some(keys),
            Ok(Ok(Err(error))) => {
                let error = ErrorChain(&*error);
                tracing::warn!(controller, %object, attempt, %error, "cannot map a change to keys");
            }
            Ok(Err(panic)) => {
                tracing::error!(controller, %object, panic = panic_message(&*panic), "a mapper panicked");
                return None;
            }
            Err(_elapsed) => {
                tracing::warn!(controller, %object, attempt, limit = ?TIME_LIMIT, "a mapper took too long");
            }
        }
        if attempt < ATTEMPTS {
            sleep(delays.next_delay()).await;
        }
    }
    tracing::error!(controller, %object, "gave up mapping a change to keys");
    None
}
