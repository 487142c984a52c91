//! Waiting until something holds: driven by watches, with a deadline, and failing with what was seen last.

use std::{fmt::Debug, future::Future, panic::Location, time::Duration};

use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::{error::Elapsed, timeout};
use windlass_api::{ErrorChain, Object, ObjectRef, Resource};
use windlass_client::{Client, Error, Result};

/// How long something may take, unless it is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something holds of objects, with a client.
///
/// Nothing is polled: each change of what is watched is looked at. States that lasted for a moment may be missed. Under a
/// paused clock, waiting ends as soon as nothing is left that could change anything.
///
/// The methods panic where the caller stands when what they wait for does not come true: with what was expected, and
/// the last state that was seen, without managedFields.
#[derive(Clone, Debug)]
#[must_use = "nothing is waited for before it is said what"]
pub struct Expectations {
    client: Client,
    patience: Duration,
}

impl Expectations {
    /// With this client, which may be of any cluster.
    pub const fn of(client: Client) -> Self {
        Self { client, patience: PATIENCE }
    }

    /// How long what is to happen may take, in tokio's time.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits until an object is there of which the condition holds, and gives it.
    #[track_caller]
    pub fn object<K: Resource>(
        self,
        key: impl Into<ObjectRef<K>>,
        condition: impl FnMut(&K) -> bool + Send,
    ) -> impl Future<Output = K> + Send {
        self.object_at(Location::caller(), key.into(), condition)
    }

    /// Waits until an object is not there.
    #[track_caller]
    pub fn gone<K: Resource>(self, key: impl Into<ObjectRef<K>>) -> impl Future<Output = ()> + Send {
        self.gone_at(Location::caller(), key.into())
    }

    /// Waits until something holds of all objects of a kind, in all namespaces, and gives them.
    #[track_caller]
    pub fn all<K: Resource>(self, condition: impl FnMut(&[K]) -> bool + Send) -> impl Future<Output = Vec<K>> + Send {
        self.all_at(Location::caller(), condition)
    }

    /// Looks on for as long as there is patience, and panics when something ceases to hold of an object meanwhile; `None`
    /// while it is not there.
    #[track_caller]
    pub fn always<K: Resource>(
        self,
        key: impl Into<ObjectRef<K>>,
        mut condition: impl FnMut(Option<&K>) -> bool + Send,
    ) -> impl Future<Output = ()> + Send {
        let (caller, key, patience) = (Location::caller(), key.into(), self.patience);
        let what = format!("{} {}", K::api_resource().kind, key.key());
        async move {
            let broken = self.client.wait_for::<K>(key).until(|found| !condition(found));
            match timeout(patience, broken).await {
                Err(_) => {}
                Ok(Ok(found)) => fail(caller, &format!("of {what} something ceased to hold"), &shown(found.as_ref())),
                Ok(Err(error)) => fail(caller, &format!("watching {what}"), &ErrorChain(&error).to_string()),
            }
        }
    }

    pub(crate) fn object_at<K: Resource>(
        self,
        caller: &'static Location<'static>,
        key: ObjectRef<K>,
        mut condition: impl FnMut(&K) -> bool + Send,
    ) -> impl Future<Output = K> + Send {
        let what = format!("{} {}", K::api_resource().kind, key.key());
        async move {
            let mut last = None;
            let found = self.client.wait_for::<K>(key).until(|found| {
                last = found.cloned();
                found.is_some_and(&mut condition)
            });
            match within(self.patience, found).await {
                Ok(Some(object)) => object,
                outcome => fail(caller, &unmet(&what, self.patience, outcome.err().flatten()), &shown(last.as_ref())),
            }
        }
    }

    pub(crate) fn gone_at<K: Resource>(
        self,
        caller: &'static Location<'static>,
        key: ObjectRef<K>,
    ) -> impl Future<Output = ()> + Send {
        let what = format!("{} {}, which was to go,", K::api_resource().kind, key.key());
        async move {
            let mut last: Option<K> = None;
            let gone = self.client.wait_for::<K>(key).until(|found| {
                last = found.cloned();
                found.is_none()
            });
            if let Err(error) = within(self.patience, gone).await {
                fail(caller, &unmet(&what, self.patience, error), &shown(last.as_ref()));
            }
        }
    }

    pub(crate) async fn all_at<K: Resource>(
        self,
        caller: &'static Location<'static>,
        mut condition: impl FnMut(&[K]) -> bool + Send,
    ) -> Vec<K> {
        let mut last = Vec::new();
        let found = async {
            loop {
                let list = self.client.list::<K>().await?;
                last = list.items;
                if condition(&last) {
                    return Ok(());
                }
                // Whatever happens next is a reason to look again.
                let version = list.metadata.resource_version;
                let mut events = self.client.watch::<K>().resource_version(version.as_str()).retrying();
                match events.next().await {
                    Some(Err(error)) if !error.is_expired() => return Err(error),
                    _ => {}
                }
            }
        };
        if let Err(error) = within(self.patience, found).await {
            let states: Vec<_> = last.iter().map(|object| shown(Some(object))).collect();
            let what = format!("all {}", K::api_resource().plural);
            fail(caller, &unmet(&what, self.patience, error), &format!("[{}]", states.join(",\n")));
        }
        last
    }
}

/// `Err(None)`: it took too long.
async fn within<T>(
    patience: Duration,
    found: impl Future<Output = Result<T>>,
) -> std::result::Result<T, Option<Error>> {
    timeout(patience, found).await.map_err(|_: Elapsed| None)?.map_err(Some)
}

fn unmet(what: &str, patience: Duration, error: Option<Error>) -> String {
    match error {
        None => format!("{what} did not come to be as expected within {patience:?}"),
        Some(error) => format!("waiting for {what} has failed: {}", ErrorChain(&error)),
    }
}

/// The state of an object, for people.
fn shown<K: Object>(object: Option<&K>) -> String {
    let Some(object) = object else { return "it is not there".to_owned() };
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    format!("{value:#}")
}

#[allow(clippy::panic, reason = "a test ends so, where it stands")]
fn fail(caller: &Location<'_>, what: &str, last: &str) -> ! {
    panic!("{caller}: {what}; last seen: {last}")
}
