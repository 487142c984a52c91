//! The filter of the requests that a proxy forwards.

use std::{borrow::Cow, str::FromStr};

use http::{HeaderMap, Method, header};
use percent_encoding::percent_decode_str;
use regex::Regex;

/// A list of regular expressions. One of them has to match.
#[derive(Clone, Debug)]
pub(super) struct Patterns(Vec<Regex>);

/// The rules of a proxy: those of `kubectl proxy`, and a rule for the origin of web pages.
///
/// Paths are matched as the API server interprets them: decoded, both unchanged and without `.`, `..` and empty
/// segments.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) hosts: Patterns,
    pub(super) paths: Patterns,
    pub(super) rejected_paths: Patterns,
    pub(super) rejected_methods: Patterns,
    /// The origins of pages that may send requests, in addition to this proxy's own.
    pub(super) origins: Patterns,
}

/// The reason why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the path cannot be decoded")]
    MalformedPath,
    #[error("the proxy does not forward this request")]
    Filtered,
    #[error("the proxy rejects requests from pages of other origins; allow one with --accept-origins")]
    ForeignOrigin,
}

impl FromStr for Patterns {
    type Err = regex::Error;

    fn from_str(text: &str) -> Result<Self, regex::Error> {
        text.split(',').map(Regex::new).collect::<Result<_, _>>().map(Self)
    }
}

impl Patterns {
    fn any(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(text))
    }
}

impl Filter {
    pub(super) fn check(&self, method: &Method, path: &str, host: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let path = decoded(path).ok_or(Refusal::MalformedPath)?;
        let clean = cleaned(&path);
        let is_accepted = self.hosts.any(without_port(host))
            && [&*path, &*clean].iter().all(|path| self.paths.any(path) && !self.rejected_paths.any(path))
            && !self.rejected_methods.any(method.as_str());
        if !is_accepted {
            return Err(Refusal::Filtered);
        }
        let is_known = |origin: &header::HeaderValue| {
            origin.to_str().is_ok_and(|origin| is_same(origin, host) || self.origins.any(origin))
        };
        // Browsers send `Origin` with every WebSocket handshake and with every request that may write.
        if headers.get_all(header::ORIGIN).iter().all(is_known) { Ok(()) } else { Err(Refusal::ForeignOrigin) }
    }
}

/// Reports whether a page comes from this proxy.
fn is_same(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| !host.is_empty() && authority.eq_ignore_ascii_case(host))
}

/// Decodes a path like the API server. Returns `None` if it is malformed or contains control characters, which patterns
/// don't expect.
fn decoded(path: &str) -> Option<Cow<'_, str>> {
    let is_complete = path
        .split('%')
        .skip(1)
        .all(|after| after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
    let path = percent_decode_str(path).decode_utf8().ok()?;
    (is_complete && !path.contains(char::is_control)).then_some(path)
}

/// Removes empty segments, `.` and `..` from a path.
fn cleaned(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The last colon in `[::1]` does not precede a port.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter() -> Filter {
        let patterns = |text: &str| text.parse::<Patterns>().unwrap();
        Filter {
            hosts: patterns("^localhost$"),
            paths: patterns("^.*"),
            rejected_paths: patterns("^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach"),
            rejected_methods: patterns("^$"),
            origins: patterns(r"^https://dashboard\.example$"),
        }
    }

    fn check(path: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let path = path.split('?').next().unwrap();
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        filter().check(&Method::POST, path, "localhost:8001", &headers)
    }

    #[test]
    fn ports_are_no_part_of_a_host() {
        for (host, name) in [
            ("localhost:8001", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn rejected_path_is_recognized_in_every_spelling() {
        let exec = "/api/v1/namespaces/default/pods/p/exec";
        assert_eq!(check("/api/v1/namespaces/default/pods/p/log?x=exec", &[]), Ok(()));
        for path in [
            exec,
            "/api/v1/namespaces/default/pods/p/%65xec",
            "/api/v1/namespaces/default/pods/p%2Fexec",
            "/api/v1/namespaces/default/%70ods/p/%61ttach?command=x",
            "/api/v1/namespaces/default/pods/p//exec",
            "//api/v1/namespaces/default/pods/p/exec",
            "/./api/v1/namespaces/default/pods/p/exec",
            "/version/../api/v1/namespaces/default/pods/p/%2e%2e/p/exec",
        ] {
            assert_eq!(check(path, &[]), Err(Refusal::Filtered), "{path}");
        }
        for path in ["/api/v1/%zz", "/api/v1/pods/%0ap/exec", "/api/%", "/api/%ff"] {
            assert_eq!(check(path, &[]), Err(Refusal::MalformedPath), "{path}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        for origin in ["http://localhost:8001", "HTTPS://x", "https://dashboard.example"] {
            let expected = if origin == "HTTPS://x" { Err(Refusal::ForeignOrigin) } else { Ok(()) };
            assert_eq!(check("/version", &[("origin", origin)]), expected, "{origin}");
        }
        for origin in ["http://evil.example", "http://localhost:3000", "null", "http://localhost:8001.evil.example", ""]
        {
            assert_eq!(check("/version", &[("origin", origin)]), Err(Refusal::ForeignOrigin), "{origin:?}");
        }
        let two = [("origin", "http://localhost:8001"), ("origin", "http://evil.example")];
        assert_eq!(check("/version", &two[..1]), Ok(()));
        let mut headers: HeaderMap = HeaderMap::new();
        for (_, origin) in two {
            headers.append(header::ORIGIN, origin.parse().unwrap());
        }
        let refused = filter().check(&Method::GET, "/version", "localhost:8001", &headers);
        assert_eq!(refused, Err(Refusal::ForeignOrigin));
    }
}
