//! Front proxies: servers that authenticate users themselves and send their names in headers.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::identity::{AUTHENTICATED, UNAUTHENTICATED, User};

/// The headers with which a front proxy names the user, and the proxies that may send them.
///
/// The proxy's certificate must be signed by the CA of [`TlsIdentity::with_front_proxy_ca`](crate::TlsIdentity).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontProxy {
    /// The common names of the certificates of proxies; empty for any name.
    pub allowed_names: Vec<String>,
    /// The headers with the user name, for example `X-Remote-User`. The first one with a value is used.
    pub username_headers: Vec<String>,
    /// The headers with the UID. The first one with a value is used.
    pub uid_headers: Vec<String>,
    /// The headers with groups. All values of all headers are used.
    pub group_headers: Vec<String>,
    /// The prefixes of headers with further attributes, for example `X-Remote-Extra-`.
    pub extra_header_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Creates settings with the headers that kube-apiserver and Windlass send, for proxies whose certificates have one of
    /// these common names.
    #[must_use]
    pub fn of_names<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let header = |name: &str| vec![name.to_owned()];
        Self {
            allowed_names: names.into_iter().map(Into::into).collect(),
            username_headers: header("X-Remote-User"),
            uid_headers: header("X-Remote-Uid"),
            group_headers: header("X-Remote-Group"),
            extra_header_prefixes: header("X-Remote-Extra-"),
        }
    }

    /// Reports whether a header names a user, or a property of one. The case is ignored.
    pub(crate) fn names_users_in(&self, header: &str) -> bool {
        let mut names = self.username_headers.iter().chain(&self.uid_headers).chain(&self.group_headers);
        names.any(|name| name.eq_ignore_ascii_case(header))
            || self.extra_header_prefixes.iter().any(|prefix| strip(header, prefix).is_some())
    }

    /// Reports whether a proxy whose certificate has this common name may send the headers.
    pub(super) fn allows(&self, name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == name)
    }

    /// Returns the user that the headers name, if they name one.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let first = |names: &[String]| {
            let mut found = names.iter().filter_map(|name| headers.get(name.as_str()));
            found.find(|value| !value.is_empty()).map(text)
        };
        let name = first(&self.username_headers)?;
        let groups = self.group_headers.iter().flat_map(|name| headers.get_all(name.as_str()));
        let mut groups: Vec<String> = groups.filter(|value| !value.is_empty()).map(text).collect();
        // Anonymous users of the proxy stay anonymous.
        if name != crate::identity::ANONYMOUS
            && !groups.iter().any(|own| own == AUTHENTICATED || own == UNAUTHENTICATED)
        {
            groups.push(AUTHENTICATED.to_owned());
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_header_prefixes {
            for (header, value) in headers {
                let Some(key) = strip(header.as_str(), prefix) else { continue };
                let key = percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Into::into);
                extra.entry(key).or_default().push(text(value));
            }
        }
        Some(User { name, uid: first(&self.uid_headers).unwrap_or_default(), groups, extra })
    }
}

/// Removes a prefix, regardless of case.
fn strip<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> FrontProxy {
        let list = |items: &[&str]| items.iter().copied().map(str::to_owned).collect();
        FrontProxy {
            allowed_names: list(&["front-proxy-client"]),
            username_headers: list(&["X-Remote-User", "X-Other-User"]),
            uid_headers: list(&["X-Remote-Uid"]),
            group_headers: list(&["X-Remote-Group"]),
            extra_header_prefixes: list(&["X-Remote-Extra-"]),
        }
    }

    #[test]
    fn headers_name_the_user() {
        let mut headers = HeaderMap::new();
        assert_eq!(proxy().user(&headers), None);
        headers.insert("x-remote-user", "".parse().unwrap());
        headers.insert("x-other-user", "alice".parse().unwrap());
        headers.insert("x-remote-uid", "7".parse().unwrap());
        headers.append("x-remote-group", "a".parse().unwrap());
        headers.append("x-remote-group", "b".parse().unwrap());
        headers.append("x-remote-extra-example.com%2fscope", "read".parse().unwrap());
        let user = proxy().user(&headers).unwrap();
        assert_eq!((user.name(), &*user.uid), ("alice", "7"));
        assert_eq!(user.groups(), ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["example.com/scope"], ["read"]);
        headers.insert("x-remote-user", "system:anonymous".parse().unwrap());
        headers.insert("x-remote-group", "system:unauthenticated".parse().unwrap());
        assert_eq!(proxy().user(&headers).unwrap().groups(), ["system:unauthenticated"]);
    }

    #[test]
    fn list_of_names_limits_the_proxies() {
        assert!(proxy().allows("front-proxy-client") && !proxy().allows("alice"));
        assert!(FrontProxy::default().allows("alice"));
    }
}
