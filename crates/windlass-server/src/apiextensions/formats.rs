//! The string formats in schemas.
//!
//! Unknown formats are ignored, as in the real server.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::OnceLock,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::civil::Date;
use regex::Regex;

use crate::kubernetes::KubernetesVersion::{self, V1_34, V1_36};

/// A format: its name without dashes, and its check.
struct Format {
    name: &'static str,
    fits: fn(&str) -> bool,
}

const FORMATS: &[Format] = &[
    Format { name: "byte", fits: |text| !text.is_empty() && STANDARD.decode(text).is_ok() },
    Format { name: "cidr", fits: is_range },
    Format { name: "date", fits: is_date },
    Format { name: "datetime", fits: is_date_time },
    Format { name: "duration", fits: is_duration },
    Format { name: "email", fits: is_email },
    Format { name: "hexcolor", fits: |text| matches(text, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$") },
    Format { name: "hostname", fits: is_host },
    Format { name: "ipv4", fits: |text| text.parse::<Ipv4Addr>().is_ok() },
    Format { name: "ipv6", fits: |text| text.parse::<Ipv6Addr>().is_ok() },
    Format { name: "k8slongname", fits: |text| crate::object::dns_subdomain(text).is_empty() },
    Format { name: "k8sshortname", fits: |text| crate::object::dns_label(text).is_empty() },
    Format { name: "mac", fits: is_hardware_address },
    Format { name: "ssn", fits: |text| matches(text, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$") },
    Format { name: "uri", fits: is_uri },
    Format { name: "uuid", fits: |text| is_uuid(text, None) },
    Format { name: "uuid3", fits: |text| is_uuid(text, Some('3')) },
    Format { name: "uuid4", fits: |text| is_uuid(text, Some('4')) },
    Format { name: "uuid5", fits: |text| is_uuid(text, Some('5')) },
];

/// Returns the format by which a Kubernetes version checks the values of a type; empty if it ignores the format.
pub(super) fn checked<'f>(kubernetes: KubernetesVersion, kind: &str, format: &'f str) -> &'f str {
    let is_ignored = match (kind, format) {
        ("integer" | "number", _) => kubernetes < V1_36,
        (_, "k8s-long-name" | "k8s-short-name") => kubernetes < V1_34,
        _ => false,
    };
    if is_ignored { "" } else { format }
}

/// Reports whether a text has a format. Unknown formats fit any text.
pub(super) fn fits(format: &str, text: &str) -> bool {
    known(format).is_none_or(|known| (known.fits)(text))
}

/// Reports whether a format is known.
pub(super) fn is_known(format: &str) -> bool {
    known(format).is_some()
}

fn known(format: &str) -> Option<&'static Format> {
    let name = format.replace('-', "");
    FORMATS.iter().find(|known| known.name == name)
}

/// Matches a pattern of this file. These are few and small, so they are compiled each time.
fn matches(text: &str, pattern: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

fn is_date(text: &str) -> bool {
    text.len() == "2006-01-02".len() && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    static TIME: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = TIME
        .get_or_init(|| Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok());
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let Some(found) = pattern.as_ref().and_then(|pattern| pattern.captures(time)) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Accepts Go's durations, and durations with units as words.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "m", "h", "d", "w"];
    const WORDS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    if crate::codec::check_duration(text).is_ok() {
        return true;
    }
    let Ok(part) = Regex::new(r"(\d+)\s*([A-Za-zµ]+)") else { return false };
    part.captures_iter(text).any(|found| {
        let unit = found[2].to_lowercase();
        UNITS.contains(&&*unit) || WORDS.iter().any(|word| unit.starts_with(word))
    })
}

fn is_email(text: &str) -> bool {
    let address = text.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).unwrap_or(text);
    let Some((local, host)) = address.rsplit_once('@') else { return false };
    let fits = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>(),;:\"@".contains(c));
    fits(local) && fits(host)
}

fn is_host(text: &str) -> bool {
    const PATTERN: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    static HOST: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = HOST.get_or_init(|| Regex::new(PATTERN).ok());
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
        && text.len() <= 255
        && text.split('.').all(|part| part.len() <= 63)
}

fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => bits <= 32,
        (_, Ok(_)) => bits <= 128,
        _ => false,
    }
}

fn is_hardware_address(text: &str) -> bool {
    let byte = "[0-9a-fA-F]{2}";
    [(":", byte), ("-", byte), (r"\.", "[0-9a-fA-F]{4}")].iter().any(|(separator, group)| {
        let bytes = text.chars().filter(char::is_ascii_hexdigit).count() / 2;
        matches!(bytes, 6 | 8 | 20) && matches(text, &format!("^{group}({separator}{group})+$"))
    })
}

/// Accepts absolute paths and URIs with a scheme.
fn is_uri(text: &str) -> bool {
    let scheme = |text: &str| matches(text, "^[a-zA-Z][a-zA-Z0-9+.-]*:.");
    !text.contains(|c: char| c.is_control() || c == ' ') && (text.starts_with('/') || scheme(text))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let (third, fourth) = match version {
        None => ("[0-9a-f]{4}".to_owned(), "[0-9a-f]{4}"),
        Some('3') => ("3[0-9a-f]{3}".to_owned(), "[0-9a-f]{4}"),
        Some(version) => (format!("{version}[0-9a-f]{{3}}"), "[89ab][0-9a-f]{3}"),
    };
    matches(text, &format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_are_checked_and_unknown_ones_ignored() {
        for (format, good, bad) in [
            ("byte", "AAE=", "AA E"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("date", "2020-12-31", "2020-13-01"),
            ("date-time", "2020-01-01T00:00:00.5+01:00", "2020-01-01"),
            ("duration", "3 days", "soon"),
            ("email", "Jane <jane@example.com>", "jane"),
            ("hostname", "a-b.example.com", "-a.example.com"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv6", "::1", "1.2.3.4"),
            ("k8s-short-name", "a-b", "a.b"),
            ("mac", "00:11:22:33:44:55", "00:11"),
            ("uri", "https://example.com/x?y", "no uri"),
            ("uuid4", "0A0a0a0a-0000-4000-8000-000000000000", "0a0a0a0a-0000-1000-8000-000000000000"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("none-that-is-known", "anything"));
    }
}
