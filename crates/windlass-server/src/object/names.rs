//! Rules for object names, and for IP addresses. Each check returns the real server's messages, or none if the text is
//! valid. Checks of text alone are in windlass-api.

use std::net::IpAddr;

pub(crate) use windlass_api::validation::*;

use super::address;
use crate::kubernetes::KubernetesVersion;

/// The syntax of a kind's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower case letters, digits, dashes and dots.
    Subdomain,
    /// The same, for kinds with declarative validation: the message states the length in bytes.
    Declared,
    /// Lower case letters, digits and dashes.
    Label,
    /// The same, with a letter at the start.
    Label1035,
    /// Any valid path segment.
    PathSegment,
    /// An IP address in canonical form.
    Address,
}

impl NameRule {
    /// Returns the problems of a name.
    pub(crate) fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => dns_subdomain(name),
            Self::Declared => {
                let problems = dns_subdomain(name).into_iter();
                problems.map(|text| text.replace("no more than 253 characters", "no more than 253 bytes")).collect()
            }
            Self::Label => dns_label(name),
            Self::Label1035 => dns_label_1035(name),
            Self::PathSegment => path_segment(name),
            Self::Address => ip_address(name),
        }
    }

    /// Returns the problems of a `generateName`.
    pub(crate) fn check_prefix(self, prefix: &str) -> Vec<String> {
        if matches!(self, Self::PathSegment | Self::Address) {
            return self.check(prefix);
        }
        // A trailing dash is valid, because the server appends a suffix.
        match prefix.strip_suffix('-') {
            Some(rest) if rest.len() > 1 => self.check(&format!("{}a", &rest[..rest.len() - last_len(rest)])),
            Some("") | None => self.check(prefix),
            Some(_) => self.check("a"),
        }
    }
}

fn last_len(text: &str) -> usize {
    text.chars().next_back().map_or(0, char::len_utf8)
}

/// Checks that the text is an IP address in canonical form.
pub(crate) fn ip_address(text: &str) -> Vec<String> {
    match (address_problem(KubernetesVersion::default(), text), address::parse(text)) {
        (Some(problem), _) => vec![problem.to_owned()],
        (None, Some(ip)) if ip.to_string() != text => vec![format!("must be in canonical form (\"{ip}\")")],
        _ => Vec::new(),
    }
}

/// Returns the problem of an IP address, regardless of its form. Before 1.36, addresses that Go parses are valid.
pub(crate) fn address_problem(kubernetes: KubernetesVersion, text: &str) -> Option<&'static str> {
    if address::parse(text).is_none() {
        return Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    if kubernetes < KubernetesVersion::V1_36 {
        return None;
    }
    match text.parse::<IpAddr>() {
        Err(_) => Some("must not have leading 0s"),
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => Some("must not be an IPv4-mapped IPv6 address"),
        Ok(_) => None,
    }
}

/// Checks that the text is a C identifier.
pub(crate) fn c_identifier(text: &str) -> Vec<String> {
    let fits =
        |(index, byte): (usize, u8)| byte == b'_' || byte.is_ascii_alphabetic() || (index > 0 && byte.is_ascii_digit());
    if !text.is_empty() && text.bytes().enumerate().all(fits) {
        return Vec::new();
    }
    vec![
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters \
         or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
            .to_owned(),
    ]
}

/// Checks that the text is a CIDR range in canonical form.
pub(crate) fn ip_range(text: &str) -> Vec<String> {
    match (range_problem(KubernetesVersion::default(), text), address::Range::parse(text)) {
        (Some(problem), _) => vec![problem.to_owned()],
        (None, Some(range)) if range.to_string() != text => vec![format!("must be in canonical form (\"{range}\")")],
        _ => Vec::new(),
    }
}

/// Returns the problem of a CIDR range, regardless of its form. Before 1.36, ranges that Go parses are valid.
pub(crate) fn range_problem(kubernetes: KubernetesVersion, text: &str) -> Option<&'static str> {
    let Some(range) = address::Range::parse(text) else {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    };
    if kubernetes < KubernetesVersion::V1_36 {
        return None;
    }
    let (ip, bits) = text.split_once('/').unwrap_or((text, ""));
    let leading_zero = bits.len() > 1 && bits.starts_with('0');
    match ip.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => Some("must not have an IPv4-mapped IPv6 address"),
        Ok(ip) if !leading_zero => (ip != range.network()).then_some("must not have bits set beyond the prefix length"),
        _ => Some("must not have leading 0s in IP or prefix length"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_prefix_can_end_with_a_dash() {
        assert!(NameRule::Subdomain.check_prefix("web-").is_empty());
        assert!(NameRule::Subdomain.check_prefix("a-").is_empty());
        assert!(!NameRule::Subdomain.check_prefix("-").is_empty());
    }
}
