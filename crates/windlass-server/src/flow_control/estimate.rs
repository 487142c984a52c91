//! The estimated work of a request, by the rules of kube-apiserver: lists by the size of their objects, writes by the
//! number of watches that receive their events.

use std::time::Duration;

use hashbrown::{Equivalent, HashMap};
use parking_lot::RwLock;

use super::{level::Level, watch_counts::WatchCounts, work::Work};
use crate::request::{Query, RequestInfo, ResourcePath};

/// The number of bytes of a list per seat.
const BYTES_PER_SEAT: u64 = 100_000;

/// The maximum number of bytes of a list from the cache that are in memory at the same time.
const MAX_CACHED_BYTES: u64 = 1_000_000;

/// The maximum numbers of seats for a list and for a write.
const MAX_LIST_SEATS: u32 = 100;
const MAX_WRITE_SEATS: u32 = 10;

/// The number of watches that occupy a seat after a write, and the time for which they do.
const WATCHES_PER_SEAT: usize = 10;
const EVENT_LATENCY: Duration = Duration::from_millis(5);

/// The number and the size of the objects of each resource, as of the last list that read its first ones.
///
/// kube-apiserver counts the objects in its storage each minute.
#[derive(Debug, Default)]
pub(crate) struct ObjectCounts(RwLock<HashMap<OwnedName, ObjectCount>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ObjectCount {
    count: u64,
    average_size: u64,
}

/// The group and the plural of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name<'a>(&'a str, &'a str);

#[derive(Debug, PartialEq, Eq, Hash)]
struct OwnedName(String, String);

impl Equivalent<OwnedName> for Name<'_> {
    fn equivalent(&self, owned: &OwnedName) -> bool {
        self.0 == owned.0 && self.1 == owned.1
    }
}

impl ObjectCounts {
    /// Records a list: the number of all objects, and the number and the bytes of those that were read. A list of one
    /// namespace can only increase the number.
    pub(crate) fn record(&self, path: &ResourcePath, count: u64, listed: u64, bytes: u64) {
        let name = Name(&path.group, &path.resource);
        let known = self.0.read().get(&name).copied();
        let is_whole = path.namespace.is_none();
        let average_size = bytes.checked_div(listed).unwrap_or_else(|| known.unwrap_or_default().average_size);
        let new = ObjectCount { count, average_size };
        let is_kept = |known: ObjectCount| known == new || !is_whole && known.count >= count;
        if !known.is_some_and(is_kept) {
            self.0.write().insert(OwnedName(path.group.clone(), path.resource.clone()), new);
        }
    }

    fn get(&self, path: &ResourcePath) -> Option<ObjectCount> {
        self.0.read().get(&Name(&path.group, &path.resource)).copied()
    }
}

/// The state by which work is estimated.
pub(super) struct Estimator<'e> {
    pub(super) objects: &'e ObjectCounts,
    pub(super) watches: &'e WatchCounts,
}

impl Estimator<'_> {
    /// Estimates the work of a request. Returns the number of interested watches, too, if it is a write.
    pub(super) fn estimate(&self, info: &RequestInfo, query: &Query, level: &Level) -> (Work, Option<usize>) {
        let Some(path) = &info.resource else { return (Work::ONE, None) };
        match &*info.verb {
            "list" | "watch" => {
                let seats = self.list_seats(path, &info.verb, query, level.max_seats(MAX_LIST_SEATS));
                (Work { initial: seats, ..Work::ONE }, None)
            }
            "create" | "update" | "patch" | "delete" => {
                // A token has no events.
                if path.resource == "serviceaccounts" && path.subresource == "token" {
                    return (Work::ONE, None);
                }
                let watches = self.watches.interested(path);
                (write_work(watches, level.max_seats(MAX_WRITE_SEATS)), Some(watches))
            }
            _ => (Work::ONE, None),
        }
    }

    fn list_seats(&self, path: &ResourcePath, verb: &str, query: &Query, max: u32) -> u32 {
        // A request with invalid parameters will fail.
        let Ok(limit) = query.integer("limit") else { return max };
        let version = query.text("resourceVersion").unwrap_or_default();
        let is_watch = verb == "watch";
        if is_watch && !query.boolean("sendInitialEvents") && !matches!(version, "" | "0") {
            return 1;
        }
        let Some(ObjectCount { count, average_size }) = self.objects.get(path) else { return 1 };
        let limit = limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
        let is_exact = query.text("resourceVersionMatch") == Some("Exact")
            || query.text("resourceVersionMatch").is_none() && limit.is_some() && !matches!(version, "" | "0");
        let is_cached = is_watch || !is_exact && query.text("continue").is_none();
        let listed = limit.map_or(count, |limit| limit.min(count));
        let has_selector = query.text("labelSelector").is_some() || query.text("fieldSelector").is_some();
        let loaded = match () {
            () if !path.requested_name().is_empty() => 1,
            () if !is_cached && has_selector => listed.max(count / 2),
            () => listed,
        };
        let mut bytes = loaded.saturating_mul(average_size);
        if is_cached {
            bytes = bytes.min(MAX_CACHED_BYTES);
        }
        u32::try_from(bytes.div_ceil(BYTES_PER_SEAT)).unwrap_or(max).min(max).max(1)
    }
}

