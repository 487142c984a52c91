//! The settings of the connection to etcd.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// The settings of an [`EtcdStorage`](crate::EtcdStorage).
#[derive(Clone, Debug)]
pub struct Options {
    /// The endpoints of the members, as in `--etcd-servers` of kube-apiserver. The first one that works is used.
    pub endpoints: Vec<Endpoint>,
    /// The prefix of all keys in etcd, as in `--etcd-prefix` of kube-apiserver. Defaults to `/registry`.
    pub prefix: String,
    /// The prefix of the server's keys that [`prefix`](Self::prefix) replaces. Defaults to `/registry`.
    pub root: String,
    /// The certificates for endpoints with `https`.
    pub tls: Tls,
    /// The user, if etcd requires one. Client certificates need none.
    pub credentials: Option<Credentials>,
    /// The time for connecting to one member, and for the first connection to any of them. Defaults to 20 s, as in
    /// kube-apiserver. If a member does not respond quickly, the next one is tried at the same time.
    pub connect_timeout: Duration,
    /// The time for one operation, including its other attempts. Defaults to 10 s: etcd itself gives up after 7.
    pub request_timeout: Duration,
    /// The time without data from a member after which it is asked for a response. Defaults to 30 s, as in
    /// kube-apiserver.
    pub keepalive_interval: Duration,
    /// The time for this response. Defaults to 10 s, as in kube-apiserver.
    pub keepalive_timeout: Duration,
}

impl Options {
    /// Creates options with the defaults for these endpoints.
    pub fn new(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self {
            endpoints: endpoints.into_iter().collect(),
            prefix: "/registry".into(),
            root: "/registry".into(),
            tls: Tls::default(),
            credentials: None,
            connect_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(10),
        }
    }
}

/// The certificate files for TLS. They are read again for each connection, so certificates can be renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The CA certificates that sign the members' certificates, as in `--etcd-cafile`. Required for `https`.
    pub ca: Option<PathBuf>,
    /// The client certificate, as in `--etcd-certfile`.
    pub certificate: Option<PathBuf>,
    /// Its key, as in `--etcd-keyfile`.
    pub key: Option<PathBuf>,
}

/// A user of etcd.
#[derive(Clone)]
pub struct Credentials {
    /// The name of the user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The address of a member: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The error for an endpoint that is not an address of etcd.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid endpoint {text:?}: {why}; expected http://HOST:PORT or https://HOST:PORT")]
pub struct InvalidEndpoint {
    text: String,
    why: &'static str,
}

/// The port of etcd for clients, if an endpoint has none.
const DEFAULT_PORT: u16 = 2379;

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        // A user with a password is not shown.
        let shown = || text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, address)| format!("…@{address}"));
        let failed = |why| InvalidEndpoint { text: shown(), why };
        let uri: http::Uri = text.parse().map_err(|_| failed("it is not a URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(failed("the scheme is not http or https")),
            None => return Err(failed("it has no scheme")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(failed("it has a path"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| failed("it has no host"))?;
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        if authority.contains('@') {
            return Err(failed("it has a user"));
        }
        if uri.port_u16().is_none() && authority != host {
            return Err(failed("its port is not a number up to 65535"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { is_tls, host, port: uri.port_u16().unwrap_or(DEFAULT_PORT) })
    }
}

impl Endpoint {
    /// Returns the host and the port, for HTTP.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_with_a_default_port() {
        for (text, shown) in [
            ("http://127.0.0.1:2379", "http://127.0.0.1:2379"),
            ("https://etcd.example", "https://etcd.example:2379"),
            ("http://[::1]:1/", "http://[::1]:1"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), shown);
        }
        for (text, why) in [
            ("127.0.0.1:2379", "it has no scheme"),
            ("unix://a", "the scheme is not http or https"),
            ("http://a:1/v3", "it has a path"),
            ("", "it is not a URL"),
            ("http://a:99999", "its port is not a number up to 65535"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!("invalid endpoint {text:?}: {why}; expected http://HOST:PORT or https://HOST:PORT")
            );
        }
    }

    #[test]
    fn user_in_an_endpoint_is_an_error_without_the_password() {
        let error = "http://root:secret@a:1".parse::<Endpoint>().unwrap_err().to_string();
        assert!(error.contains("it has a user") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn password_is_not_shown() {
        let credentials = Credentials { user: "root".into(), password: "secret".into() };
        assert_eq!(format!("{credentials:?}"), "Credentials { user: \"root\", .. }");
    }
}
