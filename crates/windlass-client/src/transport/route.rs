//! The route to the server: direct, or through a proxy, which the environment selects by the rules of Go's `net/http`.

use std::net::IpAddr;

use http::{Uri, uri::Scheme};
use ipnet::IpNet;

use crate::{
    config_error::ConfigError,
    connection_options::{Proxy, ProxyServer},
};

/// The route to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    Through(ProxyServer),
}

impl Route {
    /// Determines the route to `server`. `variable` reads the environment.
    pub(super) fn to(
        server: &Uri,
        proxy: &Proxy,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        match proxy {
            Proxy::Direct => Ok(Self::Direct),
            Proxy::Server(proxy) => Ok(Self::Through(proxy.clone())),
            Proxy::Environment => by_environment(server, variable),
        }
    }
}

fn by_environment(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Result<Route, ConfigError> {
    // Upper case takes precedence.
    let read = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| Some((name, variable(name).filter(|value| !value.is_empty())?)))
    };
    let found = if server.scheme() == Some(&Scheme::HTTPS) {
        read(["HTTPS_PROXY", "https_proxy"])
    } else if variable("REQUEST_METHOD").is_some_and(|method| !method.is_empty()) {
        // In a CGI program, HTTP_PROXY is set from a header of the request.
        None
    } else {
        read(["HTTP_PROXY", "http_proxy"])
    };
    let Some((name, address)) = found else { return Ok(Route::Direct) };
    let excepted = read(["NO_PROXY", "no_proxy"]).is_some_and(|(_, list)| Exceptions::parse(&list).hold(server));
    if excepted || is_this_machine(host(server)) {
        return Ok(Route::Direct);
    }
    let address = if address.contains("://") { address } else { format!("http://{address}") };
    let proxy = address.parse().map_err(|source| ConfigError::Proxy { variable: name, source })?;
    Ok(Route::Through(proxy))
}

/// `NO_PROXY`: the servers that are reached directly.
#[derive(Debug, Default)]
struct Exceptions(Vec<Exception>);

#[derive(Debug, PartialEq)]
enum Exception {
    All,
    Network(IpNet),
    Address {
        ip: IpAddr,
        port: Option<u16>,
    },
    /// With a leading dot.
    Domain {
        suffix: String,
        itself: Itself,
        port: Option<u16>,
    },
}

/// Determines whether an exception for a domain includes the domain itself.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Itself {
    Included,
    Left,
}

impl Exceptions {
    fn parse(list: &str) -> Self {
        let entries = list.split(',').map(|entry| entry.trim().to_lowercase());
        Self(entries.filter_map(|entry| Exception::parse(&entry)).collect())
    }

    fn hold(&self, server: &Uri) -> bool {
        let host = host(server).to_lowercase();
        let port = server.port_u16().unwrap_or(if server.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 });
        let ip = host.parse().ok();
        self.0.iter().any(|exception| exception.holds(&host, ip, port))
    }
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::All);
        }
        if let Ok(network) = entry.parse() {
            return Some(Self::Network(network));
        }
        let (name, port) = with_port(entry);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(ip) = name.parse() {
            return Some(Self::Address { ip, port });
        }
        let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
        match name {
            "" => None,
            _ if name.starts_with('.') => Some(Self::Domain { suffix: name.to_owned(), itself: Itself::Left, port }),
            _ => Some(Self::Domain { suffix: format!(".{name}"), itself: Itself::Included, port }),
        }
    }

    fn holds(&self, host: &str, ip: Option<IpAddr>, server_port: u16) -> bool {
        let same = |port: &Option<u16>| port.is_none_or(|port| port == server_port);
        match (self, ip) {
            (Self::All, _) => true,
            (Self::Network(network), Some(ip)) => network.contains(&ip),
            (Self::Address { ip: excepted, port }, Some(ip)) => *excepted == ip && same(port),
            (Self::Domain { suffix, itself, port }, None) => {
                let is_it = *itself == Itself::Included && suffix.get(1..) == Some(host);
                (is_it || host.ends_with(suffix.as_str())) && same(port)
            }
            (Self::Network(_) | Self::Address { .. }, None) | (Self::Domain { .. }, Some(_)) => false,
        }
    }
}

