//! The keys in etcd: those of the server, with another prefix.

use std::sync::Arc;

use windlass_server::storage::RangeQuery;

/// Maps keys to keys in etcd, and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The prefix of the server's keys, without a slash at its end.
    root: Box<str>,
    /// The prefix in etcd that replaces it.
    prefix: Box<str>,
}

/// A half-open range of keys in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl KeyRange {
    pub(crate) fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}

impl Keys {
    /// Creates a map. A missing slash before the prefix is added, as kube-apiserver does, and slashes after it are
    /// removed.
    pub(crate) fn new(root: &str, prefix: &str) -> Self {
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Self { root: root.trim_end_matches('/').into(), prefix: prefix.into() }
    }

    /// Returns the key in etcd. `None` for a key that is not below the root.
    pub(crate) fn to_etcd(&self, key: &str) -> Option<Vec<u8>> {
        let rest = key.strip_prefix(&*self.root).filter(|rest| rest.starts_with('/'))?;
        Some([self.prefix.as_bytes(), rest.as_bytes()].concat())
    }

    /// Returns the server's key. `None` for another one, or for one that is not text.
    pub(crate) fn to_server(&self, key: &[u8]) -> Option<Arc<str>> {
        let rest = key.strip_prefix(self.prefix.as_bytes()).filter(|rest| rest.starts_with(b"/"))?;
        let rest = std::str::from_utf8(rest).ok()?;
        Some(if self.root == self.prefix {
            std::str::from_utf8(key).ok()?.into()
        } else {
            [&self.root, rest].concat().into()
        })
    }

    /// Returns the range of the keys that start with a prefix. Never contains keys that are not below the root.
    pub(crate) fn prefixed(&self, prefix: &str) -> KeyRange {
        let below = [&self.prefix, "/"].concat().into_bytes();
        let start = match self.to_etcd(prefix) {
            Some(start) => start,
            None if self.root.starts_with(prefix) => below,
            None => return KeyRange { start: below.clone(), end: below },
        };
        let end = successor(&start);
        KeyRange { start, end }
    }

    /// Returns the range of the keys that a query is about.
    pub(crate) fn queried(&self, query: &RangeQuery) -> KeyRange {
        let mut range = self.prefixed(&query.prefix);
        if let Some(start) = &query.start
            && *start > query.prefix
        {
            match self.to_etcd(start) {
                Some(start) => range.start = range.start.max(start),
                // Either before all keys, or after them.
                None if **start < *self.root => {}
                None if self.root.starts_with(&**start) => {}
                None => range.start.clone_from(&range.end),
            }
        }
        range
    }
}

/// Returns the first key after all keys with a prefix, which is text and not empty.
fn successor(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // No byte of UTF-8 is the largest one.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(range: &KeyRange) -> (&str, &str) {
        (std::str::from_utf8(&range.start).unwrap(), std::str::from_utf8(&range.end).unwrap())
    }

    #[test]
    fn keys_are_unchanged_by_the_default_prefix() {
        let keys = Keys::new("/registry", "/registry");
        assert_eq!(keys.to_etcd("/registry/pods/a").unwrap(), b"/registry/pods/a");
        assert_eq!(&*keys.to_server(b"/registry/pods/a").unwrap(), "/registry/pods/a");
        assert_eq!(text(&keys.prefixed("/registry/pods/")), ("/registry/pods/", "/registry/pods0"));
        assert_eq!(text(&keys.prefixed("/registry/role")), ("/registry/role", "/registry/rolf"));
    }

    #[test]
    fn other_prefix_replaces_the_root() {
        for prefix in ["/clusters/one", "clusters/one", "clusters/one/"] {
            let keys = Keys::new("/registry", prefix);
            assert_eq!(keys.to_etcd("/registry/pods/a").unwrap(), b"/clusters/one/pods/a");
            assert_eq!(&*keys.to_server(b"/clusters/one/pods/a").unwrap(), "/registry/pods/a");
            assert_eq!(text(&keys.prefixed("/registry/pods/")), ("/clusters/one/pods/", "/clusters/one/pods0"));
        }
    }

    #[test]
    fn keys_outside_of_the_prefix_are_never_included() {
        let keys = Keys::new("/registry", "/one");
        for prefix in ["", "/", "/reg", "/registry", "/registry/"] {
            assert_eq!(text(&keys.prefixed(prefix)), ("/one/", "/one0"), "{prefix:?}");
        }
        for prefix in ["/other", "/registry0", "/registryx/", "a"] {
            assert!(keys.prefixed(prefix).is_empty(), "{prefix:?}");
        }
        for key in ["/other/a", "/registry", "/registryx/a", ""] {
            assert_eq!(keys.to_etcd(key), None, "{key:?}");
        }
        for key in [&b"/two/a"[..], b"/one", b"/onex/a", b"compact_rev_key", b"/one/\xff"] {
            assert_eq!(keys.to_server(key), None);
        }
    }

    #[test]
    fn query_starts_within_its_prefix() {
        let keys = Keys::new("", "/suite");
        let query = |start: &str| keys.queried(&RangeQuery::prefix("/b/").start(start));
        assert_eq!(text(&query("/a")), ("/suite/b/", "/suite/b0"));
        assert_eq!(text(&query("/b/a-x\0")), ("/suite/b/a-x\0", "/suite/b0"));
        assert!(query("/c").is_empty());
        let registry = Keys::new("/registry", "/registry");
        let all = |start: &str| registry.queried(&RangeQuery::default().start(start));
        assert_eq!(text(&all("/a")), ("/registry/", "/registry0"));
        assert_eq!(text(&all("/registry")), ("/registry/", "/registry0"));
        assert_eq!(text(&all("/registry/b")), ("/registry/b", "/registry0"));
        assert!(all("/s").is_empty());
    }
}
