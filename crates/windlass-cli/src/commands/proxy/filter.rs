//! What a proxy passes on.

use std::str::FromStr;

use http::{HeaderMap, Method, header};
use regex::Regex;

/// Regular expressions, any of which may match.
#[derive(Clone, Debug)]
pub(super) struct Patterns(Vec<Regex>);

/// What is passed on: all that the first two name, and the last two do not.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) hosts: Patterns,
    pub(super) paths: Patterns,
    pub(super) rejected_paths: Patterns,
    pub(super) rejected_methods: Patterns,
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
    pub(super) fn accepts(&self, method: &Method, path: &str, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.hosts.any(without_port(host))
            && self.paths.any(path)
            && !self.rejected_paths.any(path)
            && !self.rejected_methods.any(method.as_str())
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The last colon of `[::1]` stands before no port.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
