//! The address of a plugin: `unix:///path`, or `unix:///@name` for an abstract socket of Linux.

use std::fmt;

use percent_encoding::percent_decode_str;

/// The address of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Endpoint {
    text: String,
    /// The path of the socket. That of an abstract one begins with a null character.
    path: String,
}

impl Endpoint {
    /// Parses a URL. The errors are those of kube-apiserver.
    pub(in super::super) fn parse(text: &str) -> Result<Self, String> {
        let invalid = |why: String| format!("invalid endpoint for kms provider, error: parse {text:?}: {why}");
        if text.chars().any(|character| character.is_ascii_control()) {
            return Err(invalid("net/url: invalid control character in URL".to_owned()));
        }
        let (scheme, rest) = match text.split_once(':') {
            Some(("", _)) => return Err(invalid("missing protocol scheme".to_owned())),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let rest = rest.split('#').next().unwrap_or_default().split('?').next().unwrap_or_default();
        // A relative path is not a path of the URL.
        let path = match rest.strip_prefix("//") {
            Some(after) => after.find('/').map_or("", |start| &after[start..]),
            None if rest.starts_with('/') || scheme.is_empty() => rest,
            None => "",
        };
        if let Some(escape) = invalid_escape(path) {
            return Err(invalid(format!("invalid URL escape {escape:?}")));
        }
        if scheme != "unix" {
            return Err(format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported"));
        }
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let path = path.strip_prefix("/@").map_or(path.clone(), |name| format!("\0{name}"));
        Ok(Self { text: text.to_owned(), path })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

fn is_scheme(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_part)
}

/// Returns the first part after a percent sign that is not a byte.
fn invalid_escape(path: &str) -> Option<&str> {
    path.match_indices('%').map(|(at, _)| &path[at..]).find_map(|escape| {
        let is_byte = escape.as_bytes().get(1..3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let end = escape.char_indices().nth(3).map_or(escape.len(), |(end, _)| end);
        (!is_byte).then(|| &escape[..end])
    })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_the_socket_is_that_of_the_url() {
        for (text, path) in [
            ("unix:///run/kms.sock", "/run/kms.sock"),
            ("unix:/run/kms.sock", "/run/kms.sock"),
            ("UNIX:///run/kms.sock?x#y", "/run/kms.sock"),
            ("unix:///run/a%20b", "/run/a b"),
            ("unix:///@kms", "\0kms"),
            ("unix://host/run/kms.sock", "/run/kms.sock"),
            // As for kube-apiserver, these have no path.
            ("unix:@kms", ""),
            ("unix://@kms", ""),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!((endpoint.path(), endpoint.to_string()), (path, text.to_owned()));
        }
    }
}
