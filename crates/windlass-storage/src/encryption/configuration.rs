//! The configuration file: kind `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`, as for kube-apiserver.

use std::{collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::provider::{Chain, Kind, Provider};

/// Which resources are encrypted, and how. Deserialize it from the file, then [`EncryptedStorage`](super::EncryptedStorage)
/// validates it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EncryptionConfiguration {
    #[allow(dead_code, reason = "only its type is checked")]
    api_version: ApiVersion,
    #[allow(dead_code, reason = "only its type is checked")]
    kind: ConfigurationKind,
    #[serde(default)]
    resources: Vec<Rule>,
}

#[derive(Deserialize)]
enum ApiVersion {
    #[serde(rename = "apiserver.config.k8s.io/v1")]
    V1,
}

#[derive(Deserialize)]
enum ConfigurationKind {
    EncryptionConfiguration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<ProviderConfiguration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderConfiguration {
    aesgcm: Option<Keys>,
    aescbc: Option<Keys>,
    secretbox: Option<Keys>,
    identity: Option<Identity>,
    kms: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    #[serde(default)]
    name: String,
    #[serde(default)]
    secret: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {}

/// The error for an invalid configuration. Errors do not contain keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join(", "))]
pub struct InvalidEncryption(Vec<String>);

/// The name of a resource in a configuration: `deployments.apps`, `*.apps`, `*.` or `*.*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupResource {
    pub(super) group: String,
    pub(super) resource: String,
}

/// Stands for all groups, or all resources of a group.
pub(super) const ANY: &str = "*";

/// Resources without an API, whose objects cannot be encrypted.
const WITHOUT_API: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

impl EncryptionConfiguration {
    /// Returns the providers of each resource.
    pub(super) fn chains(&self) -> Result<BTreeMap<GroupResource, Chain>, InvalidEncryption> {
        let mut problems = Problems::default();
        if self.resources.is_empty() {
            problems.required("resources", "at least one resources is required");
        }
        let mut chains: BTreeMap<GroupResource, Chain> = BTreeMap::new();
        let mut masked = None;
        for (at, rule) in self.resources.iter().enumerate() {
            let path = format!("resources[{at}]");
            rule.check_resources(&format!("{path}.resources"), &mut problems);
            if rule.providers.is_empty() {
                let path = format!("{path}.providers");
                problems.required(&path, &format!("at least one {path} is required"));
            }
            // A chain for each resource: ciphers cannot be cloned.
            for name in &rule.resources {
                let resource = GroupResource::parse(name);
                let earlier =
                    [(ANY, &*resource.group), (ANY, ANY)].map(|(resource, group)| GroupResource::new(group, resource));
                if let Some(rule) = earlier.iter().find(|earlier| chains.contains_key(earlier)) {
                    masked
                        .get_or_insert_with(|| format!("resource \"{resource}\" is masked by earlier rule \"{rule}\""));
                }
                // Problems of the providers are reported once.
                let mut ignored = Problems::default();
                let chain = chains.entry(resource).or_insert_with(|| Chain(Vec::new()));
                chain.0.extend(rule.providers(&path, &mut ignored));
            }
            rule.providers(&path, &mut problems);
        }
        problems.0.extend(masked.filter(|_| problems.0.is_empty()));
        if problems.0.is_empty() { Ok(chains) } else { Err(InvalidEncryption(problems.0)) }
    }
}

impl Rule {
    fn check_resources(&self, path: &str, problems: &mut Problems) {
        if self.resources.is_empty() {
            problems.required(path, &format!("at least one {path} is required"));
        }
        let parsed: Vec<GroupResource> = self.resources.iter().map(|name| GroupResource::parse(name)).collect();
        let pairs =
            || parsed.iter().enumerate().flat_map(|(at, one)| parsed[at + 1..].iter().map(move |other| (one, other)));
        let all = |resource: &GroupResource| resource.group == ANY && resource.resource == ANY;
        let overlaps = |one: &GroupResource, other: &GroupResource| {
            all(one) || all(other) || one.group == other.group && (one.resource == ANY || other.resource == ANY)
        };
        let shown =
            || format!("[{}]", self.resources.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(","));
        if pairs().any(|(one, other)| one == other) {
            problems.invalid(path, &shown(), "the same resource cannot be specified multiple times");
        }
        if pairs().any(|(one, other)| one != other && overlaps(one, other)) {
            let why = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
            problems.invalid(path, &shown(), why);
        }
        for (at, (name, resource)) in self.resources.iter().zip(&parsed).enumerate() {
            if let Some(why) = resource.problem(name) {
                problems.invalid(&format!("{path}[{at}]"), &format!("{name:?}"), why);
            }
        }
    }

