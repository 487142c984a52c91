//! IP addresses, CIDRs and URLs.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

use crate::{
    cost::Cost,
    extension::{ExtensionValue, Url},
    fault::EvalFault,
    function::Row,
    library::text,
    value::{Key, Map, Value},
};

pub(super) const TABLE: &[Row] = &[
    ("ip(string) net.IP", Cost::First, |_, args| {
        parse_ip(text(args, 0)?).map(|ip| Value::extension(ExtensionValue::Ip(ip)))
    }),
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
        parse_cidr(text(args, 0)?).map(|cidr| Value::extension(ExtensionValue::Cidr(cidr)))
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
    ("net.CIDR::ip() net.IP", Cost::Flat, |_, args| Ok(Value::extension(ExtensionValue::Ip(cidr(&args[0])?.addr())))),
    ("net.CIDR::masked() net.CIDR", Cost::Flat, |_, args| {
        Ok(Value::extension(ExtensionValue::Cidr(cidr(&args[0])?.trunc())))
    }),
    ("net.CIDR::prefixLength() int", Cost::Flat, |_, args| Ok(Value::Int(i64::from(cidr(&args[0])?.prefix_len())))),
    ("url(string) kubernetes.URL", Cost::Same, |_, args| {
        Url::parse(text(args, 0)?)
            .map(|url| Value::extension(ExtensionValue::Url(url)))
            .map_err(|why| EvalFault::error(format!("URL parse error during conversion from string: {why}")))
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

fn parse_ip(text: &str) -> Result<IpAddr, EvalFault> {
    let wrong = |why: &str| {
        Err(EvalFault::error(format!("IP Address {text:?} parse error during conversion from string: {why}")))
    };
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err(EvalFault::error(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        Ok(ip) => Ok(ip),
        Err(_) if text.contains('%') => {
            Err(EvalFault::error(format!("IP address {text:?} with zone value is not allowed")))
        }
        Err(_) => wrong(&format!("ParseAddr({text:?}): unable to parse IP")),
    }
}

fn parse_cidr(text: &str) -> Result<IpNet, EvalFault> {
    let wrong = || {
        EvalFault::error(format!(
            "network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix({text:?}): no '/'"
        ))
    };
    let network = text.parse::<IpNet>().map_err(|_| wrong())?;
    match network.addr() {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            Err(EvalFault::error(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        _ => Ok(network),
    }
}

fn ip(args: &[Value<'_>]) -> Result<IpAddr, EvalFault> {
    match args.first() {
        Some(Value::Extension(named)) if let ExtensionValue::Ip(ip) = &**named => Ok(*ip),
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn cidr(value: &Value<'_>) -> Result<IpNet, EvalFault> {
    match value {
        Value::Extension(named) if let ExtensionValue::Cidr(cidr) = &**named => Ok(*cidr),
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

// === URLs ===

fn url<'a>(args: &'a [Value<'_>]) -> Result<&'a Url, EvalFault> {
    match args.first() {
        Some(Value::Extension(named)) if let ExtensionValue::Url(url) = &**named => Ok(url),
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn part<'v>(args: &[Value<'v>], of: fn(&Url) -> String) -> Result<Value<'v>, EvalFault> {
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
