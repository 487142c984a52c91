//! Pairs of a local port and a pod's port, in kubectl's syntax.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A local port and the pod's port that it forwards to: `8080:80`, `80` for the same local port, or `:80` for any free
/// local port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair {
    /// The local port; 0 for any free port.
    pub local: u16,
    /// The pod's port; never 0.
    pub remote: u16,
}

/// The error of a text that is not a pair of ports.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a pair of ports such as 8080:80, :80 or 80")]
pub struct PortPairError {
    text: String,
}

impl FromStr for PortPair {
    type Err = PortPairError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PortPairError { text: text.to_owned() };
        // Parsing as `u16` alone would accept a sign.
        let port = |digits: &str| {
            let unsigned = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u16>().ok().filter(|_| unsigned).ok_or_else(wrong)
        };
        let (local, remote) = match text.split_once(':') {
            None => (port(text)?, port(text)?),
            Some(("", remote)) => (0, port(remote)?),
            Some((local, remote)) => (port(local)?, port(remote)?),
        };
        if remote == 0 { Err(wrong()) } else { Ok(Self { local, remote }) }
    }
}

impl fmt::Display for PortPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.local, self.remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_read_as_kubectl_reads_them() {
        for (text, local, remote) in [("80", 80, 80), ("8080:80", 8080, 80), (":80", 0, 80), ("0:80", 0, 80)] {
            assert_eq!(text.parse(), Ok(PortPair { local, remote }), "{text}");
        }
        for text in ["", ":", "80:", "a:80", "80:a", "1:2:3", "65536", "0", "8080:0", "-1:80", "+80"] {
            let error = text.parse::<PortPair>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
