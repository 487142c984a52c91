//! The release of a server.

use http::Request;
use serde::Deserialize;

use crate::{Client, Result, body::Body};

/// The content of `/version`. Any field may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ServerVersion {
    /// The major version, such as `1`.
    pub major: String,
    /// The minor version, such as `36`. Distributors may append to it, as in `36+`.
    pub minor: String,
    /// The full version, such as `v1.36.3`.
    pub git_version: String,
    /// The commit of the build.
    pub git_commit: String,
    /// `clean` if the source tree of the build had no local changes.
    pub git_tree_state: String,
    /// The time of the build, in RFC 3339.
    pub build_date: String,
    /// The Go version of the build.
    pub go_version: String,
    /// The compiler of the build.
    pub compiler: String,
    /// The platform, such as `linux/amd64`.
    pub platform: String,
}

impl ServerVersion {
    /// Returns the major and minor version as numbers, without the suffixes of distributors.
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
    /// Fetches the server's version.
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
    async fn release_is_parsed_from_vendor_versions() {
        let fake =
            Fake::json(r#"{"major":"1","minor":"36+","gitVersion":"v1.36.3-x.1","platform":"linux/amd64","new":1}"#);
        let version = fake.client().server_version().await.unwrap();
        assert_eq!((version.release(), &*version.git_version), (Some((1, 36)), "v1.36.3-x.1"));
        assert_eq!(fake.seen(), ["GET /version"]);
        assert_eq!(ServerVersion::default().release(), None);
    }
}
