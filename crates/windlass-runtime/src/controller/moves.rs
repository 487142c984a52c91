//! Moves of keys between this process and other replicas.

use std::sync::Arc;

use windlass_api::{Object, ObjectRef};
use windlass_cache::Lister;
use windlass_queue::{AddOptions, LOW_PRIORITY, WorkQueue};

use crate::{Shard, runnable::RunnableContext, sharding::Point};

/// Enqueues the keys that this process gains while the controller runs. Keys that it loses are dropped when a worker
/// takes them.
pub(super) async fn follow<K: Object>(
    shard: Shard,
    store: Lister<K>,
    queue: WorkQueue<ObjectRef<K>>,
    controller: Arc<str>,
    context: RunnableContext,
) {
    let mut moves = shard.moves();
    loop {
        let moved = tokio::select! {
            biased;
            () = context.stop().requested() => return,
            moved = moves.next() => moved,
        };
        let (mut gained, mut lost, mut owned) = (0, 0, 0);
        for object in store.list() {
            let point = Point::of(store.resource(), object.key());
            lost += usize::from(moved.loses(point));
            owned += usize::from(moved.owns(point));
            if moved.gains(point) {
                gained += 1;
                queue.add_with(object.key().clone().into(), AddOptions::new().priority(LOW_PRIORITY));
            }
        }
        tracing::debug!(controller = &*controller, gained, lost, owned, "keys have moved");
        shard.count_move(&controller, gained, lost, owned);
    }
}
