//! IP addresses and CIDR ranges, parsed as leniently as in Go: leading zeros are accepted.

use std::{fmt, net::IpAddr};

/// A CIDR range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The address as written; it may be any address of the range.
    address: IpAddr,
    /// The length of the prefix, in bits.
    bits: u8,
}

/// Parses an IP address. An IPv4 address that is mapped into IPv6 becomes an IPv4 address.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    let lenient: String;
    let text = if text.contains(':') {
        text
    } else {
        let parts = text.split('.').map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        });
        lenient = parts.collect::<Vec<_>>().join(".");
        &lenient
    };
    text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

impl Range {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = parse(address)?;
        if bits.is_empty() || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let bits: u8 = bits.parse().ok()?;
        // The prefix length of a mapped IPv4 address includes the 96 bits of the mapping.
        let bits = if address.is_ipv4() && text.contains(':') { bits.checked_sub(96)? } else { bits };
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// Returns the first address of the range.
    pub(crate) fn network(self) -> IpAddr {
        masked(self.address, self.bits)
    }

    /// Reports whether `other` is a proper subset of this range.
    pub(crate) fn encloses(self, other: Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.bits < other.bits
            && masked(other.address, self.bits) == self.network()
    }

    pub(crate) fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }

    /// Returns the warnings for a valid range that is not in canonical form.
    pub(crate) fn warnings(path: &str, text: &str) -> Vec<String> {
        let Some(range) = Self::parse(text) else { return Vec::new() };
        let canonical = range.to_string();
        if range.is_ipv4() || canonical == text {
            return Vec::new();
        }
        vec![format!("{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({canonical:?})")]
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.bits)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)).into()),
        IpAddr::V6(ip) => {
            IpAddr::V6((u128::from(ip) & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_contains_only_its_subranges() {
        let range = |text| Range::parse(text).unwrap();
        assert!(range("10.0.0.0/8").encloses(range("10.1.0.0/16")));
        assert!(!range("10.0.0.0/8").encloses(range("10.0.0.0/8")));
        assert!(!range("10.0.0.0/8").encloses(range("11.0.0.0/16")));
        assert!(!range("::/0").encloses(range("10.0.0.0/8")));
        assert_eq!(range("10.1.2.3/8").to_string(), "10.0.0.0/8");
        assert_eq!(range("2001:DB8::1/32").to_string(), "2001:db8::/32");
        assert_eq!(range("0.0.0.0/0").network().to_string(), "0.0.0.0");
        for bad in ["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "x/8", "10.0.0.0/+8", "10..0.0/8"] {
            assert_eq!(Range::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_are_parsed_leniently() {
        assert_eq!(parse("010.0.00.1").unwrap().to_string(), "10.0.0.1");
        assert_eq!(parse("::ffff:10.0.0.1").unwrap().to_string(), "10.0.0.1");
    }

    #[test]
    fn only_non_canonical_ipv6_ranges_cause_warnings() {
        assert_eq!(
            Range::warnings("p", "2001:DB8::/32"),
            ["p: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")"]
        );
        assert!(Range::warnings("p", "10.0.0.0/8").is_empty());
    }
}
