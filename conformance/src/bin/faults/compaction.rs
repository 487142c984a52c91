//! Compactions at the current revision, and the answers of the servers to requests for compacted revisions.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::{sleep, timeout};
use windlass_api::{Entropy, VersionMatch};
use windlass_client::{Client, Error};

use crate::{
    MEMBERS, NAMESPACE, Result,
    cluster::Endpoint,
    fault::index_below,
    follower::Follower,
    gateway,
    history::History,
    watching::{Received, Watching, listed, received},
};

/// The number of compactions in a round, and the bounds of the pause between them in milliseconds.
const COMPACTIONS: usize = 4;
const PAUSE: (u64, u64) = (200, 500);

/// The time for a request.
const LIMIT: Duration = Duration::from_secs(10);

/// Compacts etcd several times, while one of the watches is interrupted. Returns a description, and the violations.
pub(crate) async fn run(
    endpoints: &[Endpoint],
    history: &History,
    watches: &[&Watching],
    random: &Entropy,
) -> Result<(String, Vec<String>)> {
    let below = |bound| index_below(bound, random);
    let (mut expired, mut violations) = (0, Vec::new());
    for number in 0..COMPACTIONS {
        let before = history.reached();
        let interrupted = watches[below(watches.len())?];
        interrupted.pause();
        sleep(Duration::from_millis(PAUSE.0 + random.below(PAUSE.1 - PAUSE.0))).await;
        // The history here must be complete before it is compacted.
        let current = gateway::revision(below(MEMBERS)?).await?;
        history.until(current, LIMIT).await?;
        gateway::compact(below(MEMBERS)?, current, number % 2 == 0).await?;
        interrupted.resume();
        let client = endpoints[below(endpoints.len())?].client()?;
        for (revision, is_compacted) in [(before, true), (current, false)] {
            for answer in [watch(&client, revision, history).await, list(&client, revision, history).await] {
                match answer {
                    Ok(()) => {}
                    Err(Failure::Expired) if is_compacted => expired += 1,
                    Err(Failure::Expired) => {
                        violations.push(format!("410 for revision {revision}, which is not compacted"));
                    }
                    Err(Failure::Other(error)) => violations.push(error.to_string()),
                }
            }
        }
    }
    Ok((
        format!("{COMPACTIONS} times; {expired} of {} requests for older revisions expired", 2 * COMPACTIONS),
        violations,
    ))
}

enum Failure {
    Expired,
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if error.is_expired() { Self::Expired } else { Self::Other(error.into()) }
    }
}

/// Watches from a revision on, and checks the first event. A member that has not executed the compaction yet can serve
/// older revisions, too.
async fn watch(client: &Client, revision: u64, history: &History) -> Result<(), Failure> {
    let answer = timeout(LIMIT, async {
        let watch = client.watch::<ConfigMap>().within(NAMESPACE).resource_version(revision.to_string());
        let event = watch.await?.next().await;
        Ok::<_, Failure>(received(event.ok_or_else(|| other("the watch has ended"))??))
    });
    let event: Received = answer.await.map_err(|_| other(format!("no event after revision {revision}")))??;
    let reached = event.revision().unwrap_or(revision);
    history.until(reached, LIMIT).await.map_err(Failure::Other)?;
    history.read(|history| Follower::at(revision, history).accept(&event, history)).map_err(Failure::Other)
}

/// Lists the objects of a revision, and checks them.
async fn list(client: &Client, revision: u64, history: &History) -> Result<(), Failure> {
    let list = client.list::<ConfigMap>().within(NAMESPACE).resource_version(revision.to_string());
    let list = timeout(LIMIT, list.version_match(VersionMatch::Exact)).await;
    let list = list.map_err(|_| other(format!("no list of revision {revision}")))??;
    let (_, objects) = listed(&list).map_err(Failure::Other)?;
    history.read(|history| Follower::at(revision, history).expect(&objects)).map_err(Failure::Other)
}

fn other(message: impl Into<String>) -> Failure {
    Failure::Other(message.into().into())
}
