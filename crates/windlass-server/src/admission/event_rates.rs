//! The plugin `EventRateLimit`: limits the rate of events, for the server, a namespace, a user, or a source and its object.

use std::collections::{BTreeMap, HashMap};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{object::Tree, registry::Registry};

/// Rejects events above the limits.
#[derive(Debug)]
pub(crate) struct EventRates(Vec<(Limit, Mutex<Buckets>)>);

/// A limit of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) scope: Scope,
    /// Events per second.
    pub(super) qps: u32,
    pub(super) burst: u32,
    /// The maximum number of buckets.
    pub(super) cache_size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

/// The hash of a key. Keys of sources and objects are as long as the fields of an event.
type KeyHash = [u8; 32];

/// Token buckets, by key. The least recently used one is dropped.
#[derive(Debug, Default)]
struct Buckets {
    buckets: HashMap<KeyHash, Bucket>,
    uses: BTreeMap<u64, KeyHash>,
    counter: u64,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    used: u64,
}

impl Scope {
    pub(super) const ALL: [(&'static str, Self); 4] = [
        ("Server", Self::Server),
        ("Namespace", Self::Namespace),
        ("User", Self::User),
        ("SourceAndObject", Self::SourceAndObject),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, scope)| *scope == self).map_or("", |(name, _)| name)
    }

    fn key(self, write: &Attributes) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => write.namespace.clone(),
            Self::User => write.context.user.name.clone(),
            Self::SourceAndObject => {
                let source = ["component", "host"].map(|field| write.object.text(&["source", field]));
                let fields = ["kind", "namespace", "name", "uid", "apiVersion"];
                source.concat() + &fields.map(|field| write.object.text(&["involvedObject", field])).concat()
            }
        }
    }
}

impl EventRates {
    pub(super) fn new(limits: &[Limit]) -> Self {
        Self(limits.iter().map(|limit| (limit.clone(), Mutex::default())).collect())
    }
}

impl Buckets {
    /// Takes a token of a bucket. Returns `false` if there is none.
    fn take(&mut self, key: &str, limit: &Limit, now: Instant) -> bool {
        let key: KeyHash = Sha256::digest(key).into();
        self.counter += 1;
        let (burst, used) = (f64::from(limit.burst), self.counter);
        if let Some(bucket) = self.buckets.get_mut(&key) {
            self.uses.remove(&bucket.used);
            bucket.used = used;
            let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
            bucket.tokens = burst.min(bucket.tokens + elapsed * f64::from(limit.qps));
            bucket.filled = now;
        } else {
            if self.buckets.len() >= limit.cache_size
                && let Some((_, oldest)) = self.uses.pop_first()
            {
                self.buckets.remove(&oldest);
            }
            self.buckets.insert(key, Bucket { tokens: burst, filled: now, used });
        }
        self.uses.insert(used, key);
        let Some(bucket) = self.buckets.get_mut(&key).filter(|bucket| bucket.tokens >= 1.0) else { return false };
        bucket.tokens -= 1.0;
        true
    }
}

impl Admission for EventRates {
    fn handles(&self, write: &Attributes) -> bool {
        let events = write.resource.group.is_empty() && write.resource.kind == "Event";
        events && matches!(write.operation, Operation::Create | Operation::Update) && !write.is_dry_run()
    }

    fn validate<'a>(&'a self, _: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        let now = Instant::now();
        let mut problems = Vec::new();
        for (limit, buckets) in &self.0 {
            let key = limit.scope.key(write);
            if !buckets.lock().take(&key, limit, now) {
                problems.push(format!("limit reached on type {} for key {key}", limit.scope.name()));
            }
        }
        // An aggregate of errors contains each text once.
        let mut texts: Vec<String> = Vec::new();
        for problem in problems {
            if !texts.contains(&problem) {
                texts.push(problem);
            }
        }
        let text = match texts.as_slice() {
            [] => return Box::pin(std::future::ready(Ok(()))),
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let status =
            Status::failure(429, windlass_api::reason::TOO_MANY_REQUESTS, format!("Too many requests: {text}"));
        Box::pin(std::future::ready(Err(status)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limit(qps: u32, burst: u32, cache_size: usize) -> Limit {
        Limit { scope: Scope::Namespace, qps, burst, cache_size }
    }

    #[tokio::test(start_paused = true)]
    async fn bucket_is_refilled_up_to_its_burst() {
        let limit = limit(2, 3, 10);
        let mut buckets = Buckets::default();
        let mut take = |key: &str| buckets.take(key, &limit, Instant::now());
        assert_eq!([take("a"), take("a"), take("a"), take("a"), take("b")], [true, true, true, false, true]);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!([take("a"), take("a")], [true, false]);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!([take("a"), take("a"), take("a"), take("a")], [true, true, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn long_keys_are_stored_as_hashes() {
        let limit = limit(1, 1, 2);
        let mut buckets = Buckets::default();
        let [long, other] = ["a", "b"].map(|end| "k".repeat(1 << 20) + end);
        let mut take = |key: &str| buckets.take(key, &limit, Instant::now());
        assert_eq!([take(&long), take(&other), take(&long)], [true, true, false]);
        let stored = buckets.buckets.keys().chain(buckets.uses.values());
        assert_eq!(stored.map(size_of_val).collect::<Vec<_>>(), [32; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn least_recently_used_bucket_is_dropped() {
        let limit = limit(1, 1, 2);
        let mut buckets = Buckets::default();
        let mut take = |key: &str| buckets.take(key, &limit, Instant::now());
        assert_eq!([take("a"), take("b"), take("a"), take("c")], [true, true, false, true]);
        // The bucket of b is new again, that of c was dropped for it.
        assert_eq!([take("a"), take("b"), take("c")], [false, true, true]);
        assert_eq!((buckets.buckets.len(), buckets.uses.len()), (2, 2));
    }
}