/// Returns the work of a write whose event is sent to this number of watches.
fn write_work(watches: usize, max: u32) -> Work {
    if watches < WATCHES_PER_SEAT {
        return Work::ONE;
    }
    let last = u32::try_from(watches.div_ceil(WATCHES_PER_SEAT)).unwrap_or(u32::MAX);
    let mut work = Work { initial: 1, last, latency: EVENT_LATENCY };
    work.limit_last(max);
    work
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::flow_control::level::LevelSpec;

    fn request(target: &str) -> (RequestInfo, Query) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = Query::parse(query);
        (RequestInfo::new(&Method::GET, path, &query).unwrap(), query)
    }

    fn level() -> Level {
        let spec = serde_json::json!({"metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": {
            "limitResponse": {"type": "Reject"}}}});
        Level::new(LevelSpec::read(&spec).unwrap(), tokio::time::Instant::now())
    }

    #[test]
    fn lists_occupy_seats_by_the_size_of_their_objects() {
        let (objects, watches) = (ObjectCounts::default(), WatchCounts::default());
        let seats = |target: &str| {
            let (info, query) = request(target);
            Estimator { objects: &objects, watches: &watches }.estimate(&info, &query, &level()).0.initial
        };
        assert_eq!(seats("/api/v1/pods"), 1);
        // 400 objects of 2 kB.
        objects.record(request("/api/v1/pods").0.resource.as_ref().unwrap(), 400, 100, 200_000);
        for (target, expected) in [
            ("/api/v1/pods", 8),
            ("/api/v1/pods?limit=100", 2),
            ("/api/v1/pods?limit=100&continue=x", 2),
            ("/api/v1/pods?limit=100&continue=x&labelSelector=a", 4),
            ("/api/v1/pods?limit=100&labelSelector=a", 2),
            ("/api/v1/pods?limit=x", 100),
            ("/api/v1/pods?fieldSelector=metadata.name%3Da", 1),
            ("/api/v1/namespaces/n/pods/p", 1),
            ("/api/v1/pods?watch=1&resourceVersion=5", 1),
            ("/api/v1/pods?watch=1&resourceVersion=5&sendInitialEvents=1", 8),
            ("/api/v1/pods?watch=1", 8),
            ("/api/v1/secrets", 1),
            ("/version", 1),
        ] {
            assert_eq!(seats(target), expected, "{target}");
        }
        // At most 1 MB of a list from the cache is in memory, but all of another one.
        objects.record(request("/api/v1/pods").0.resource.as_ref().unwrap(), 4000, 100, 200_000);
        assert_eq!(seats("/api/v1/pods"), 10);
        assert_eq!(seats("/api/v1/pods?resourceVersion=5&resourceVersionMatch=Exact"), 80);
    }

    #[test]
    fn writes_occupy_seats_after_their_end_by_the_number_of_watches() {
        let ms = Duration::from_millis;
        assert_eq!(write_work(9, 10), Work::ONE);
        assert_eq!(write_work(11, 10), Work { initial: 1, last: 2, latency: ms(5) });
        assert_eq!(write_work(400, 10), Work { initial: 1, last: 10, latency: ms(20) });
    }

    #[test]
    fn watches_count_for_their_scope_until_they_end() {
        let watches = WatchCounts::default();
        let register = |target: &str| {
            let (info, query) = request(target);
            watches.register(&info, &query)
        };
        let count = |target: &str| watches.interested(request(target).0.resource.as_ref().unwrap());
        let all = register("/api/v1/pods?watch=1");
        let _one = register("/api/v1/namespaces/n/pods?watch=1&fieldSelector=metadata.name%3Dp");
        let _namespace = register("/api/v1/namespaces/n/pods?watch=1");
        let _node = register("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dx");
        assert_eq!(count("/api/v1/namespaces/n/pods/p"), 3);
        assert_eq!(count("/api/v1/namespaces/n/pods/q"), 2);
        assert_eq!(count("/api/v1/namespaces/m/pods/p"), 1);
        assert_eq!(count("/api/v1/namespaces/n/secrets/p"), 0);
        drop(all);
        assert_eq!(count("/api/v1/namespaces/m/pods/p"), 0);
    }
}
