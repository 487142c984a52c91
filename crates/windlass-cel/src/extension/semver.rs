//! Semantic versions.

use std::cmp::Ordering;

/// A semantic version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    pub(crate) numbers: [u64; 3],
    pre: Vec<String>,
    build: String,
}

impl Version {
    /// Parses a version.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("Version string empty");
        }
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let parts = core.split('.').collect::<Vec<_>>();
        let [major, minor, patch] = parts[..] else { return Err("No Major.Minor.Patch elements found") };
        let pre = pre.map_or_else(Vec::new, |pre| pre.split('.').map(str::to_owned).collect());
        let is_identifier =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let is_padded =
            |text: &str| text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        if pre.iter().any(|part| !is_identifier(part) || is_padded(part))
            || build.is_some_and(|build| !build.split('.').all(is_identifier))
        {
            return Err("Invalid character(s) found");
        }
        let numbers = [numeric(major)?, numeric(minor)?, numeric(patch)?];
        Ok(Self { numbers, pre, build: build.unwrap_or_default().to_owned() })
    }

    /// Parses a version with tolerated deviations: a leading `v`, fewer numbers, leading zeros.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Self, &'static str> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts = text.splitn(3, '.').map(unpadded).collect::<Vec<_>>();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data");
        }
        parts.resize(parts.len().max(3), "0".to_owned());
        Self::parse(&parts.join("."))
    }

    /// Compares by precedence. Build metadata is ignored.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let by_part = |(a, b): (&String, &String)| match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a.cmp(b),
        };
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let differing = self.pre.iter().zip(&other.pre).map(by_part).find(|order| order.is_ne());
                differing.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        })
    }
}

fn numeric(text: &str) -> Result<u64, &'static str> {
    if text.len() > 1 && text.starts_with('0') {
        return Err("Version number must not contain leading zeroes");
    }
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten().ok_or("Invalid character(s) found")
}

fn unpadded(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    if part.len() > 1 && rest.len() < part.len() && !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("0{rest}");
    }
    if part.len() > 1 { rest.to_owned() } else { part.to_owned() }
}