    /// Returns the providers, one for each key.
    fn providers(&self, path: &str, problems: &mut Problems) -> Vec<Provider> {
        let mut providers = Vec::new();
        for (at, provider) in self.providers.iter().enumerate() {
            let path = format!("{path}.providers[{at}]");
            let ciphers = [
                (Kind::AesGcm, &provider.aesgcm),
                (Kind::AesCbc, &provider.aescbc),
                (Kind::Secretbox, &provider.secretbox),
            ];
            let count = ciphers.iter().filter(|(_, keys)| keys.is_some()).count()
                + usize::from(provider.identity.is_some())
                + usize::from(provider.kms.is_some());
            match count {
                0 => problems.add(
                    &path,
                    "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
                ),
                1 => {}
                _ => problems.add(
                    &path,
                    "more than one provider specified in a single element, should split into different list elements",
                ),
            }
            if count != 1 {
                continue;
            }
            if provider.kms.is_some() {
                problems.add(&format!("{path}.kms"), "Windlass does not support KMS providers");
            }
            if provider.identity.is_some() {
                providers.push(Provider::identity());
            }
            for (kind, keys) in ciphers.into_iter().filter_map(|(kind, keys)| Some((kind, keys.as_ref()?))) {
                providers.extend(keys.providers(kind, &format!("{path}.{}.keys", kind.name()), problems));
            }
        }
        providers
    }
}

impl Keys {
    fn providers(&self, kind: Kind, path: &str, problems: &mut Problems) -> Vec<Provider> {
        if self.keys.is_empty() {
            problems.required(path, "at least one keys is required");
        }
        let mut providers = Vec::new();
        for (at, Key { name, secret }) in self.keys.iter().enumerate() {
            let path = |field: &str| format!("{path}[{at}].{field}");
            if name.is_empty() {
                problems.required(&path("name"), "name is a mandatory field for a key");
            }
            if secret.is_empty() {
                problems.required(&path("secret"), "secret is a mandatory field for a key");
                continue;
            }
            let Ok(secret) = STANDARD.decode(secret) else {
                problems.invalid(&path("secret"), REDACTED, "secrets must be base64 encoded");
                continue;
            };
            if let Some(provider) = Provider::new(kind, name, &secret) {
                providers.push(provider);
            } else {
                let sizes: Vec<String> = kind.key_sizes().iter().map(ToString::to_string).collect();
                let (found, sizes) = (secret.len(), sizes.join(" "));
                let why = format!("secret is not of the expected length, got {found}, expected one of [{sizes}]");
                problems.invalid(&path("secret"), REDACTED, &why);
            }
        }
        providers
    }
}

/// Stands for a key in errors.
const REDACTED: &str = "\"REDACTED\"";

impl GroupResource {
    pub(super) fn new(group: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }

    fn parse(name: &str) -> Self {
        let (resource, group) = name.split_once('.').unwrap_or((name, ""));
        Self::new(group, resource)
    }

    fn problem(&self, name: &str) -> Option<&'static str> {
        Some(match (&*self.resource, &*self.group) {
            _ if name.chars().any(char::is_uppercase) => "resource name should not contain capital letters",
            _ if name == ANY => {
                "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
            }
            _ if WITHOUT_API.contains(&name) => "resources which do not have REST API/s cannot be encrypted",
            (_, "events.k8s.io") => {
                "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
            }
            (_, "extensions") => "'extensions' group has been removed and cannot be used for encryption",
            (resource, ANY) if resource != ANY => "encrypting the same resource across groups is not supported",
            _ => return None,
        })
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.resource, &*self.group) {
            (resource, "") if resource != ANY => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

/// Problems with their paths, in the words of kube-apiserver.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn required(&mut self, path: &str, why: &str) {
        self.0.push(format!("{path}: Required value: {why}"));
    }

    fn invalid(&mut self, path: &str, value: &str, why: &str) {
        self.0.push(format!("{path}: Invalid value: {value}: {why}"));
    }

    /// Adds a problem whose value may contain keys.
    fn add(&mut self, path: &str, why: &str) {
        self.0.push(format!("{path}: {why}"));
    }
}

impl fmt::Debug for EncryptionConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources: Vec<&String> = self.resources.iter().flat_map(|rule| &rule.resources).collect();
        f.debug_struct("EncryptionConfiguration").field("resources", &resources).finish_non_exhaustive()
    }
}
