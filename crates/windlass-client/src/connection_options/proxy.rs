//! HTTP and SOCKS proxies.

use std::{fmt, str::FromStr};

use http::{Uri, uri::Scheme};
use percent_encoding::percent_decode_str;
use thiserror::Error;

use crate::secret::Secret;

/// The proxy for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proxy {
    /// The proxy that `HTTPS_PROXY` or `HTTP_PROXY` names for the server, unless `NO_PROXY` excludes the server. The
    /// variables are read when the client is created, with the rules of Go's `net/http`.
    #[default]
    Environment,
    /// No proxy.
    Direct,
    /// This proxy.
    Server(ProxyServer),
}

/// The address of a proxy: `http://`, `https://` or `socks5://`, with an optional user name and password.
///
/// ```
/// use windlass_client::config::ProxyServer;
///
/// let proxy: ProxyServer = "http://me:s3cret@proxy.example:3128".parse()?;
/// assert_eq!(proxy.to_string(), "http://proxy.example:3128");
/// # Ok::<(), windlass_client::config::ProxyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyServer {
    pub(crate) protocol: ProxyProtocol,
    /// Only scheme, host and port.
    pub(crate) address: Uri,
    pub(crate) credentials: Option<ProxyCredentials>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyProtocol {
    Http,
    Https,
    Socks5,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyCredentials {
    pub(crate) username: String,
    pub(crate) password: Secret,
}

/// The error of an invalid proxy address. It does not contain the address, which may include a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The text is not a URL with a host.
    #[error("is not the address of a proxy")]
    Address,
    /// The scheme is not supported.
    #[error("has the scheme {scheme:?}; expected http, https or socks5")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
}

impl FromStr for ProxyServer {
    type Err = ProxyError;

    fn from_str(url: &str) -> Result<Self, ProxyError> {
        let uri: Uri = url.parse().map_err(|_| ProxyError::Address)?;
        let scheme = uri.scheme_str().ok_or(ProxyError::Address)?;
        let (protocol, port) = match scheme {
            "http" => (ProxyProtocol::Http, 80),
            "https" => (ProxyProtocol::Https, 443),
            "socks5" => (ProxyProtocol::Socks5, 1080),
            other => return Err(ProxyError::Scheme { scheme: other.to_owned() }),
        };
        let authority = uri.authority().ok_or(ProxyError::Address)?;
        if authority.host().is_empty() {
            return Err(ProxyError::Address);
        }
        let address = Uri::builder()
            .scheme(scheme)
            .authority(format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(port)))
            .path_and_query("/")
            .build()
            .map_err(|_| ProxyError::Address)?;
        let credentials = authority.as_str().rsplit_once('@').map(|(user, _)| ProxyCredentials::decode(user));
        Ok(Self { protocol, address, credentials })
    }
}

impl fmt::Display for ProxyServer {
    /// Omits user name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.address.scheme().map_or("", Scheme::as_str);
        let authority = self.address.authority().map_or("", |authority| authority.as_str());
        write!(f, "{scheme}://{authority}")
    }
}

impl ProxyCredentials {
    fn decode(user: &str) -> Self {
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (username, password) = user.split_once(':').unwrap_or((user, ""));
        Self { username: decoded(username), password: decoded(password).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxys_address_is_read_and_its_password_not_shown() {
        for (url, shown) in [
            ("http://p", "http://p:80"),
            ("https://p/", "https://p:443"),
            ("socks5://[::1]", "socks5://[::1]:1080"),
            ("http://me:s3cret%21@p:3128/x?y", "http://p:3128"),
        ] {
            let proxy: ProxyServer = url.parse().unwrap();
            assert_eq!(proxy.to_string(), shown);
            assert!(!format!("{proxy:?}").contains("s3cret"), "{proxy:?}");
        }
        let proxy: ProxyServer = "http://me:s3cret%21@p".parse().unwrap();
        assert_eq!(proxy.credentials, Some(ProxyCredentials { username: "me".to_owned(), password: "s3cret!".into() }));
    }

    #[test]
    fn invalid_proxy_url_is_rejected() {
        for (url, expected) in [
            ("", "is not the address of a proxy"),
            ("proxy", "is not the address of a proxy"),
            ("http://", "is not the address of a proxy"),
            ("http://a b", "is not the address of a proxy"),
            ("ftp://p", r#"has the scheme "ftp"; expected http, https or socks5"#),
        ] {
            assert_eq!(url.parse::<ProxyServer>().unwrap_err().to_string(), expected, "{url}");
        }
    }
}
