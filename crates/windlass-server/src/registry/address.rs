//! IP addresses and ranges, read as leniently as Go reads them: with leading zeros.

use std::{fmt, net::IpAddr};

/// What is said of a text that is no address.
pub(crate) const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
/// What is said of a text that is no range.
pub(crate) const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// As it was written; may be any address of the range.
    address: IpAddr,
    /// Of the prefix.
    bits: u8,
}

/// An address; those of version 4 that are dressed up as version 6 are what they are.
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
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// The first address of the range.
    pub(crate) fn network(self) -> IpAddr {
        masked(self.address, self.bits)
    }

    /// Whether the other range is a part of this one, and not all of it.
    pub(crate) fn encloses(self, other: Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.bits < other.bits
            && masked(other.address, self.bits) == self.network()
    }

    pub(crate) fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }

    /// What a client should know of a range that is accepted, but not written as it should be.
    pub(crate) fn warnings(path: &str, text: &str) -> Vec<String> {
        let Some(range) = Self::parse(text) else { return Vec::new() };
        let mut warnings = Vec::new();
        if range.address != range.network() {
            let single = format!("{}/{}", range.address, width(range.address));
            warnings.push(format!(
                "{path}: CIDR value {text:?} is ambiguous in this context (should be \"{range}\" or {single:?}?)"
            ));
        }
        let strict = text.split_once('/').and_then(|(ip, bits)| {
            let leading_zero = bits.len() > 1 && bits.starts_with('0');
            ip.parse::<IpAddr>().ok().filter(|_| !leading_zero)
        });
        match strict {
            None => warnings.push(format!("{path}: non-standard CIDR value {text:?} is invalid: use \"{range}\"")),
            Some(ip) if ip.is_ipv6() && range.is_ipv4() => {
                warnings.push(format!("{path}: non-standard CIDR value {text:?} is invalid: use \"{range}\""));
            }
            Some(IpAddr::V6(_)) if warnings.is_empty() && range.to_string() != text => warnings.push(format!(
                "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{range}\")"
            )),
            Some(_) => {}
        }
        warnings
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
    fn ranges_contain_their_parts_and_nothing_else() {
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
    fn leading_zeros_are_read_and_complained_about() {
        assert_eq!(parse("010.0.00.1").unwrap().to_string(), "10.0.0.1");
        assert_eq!(Range::warnings("p", "010.0.0.0/8"), ["p: non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\""]);
        assert_eq!(
            Range::warnings("p", "10.0.0.1/8"),
            ["p: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"]
        );
        assert!(Range::warnings("p", "10.0.0.0/8").is_empty());
    }
}
