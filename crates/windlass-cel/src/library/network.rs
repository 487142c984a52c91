//! IP addresses, CIDRs and URLs.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

use crate::{
    cost::Cost,
    eval::Fault,
    function::Row,
    library::{Named, text},
    value::{Key, Map, Value},
};

pub(super) const TABLE: &[Row] = &[
    ("ip(string) net.IP", Cost::First, |_, args| parse_ip(text(args, 0)?).map(|ip| Value::named(Named::Ip(ip)))),
    ("isIP(string) bool", Cost::First, |_, args| Ok(Value::Bool(parse_ip(text(args, 0)?).is_ok()))),
    ("ip.isCanonical(string) bool", Cost::Twice, |_, args| {
        let text = text(args, 0)?;
        Ok(Value::Bool(parse_ip(text)?.to_string() == text))
    }),
    ("net.IP::family() int", Cost::Flat, |_, args| Ok(Value::Int(if ip(args)?.is_ipv4() { 4 } else { 6 }))),
    ("net.IP::isUnspecified() bool", Cost::Flat, |_, args| Ok(Value::Bool(ip(args)?.is_unspecified()))),
    ("net.IP::isLoopback() bool", Cost::Flat, |_, args| Ok(Value::Bool(ip(args)?.is_loopback()))),
    ("net.IP::isLinkLocalMulticast() bool", Cost::Flat, |_, args| {
        Ok(Value::Bool(match ip(args)? {
            IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
            IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        }))
    }),
    ("net.IP::isLinkLocalUnicast() bool", Cost::Flat, |_, args| Ok(Value::Bool(is_link_local(ip(args)?)))),
    ("net.IP::isGlobalUnicast() bool", Cost::Flat, |_, args| {
        let ip = ip(args)?;
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        let local = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip);
        Ok(Value::Bool(!broadcast && !local))
    }),
    ("cidr(string) net.CIDR", Cost::First, |_, args| {
        parse_cidr(text(args, 0)?).map(|cidr| Value::named(Named::Cidr(cidr)))
    }),
    ("isCIDR(string) bool", Cost::First, |_, args| Ok(Value::Bool(parse_cidr(text(args, 0)?).is_ok()))),
    ("net.CIDR::containsIP(string) bool", Cost::Network { text: true, whole: false }, |_, args| {
        Ok(Value::Bool(cidr(&args[0])?.contains(&parse_ip(text(args, 1)?)?)))
    }),
    ("net.CIDR::containsIP(net.IP) bool", Cost::Network { text: false, whole: false }, |_, args| {
        Ok(Value::Bool(cidr(&args[0])?.contains(&ip(&args[1..])?)))
    }),
    ("net.CIDR::containsCIDR(string) bool", Cost::Network { text: true, whole: true }, |_, args| {
        Ok(Value::Bool(cidr(&args[0])?.contains(&parse_cidr(text(args, 1)?)?)))
    }),
    ("net.CIDR::containsCIDR(net.CIDR) bool", Cost::Network { text: false, whole: true }, |_, args| {
        Ok(Value::Bool(cidr(&args[0])?.contains(&cidr(&args[1])?)))
    }),
    ("net.CIDR::ip() net.IP", Cost::Flat, |_, args| Ok(Value::named(Named::Ip(cidr(&args[0])?.addr())))),
    ("net.CIDR::masked() net.CIDR", Cost::Flat, |_, args| Ok(Value::named(Named::Cidr(cidr(&args[0])?.trunc())))),
    ("net.CIDR::prefixLength() int", Cost::Flat, |_, args| Ok(Value::Int(i64::from(cidr(&args[0])?.prefix_len())))),
    ("url(string) kubernetes.URL", Cost::Same, |_, args| {
        Url::parse(text(args, 0)?)
            .map(|url| Value::named(Named::Url(url)))
            .map_err(|why| Fault::error(format!("URL parse error during conversion from string: {why}")))
    }),
    ("isURL(string) bool", Cost::Flat, |_, args| Ok(Value::Bool(Url::parse(text(args, 0)?).is_ok()))),
    ("kubernetes.URL::getScheme() string", Cost::Flat, |_, args| part(args, |url| url.scheme.clone())),
    ("kubernetes.URL::getHost() string", Cost::Flat, |_, args| part(args, |url| url.host.clone())),
    ("kubernetes.URL::getHostname() string", Cost::Flat, |_, args| part(args, |url| url.host_and_port().0.to_owned())),
    ("kubernetes.URL::getPort() string", Cost::Flat, |_, args| part(args, |url| url.host_and_port().1.to_owned())),
    ("kubernetes.URL::getEscapedPath() string", Cost::Flat, |_, args| part(args, |url| url.path.clone())),
    ("kubernetes.URL::getQuery() map(string, list(string))", Cost::Flat, |_, args| {
        let mut query = BTreeMap::<Key, Vec<Value<'_>>>::new();
        for (name, value) in url(args)?.query.split('&').filter(|pair| !pair.is_empty()).map(pair) {
            query.entry(Key::Text(name)).or_default().push(value.into());
        }
        Ok(Value::Map(Map::new(query.into_iter().map(|(name, values)| (name, Value::list(values))).collect())))
    }),
];

// === addresses and networks ===

fn parse_ip(text: &str) -> Result<IpAddr, Fault> {
    let wrong =
        |why: &str| Err(Fault::error(format!("IP Address {text:?} parse error during conversion from string: {why}")));
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err(Fault::error(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        Ok(ip) => Ok(ip),
        Err(_) if text.contains('%') => {
            Err(Fault::error(format!("IP address {text:?} with zone value is not allowed")))
        }
        Err(_) => wrong(&format!("ParseAddr({text:?}): unable to parse IP")),
    }
}

fn parse_cidr(text: &str) -> Result<IpNet, Fault> {
    let wrong = || {
        Fault::error(format!(
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix({text:?}): no '/'"
        ))
    };
    let network = text.parse::<IpNet>().map_err(|_| wrong())?;
    match network.addr() {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            Err(Fault::error(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        _ => Ok(network),
    }
}

fn ip(args: &[Value<'_>]) -> Result<IpAddr, Fault> {
    match args.first() {
        Some(Value::Named(named)) if let Named::Ip(ip) = &**named => Ok(*ip),
        _ => Err(Fault::error("no such overload")),
    }
}

fn cidr(value: &Value<'_>) -> Result<IpNet, Fault> {
    match value {
        Value::Named(named) if let Named::Cidr(cidr) = &**named => Ok(*cidr),
        _ => Err(Fault::error("no such overload")),
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

// === URLs ===

/// An absolute URL or an absolute path, as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Url {
    scheme: String,
    /// The host, with the port if there is one.
    host: String,
    path: String,
    query: String,
}

impl Url {
    /// Parses a URL as Go parses a request URI, with Go's errors.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
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
    fn host_and_port(&self) -> (&str, &str) {
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

fn url<'a>(args: &'a [Value<'_>]) -> Result<&'a Url, Fault> {
    match args.first() {
        Some(Value::Named(named)) if let Named::Url(url) = &**named => Ok(url),
        _ => Err(Fault::error("no such overload")),
    }
}

fn part<'v>(args: &[Value<'v>], of: fn(&Url) -> String) -> Result<Value<'v>, Fault> {
    Ok(of(url(args)?).into())
}

/// Splits a query parameter into name and value.
fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(value))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let (byte, used) = match (first, hex) {
            (b'%', Some(byte)) => (byte, 2),
            (b'+', _) => (b' ', 0),
            (byte, _) => (byte, 0),
        };
        bytes.push(byte);
        rest = &after[used..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