/// Splits `host:80` and `[::1]:80`. An address with several colons and no brackets has no port.
fn with_port(entry: &str) -> (&str, Option<u16>) {
    match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn host(server: &Uri) -> &str {
    server.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(server: &str, variables: &[(&str, &str)]) -> Route {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Route::to(&server.parse().unwrap(), &Proxy::Environment, variable).unwrap()
    }

    fn through(proxy: &str) -> Route {
        Route::Through(proxy.parse().unwrap())
    }

    #[test]
    fn proxy_variable_of_the_scheme_is_used() {
        let both = [("HTTPS_PROXY", "http://s"), ("HTTP_PROXY", "http://p")];
        assert_eq!(route("https://a", &both), through("http://s"));
        assert_eq!(route("http://a", &both), through("http://p"));
        assert_eq!(route("https://a", &[("HTTP_PROXY", "http://p")]), Route::Direct);
        assert_eq!(route("https://a", &[("https_proxy", "l"), ("HTTPS_PROXY", "u")]), through("http://u"));
        assert_eq!(route("https://a", &[("https_proxy", "l:3128"), ("HTTPS_PROXY", "")]), through("http://l:3128"));
        assert_eq!(route("https://a", &[("HTTPS_PROXY", "socks5://s")]), through("socks5://s"));
        assert_eq!(route("http://a", &[("HTTP_PROXY", "p"), ("REQUEST_METHOD", "GET")]), Route::Direct);
    }

    #[test]
    fn loopback_bypasses_the_proxy() {
        for server in ["https://localhost:6443", "https://127.0.0.2", "https://[::1]:6443"] {
            assert_eq!(route(server, &[("HTTPS_PROXY", "p")]), Route::Direct, "{server}");
        }
    }

    #[test]
    fn exceptions_hold_as_in_go() {
        for (exceptions, excepted, not) in [
            ("*", "https://any.example", ""),
            ("example.com", "https://example.com", "https://notexample.com"),
            ("example.com", "https://a.b.EXAMPLE.com:6443", "https://example.org"),
            (".example.com", "https://a.example.com", "https://example.com"),
            ("*.example.com", "https://a.example.com", "https://example.com"),
            ("example.com:6443", "https://example.com:6443", "https://example.com"),
            ("example.com:443", "https://example.com", "https://example.com:6443"),
            ("other, 10.0.0.0/8", "https://10.1.2.3", "https://11.1.2.3"),
            ("10.1.2.3", "https://10.1.2.3:6443", "https://10.1.2.4"),
            ("10.1.2.3:6443", "https://10.1.2.3:6443", "https://10.1.2.3"),
            ("fd00::/8", "https://[fd00::1]:6443", "https://[fe00::1]"),
            ("fd00::1", "https://[fd00::1]", "https://[fd00::2]"),
            ("[fd00::1]:6443", "https://[fd00::1]:6443", "https://[fd00::1]"),
            ("0.0.0.0/0", "https://8.8.8.8", "https://dns.example"),
            (" , ,Example.Com ,", "https://example.com", "https://example"),
        ] {
            let variables = [("HTTPS_PROXY", "p"), ("no_proxy", exceptions)];
            assert_eq!(route(excepted, &variables), Route::Direct, "{exceptions} {excepted}");
            if !not.is_empty() {
                assert_eq!(route(not, &variables), through("http://p"), "{exceptions} {not}");
            }
        }
    }

    #[test]
    fn a_variable_that_names_no_proxy_is_named() {
        let error = Route::to(&"https://a".parse().unwrap(), &Proxy::Environment, |name| {
            (name == "HTTPS_PROXY").then(|| "ftp://s3cret@p".to_owned())
        });
        let error = error.unwrap_err();
        assert!(error.to_string().contains("$HTTPS_PROXY") && !format!("{error:?}").contains("s3cret"), "{error}");
    }
}
