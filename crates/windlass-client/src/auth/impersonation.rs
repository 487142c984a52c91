//! Impersonation of other users.

use std::{collections::BTreeMap, fmt::Write as _};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::AuthError;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const EXTRA: &str = "impersonate-extra-";

/// The user to impersonate. The server must permit the impersonation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user's name.
    pub user: String,
    /// The user's UID.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Additional attributes of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Impersonation {
    /// Impersonates a user by name.
    #[must_use]
    pub fn user(name: impl Into<String>) -> Self {
        Self { user: name.into(), ..Self::default() }
    }

    /// Returns this impersonation with an additional group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    pub(crate) fn headers(&self) -> Result<HeaderMap, AuthError> {
        let mut headers = HeaderMap::new();
        headers.insert(USER, value("user", &self.user)?);
        if let Some(uid) = &self.uid {
            headers.insert(UID, value("uid", uid)?);
        }
        for group in &self.groups {
            headers.append(GROUP, value("group", group)?);
        }
        for (key, values) in &self.extra {
            let name = HeaderName::try_from(format!("{EXTRA}{}", escape(key)));
            let name = name.map_err(|_| AuthError::Impersonation { what: "extra" })?;
            for text in values {
                headers.append(name.clone(), value("extra", text)?);
            }
        }
        Ok(headers)
    }
}

/// Adds the headers, unless the request already impersonates a user.
pub(crate) fn add_impersonation(headers: &HeaderMap, request: &mut HeaderMap) {
    if !request.contains_key(USER) {
        request.extend(headers.clone());
    }
}

fn value(what: &'static str, text: &str) -> Result<HeaderValue, AuthError> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| AuthError::Impersonation { what })
}

/// Escapes the characters that are invalid in a header name, and the percent sign, as `%XX`.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_header() {
        let extra = [("example.com/Scope é%".to_owned(), vec!["a".to_owned(), "b".to_owned()])];
        let somebody = Impersonation { uid: Some("7".to_owned()), extra: extra.into(), ..Impersonation::user("jane") };
        let headers = somebody.in_group("devs").in_group("ops").headers().unwrap();
        let shown: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        assert_eq!(
            shown,
            [
                "impersonate-user: jane",
                "impersonate-uid: 7",
                "impersonate-group: devs",
                "impersonate-group: ops",
                "impersonate-extra-example.com%2fscope%20%c3%a9%25: a",
                "impersonate-extra-example.com%2fscope%20%c3%a9%25: b",
            ]
        );
    }

    #[test]
    fn impersonated_names_must_be_valid_headers() {
        let error = Impersonation::user("new\nline").headers().unwrap_err();
        assert_eq!(error.to_string(), "the impersonated user contains characters that are invalid in a header");
    }
}
