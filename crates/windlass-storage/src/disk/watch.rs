//! A watch: first the history from disk, then the events of the writer.

use std::{collections::VecDeque, future::poll_fn, sync::Arc};

use futures::{Stream, stream};
use windlass_server::storage::{Delivery, Revision, StorageError, StorageEvent, StoredValue};

use super::{
    Hold, Shared,
    view::{Commit, Part, Version},
    watcher::{End, Watcher},
};

/// The part of the history that a watch reads at a time.
const REPLAYED: Part = Part { commits: 4096, bytes: 1 << 20 };

/// A registered watch. It is unregistered on drop.
struct Registered {
    shared: std::sync::Weak<Shared>,
    watcher: Arc<Watcher>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.view.write().unregister(&self.watcher);
        }
    }
}

struct Watch {
    registered: Registered,
    /// The history that is left: its first commits are held.
    replay: Option<Replay>,
    ready: VecDeque<StorageEvent>,
    delivered: Revision,
}

struct Replay {
    hold: Hold,
    upto: Revision,
}

/// Starts a watch. Reads the first part of the history, so that the stream is ready if there is any.
pub(super) async fn start(
    shared: &Arc<Shared>,
    prefix: &str,
    after: Revision,
) -> Result<impl Stream<Item = Result<Delivery, StorageError>> + use<>, StorageError> {
    let watcher = Arc::new(Watcher::new(prefix, after));
    let upto = {
        let mut view = shared.view.write();
        let upto = view.register(&watcher)?;
        if after < upto {
            view.hold(after);
        }
        upto
    };
    let replay = (after < upto).then(|| Replay { hold: Hold::taken(shared, after), upto });
    let registered = Registered { shared: Arc::downgrade(shared), watcher };
    let mut watch = Watch { registered, replay, ready: VecDeque::new(), delivered: after };
    if let Some(replay) = watch.replay.take() {
        watch.read(shared, replay).await?;
    }
    Ok(stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(Some(event)) => Some((Ok(Delivery::complete(event)), Some(watch))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }))
}

impl Watch {
    async fn next(&mut self) -> Result<Option<StorageEvent>, StorageError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.delivered = event.revision;
                return Ok(Some(event));
            }
            let Some(replay) = self.replay.take() else { break };
            let Some(shared) = self.registered.shared.upgrade() else { return Ok(None) };
            self.read(&shared, replay).await?;
        }
        match poll_fn(|cx| self.registered.watcher.poll_next(cx)).await {
            Ok(event) => {
                self.delivered = event.revision;
                Ok(Some(event))
            }
            Err(End::Lagged) => Err(StorageError::Lagged { after: self.delivered }),
            Err(End::Closed) => Ok(None),
        }
    }

    /// Reads the next part of the history.
    async fn read(&mut self, shared: &Arc<Shared>, replay: Replay) -> Result<(), StorageError> {
        let Replay { hold, upto } = replay;
        let prefix = self.registered.watcher.prefix();
        let (commits, last) = {
            let view = shared.view.read();
            view.check_hold(hold.revision())?;
            view.replay(prefix, hold.revision(), upto, REPLAYED)
        };
        let mut revisions = Vec::new();
        for Commit { version, previous, .. } in &commits {
            revisions.extend(previous.map(|previous| previous.revision));
            revisions.extend(version.created.map(|_| version.revision));
        }
        let mut bodies = shared.bodies.get_all(&revisions).await?.into_iter();
        for Commit { key, version, previous } in commits {
            let mut value = |version: Version| {
                let created = version.created?;
                let body = bodies.next()?;
                Some(StoredValue { key: Arc::clone(&key), body, created, modified: version.revision, is_stale: false })
            };
            let previous = previous.and_then(&mut value);
            let current = value(version);
            self.ready.push_back(StorageEvent { revision: version.revision, key, current, previous });
        }
        if last < upto {
            let hold = hold.advance(last);
            self.replay = Some(Replay { hold, upto });
        }
        Ok(())
    }
}
