//! URLs, as Go parses them.

/// An absolute URL or an absolute path, as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// The host, with the port if there is one.
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
}

impl Url {
    /// Parses a URL as Go parses a request URI, with Go's errors.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("parse {text:?}: {why}");
        if text.is_empty() {
            return Err(wrong("empty url"));
        }
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(wrong("net/url: invalid control character in URL"));
        }
        let (scheme, rest) = match text.split_once(':') {
            Some(("", _)) => return Err(wrong("missing protocol scheme")),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') && scheme.is_empty() {
            return Err(wrong("invalid URI for request"));
        }
        let (host, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                let authority = &rest[..end];
                (authority.rsplit_once('@').map_or(authority, |(_, host)| host), &rest[end..])
            }
            None => ("", rest),
        };
        let url = Self { scheme, host: host.to_owned(), path: path.to_owned(), query: query.to_owned() };
        let port = url.host_and_port().1;
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong(&format!("invalid port \":{port}\" after host")));
        }
        if host.contains(' ') {
            return Err(wrong("invalid character \" \" in host name"));
        }
        if host.starts_with('[') && !host.contains(']') {
            return Err(wrong("missing ']' in host"));
        }
        Ok(Self { path: url.path.replace(' ', "%20"), ..url })
    }

    /// Returns the host without brackets, and the port. The port is empty if missing.
    pub(crate) fn host_and_port(&self) -> (&str, &str) {
        if let Some(rest) = self.host.strip_prefix('[') {
            let (host, after) = rest.split_once(']').unwrap_or((rest, ""));
            return (host, after.strip_prefix(':').unwrap_or(after));
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}
