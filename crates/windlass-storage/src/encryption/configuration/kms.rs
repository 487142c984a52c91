//! KMS providers in the configuration file.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use windlass_api::{format_duration, parse_duration};

use super::{
    super::kms::{Endpoint, Kms},
    Problems,
};

/// The version of the API of plugins, if none is set.
const DEFAULT_VERSION: &str = "v1";

/// The time for a call, if none is set.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KmsConfiguration {
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    endpoint: String,
    cachesize: Option<i32>,
    #[serde(default)]
    timeout: Timeout,
}

/// The time for a call.
struct Timeout {
    /// `None` if it is not positive.
    time: Option<Duration>,
    /// As Go shows it.
    shown: String,
}

impl Default for Timeout {
    fn default() -> Self {
        Self { time: Some(DEFAULT_TIMEOUT), shown: "3s".to_owned() }
    }
}

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let duration = parse_duration(&text).map_err(serde::de::Error::custom)?;
        let time = Duration::try_from(duration).ok().filter(|time| !time.is_zero());
        Ok(Self { time, shown: format_duration(duration) })
    }
}

impl KmsConfiguration {
    fn api_version(&self) -> &str {
        if self.api_version.is_empty() { DEFAULT_VERSION } else { &self.api_version }
    }

    pub(super) fn is_v1(&self) -> bool {
        self.api_version() == DEFAULT_VERSION
    }

    /// Returns the error for version 1. kube-apiserver reports the same, and names the feature gate that permits it.
    pub(super) fn unsupported(&self) -> String {
        format!(
            "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set apiVersion: v2 \
             for the provider {:?}",
            self.name
        )
    }

    /// Returns the provider if it is valid, or else adds the problems.
    pub(super) fn build(&self, path: &str, problems: &mut Problems) -> Option<Kms> {
        let Self { name, endpoint, cachesize, timeout, .. } = self;
        let before = problems.list.len();
        self.check_name(&format!("{path}.name"), problems);
        if timeout.time.is_none() {
            let value = format!("{:?}", timeout.shown);
            problems.invalid(&format!("{path}.timeout"), &value, "timeout should be a positive value");
        }
        let parsed = if endpoint.is_empty() {
            Err("endpoint is a mandatory field for a kms".to_owned())
        } else {
            Endpoint::parse(endpoint)
        };
        if let Err(why) = &parsed {
            problems.invalid(&format!("{path}.endpoint"), &format!("{endpoint:?}"), why);
        }
        match cachesize {
            Some(size) if !self.is_v1() => {
                problems.invalid(&format!("{path}.cachesize"), &size.to_string(), "cachesize is not supported in v2");
            }
            Some(0) => {
                let why = "cachesize should be a positive value, or negative to disable";
                problems.invalid(&format!("{path}.cachesize"), "0", why);
            }
            _ => {}
        }
        if !matches!(self.api_version(), "v1" | "v2") {
            let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
            problems.invalid(&format!("{path}.apiVersion"), &format!("{:?}", self.api_version()), why);
        }
        if problems.list.len() > before {
            return None;
        }
        Some(Kms::new(name, parsed.ok()?, timeout.time?))
    }

    fn check_name(&self, path: &str, problems: &mut Problems) {
        let name = &self.name;
        if name.is_empty() {
            problems.required(path, "name is a mandatory field for a provider");
        }
        let shown = format!("{name:?}");
        if !self.is_v1() && name.contains(':') {
            problems.invalid(path, &shown, &format!("invalid KMS provider name {name}, must not contain ':'"));
        }
        if !problems.kms.insert(name.clone()) && !self.is_v1() {
            problems.invalid(path, &shown, &format!("duplicate KMS provider name {name}, names must be unique"));
        }
    }
}
