//! Which release a server is.

use http::Request;
use serde::Deserialize;

use crate::{Body, Client, Result};

/// What `/version` says. Anything may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ServerVersion {
    /// `1`
    pub major: String,
    /// `36`; distributors add to it, `36+`.
    pub minor: String,
    /// `v1.36.3`
    pub git_version: String,
    /// The commit that it was built from.
    pub git_commit: String,
    /// `clean`, or not.
    pub git_tree_state: String,
    /// When it was built, in RFC 3339.
    pub build_date: String,
    /// What it was built with.
    pub go_version: String,
    /// What it was built with.
    pub compiler: String,
    /// `linux/amd64`
    pub platform: String,
}

impl ServerVersion {
    /// Major and minor, as numbers; whatever a distributor adds is left out.
    #[must_use]
    pub fn release(&self) -> Option<(u32, u32)> {
        let number = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            text[..end].parse().ok()
        };
        Some((number(&self.major)?, number(&self.minor)?))
    }
}

impl Client {
    /// Asks the server which release it is.
    pub async fn server_version(&self) -> Result<ServerVersion> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = http::Uri::from_static("/version");
        self.for_discovery().request_json(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fake;

    #[tokio::test]
    async fn the_release_is_read_from_what_distributors_make_of_it() {
        let fake =
            Fake::json(r#"{"major":"1","minor":"36+","gitVersion":"v1.36.3-x.1","platform":"linux/amd64","new":1}"#);
        let version = fake.client().server_version().await.unwrap();
        assert_eq!((version.release(), &*version.git_version), (Some((1, 36)), "v1.36.3-x.1"));
        assert_eq!(fake.seen(), ["GET /version"]);
        assert_eq!(ServerVersion::default().release(), None);
    }
}
