//! The types that Kubernetes adds to CEL.

mod semver;
mod url;

use std::net::IpAddr;

use ipnet::IpNet;
use windlass_api::{Quantity, validation};

pub(crate) use self::{semver::Version, url::Url};
use crate::access::AccessValue;

/// A value of a Kubernetes type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExtensionValue {
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(IpNet),
    Url(Url),
    Semver(Version),
    Format(&'static NamedFormat),
    Access(AccessValue),
}

/// A named format, for the validation of texts.
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    /// Returns the problems of a text.
    pub(crate) problems: fn(&str) -> Vec<String>,
    /// The length of its pattern in the cost model.
    pub(crate) pattern: u64,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl ExtensionValue {
    /// Returns the name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Access(access) => access.type_name(),
        }
    }

    /// Returns the size in bytes if the cost of functions depends on it.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Ip(IpAddr::V4(_)) | Self::Cidr(IpNet::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) | Self::Cidr(IpNet::V6(_)) => 16,
            Self::Format(format) => format.pattern,
            _ => 1,
        }
    }
}

/// The formats by their names, as in `format.…` and `format.named`.
pub(crate) const FORMATS: &[(&str, NamedFormat)] = &[
    ("dns1123Label", NamedFormat { name: "DNS1123Label", problems: validation::dns_label, pattern: 30 }),
    ("dns1123Subdomain", NamedFormat { name: "DNS1123Subdomain", problems: validation::dns_subdomain, pattern: 60 }),
    ("dns1035Label", NamedFormat { name: "DNS1035Label", problems: validation::dns_label_1035, pattern: 30 }),
    ("qualifiedName", NamedFormat { name: "QualifiedName", problems: validation::qualified_name, pattern: 60 }),
    (
        "dns1123LabelPrefix",
        NamedFormat { name: "DNS1123LabelPrefix", problems: |text| validation::dns_label(&masked(text)), pattern: 30 },
    ),
    (
        "dns1123SubdomainPrefix",
        NamedFormat {
            name: "DNS1123SubdomainPrefix",
            problems: |text| validation::dns_subdomain(&masked(text)),
            pattern: 60,
        },
    ),
    (
        "dns1035LabelPrefix",
        NamedFormat {
            name: "DNS1035LabelPrefix",
            problems: |text| validation::dns_label_1035(&masked(text)),
            pattern: 30,
        },
    ),
    ("labelValue", NamedFormat { name: "LabelValue", problems: validation::label_value, pattern: 40 }),
    ("uri", NamedFormat { name: "URI", problems: uri, pattern: 1_000 }),
    ("uuid", NamedFormat { name: "UUID", problems: uuid, pattern: 100 }),
    ("byte", NamedFormat { name: "Byte", problems: byte, pattern: 100 }),
    ("date", NamedFormat { name: "Date", problems: date, pattern: 50 }),
    ("datetime", NamedFormat { name: "DateTime", problems: date_time, pattern: 100 }),
];

/// Completes a prefix for validation: a prefix may end with a dash.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn unless(fits: bool, why: &str) -> Vec<String> {
    if fits { Vec::new() } else { vec![why.to_owned()] }
}

fn uri(text: &str) -> Vec<String> {
    Url::parse(text).err().into_iter().collect()
}

fn uuid(text: &str) -> Vec<String> {
    let digits = text.bytes().filter(|b| *b != b'-').collect::<Vec<_>>();
    let dashed = text.len() == 36 && [8, 13, 18, 23].iter().all(|&at| text.as_bytes()[at] == b'-');
    let fits = digits.len() == 32 && (text.len() == 32 || dashed) && digits.iter().all(u8::is_ascii_hexdigit);
    unless(fits, "does not match the UUID format")
}

fn byte(text: &str) -> Vec<String> {
    use base64::Engine as _;
    unless(base64::engine::general_purpose::STANDARD.decode(text).is_ok(), "invalid base64")
}

fn date(text: &str) -> Vec<String> {
    unless(text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10, "invalid date")
}

fn date_time(text: &str) -> Vec<String> {
    unless(text.parse::<jiff::Timestamp>().is_ok(), "invalid datetime")
}
