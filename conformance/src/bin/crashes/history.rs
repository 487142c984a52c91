//! Lists and watches of older versions, after a start.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::timeout;
use windlass_api::{Entropy, ObjectExt as _, VersionMatch};
use windlass_client::{Client, Error};

use crate::{
    Result,
    watch::{Change, change},
    writer::{NAMESPACE, PREFIX, state},
};

/// The time after which an event is missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of versions that are checked after each start, and the number of last changes from which most are chosen.
const VERSIONS: usize = 4;
const RECENT: usize = 1_000;

/// The results of all checks.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The number of versions that were listed, and from which a watch continued.
    pub(crate) versions: usize,
    /// The number of versions that the server had compacted.
    pub(crate) compacted: usize,
}

impl Checked {
    /// Lists the state at random versions, and watches from there to the last change. The server may have compacted
    /// versions up to `compacted`.
    pub(crate) async fn check(
        &mut self,
        client: &Client,
        changes: &[Change],
        compacted: u64,
        random: &Entropy,
    ) -> Result {
        if changes.is_empty() {
            return Ok(());
        }
        let recent = changes.len().saturating_sub(RECENT);
        for _ in 0..VERSIONS {
            let length = u64::try_from(changes.len() - recent)?;
            self.check_at(client, changes, recent + usize::try_from(random.below(length))?, compacted).await?;
        }
        // Any version, sometimes: the watch repeats everything after it.
        if random.below(10) == 0 {
            let at = usize::try_from(random.below(u64::try_from(changes.len())?))?;
            self.check_at(client, changes, at, compacted).await?;
        }
        Ok(())
    }

    async fn check_at(&mut self, client: &Client, changes: &[Change], at: usize, compacted: u64) -> Result {
        let version = changes[at].version;
        let found = match read(client, version, changes.len() - at - 1).await {
            Ok(found) => found,
            Err(Failure::Client(error)) if error.is_expired() && version <= compacted => {
                self.compacted += 1;
                return Ok(());
            }
            Err(Failure::Client(error)) => return Err(format!("reading version {version}: {error}").into()),
            Err(Failure::Other(error)) => return Err(format!("reading version {version}: {error}").into()),
        };
        let mut expected = BTreeMap::new();
        for change in &changes[..=at] {
            match change.state {
                Some(state) => expected.insert(change.name.clone(), state),
                None => expected.remove(&change.name),
            };
        }
        if found.state != expected {
            return Err(format!("the list of version {version} has {:?}, expected {expected:?}", found.state).into());
        }
        if found.changes != changes[at + 1..] {
            let differs = found.changes.iter().zip(&changes[at + 1..]).find(|(found, expected)| found != expected);
            return Err(format!("the watch after version {version} differs: {differs:?}").into());
        }
        self.versions += 1;
        Ok(())
    }
}

/// The history from one version on.
struct Found {
    state: BTreeMap<String, u64>,
    changes: Vec<Change>,
}

enum Failure {
    Client(Error),
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

/// Reads the state of a version, and a number of changes after it.
async fn read(client: &Client, version: u64, count: usize) -> Result<Found, Failure> {
    let text = version.to_string();
    let list = client.list::<ConfigMap>().within(NAMESPACE).resource_version(&*text);
    let list = list.version_match(VersionMatch::Exact).await?;
    let ours = list.items.iter().filter(|object| object.name().starts_with(PREFIX));
    let states = ours.map(|object| Ok((object.name().to_owned(), state(object)?)));
    let state = states.collect::<Result<_>>().map_err(Failure::Other)?;
    let mut events = client.watch::<ConfigMap>().within(NAMESPACE).resource_version(&*text).await?;
    let mut changes = Vec::new();
    while changes.len() < count {
        let missing = || Failure::Other(format!("{} of {count} changes are missing", count - changes.len()).into());
        let event = timeout(PATIENCE, events.next()).await.ok().flatten().ok_or_else(missing)??;
        let found = change(event).transpose().map_err(Failure::Other)?;
        changes.extend(found.filter(|change| change.name.starts_with(PREFIX)));
    }
    Ok(Found { state, changes })
}
