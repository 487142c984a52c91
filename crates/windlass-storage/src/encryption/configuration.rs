//! The configuration file: kind `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`, as for kube-apiserver.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

use self::kms::KmsConfiguration;
use super::{
    cipher::{Cipher, Kind},
    kms::Kms,
    provider::{self, Chain, Provider},
};

mod kms;

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
    kms: Option<KmsConfiguration>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEncryption(Vec<String>);

impl fmt::Display for InvalidEncryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        provider::aggregate(&self.0, f)
    }
}

impl std::error::Error for InvalidEncryption {}

/// The providers of each resource, and the KMS providers among them.
#[derive(Default)]
pub(super) struct Providers {
    pub(super) chains: BTreeMap<GroupResource, Chain>,
    pub(super) kms: Vec<Arc<Kms>>,
}

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
    pub(super) fn providers(&self) -> Result<Providers, InvalidEncryption> {
        let mut problems = Problems::default();
        if self.resources.is_empty() {
            problems.required("resources", "at least one resources is required");
        }
        let mut rules = Vec::new();
        for (at, rule) in self.resources.iter().enumerate() {
            let path = format!("resources[{at}]");
            rule.check_resources(&format!("{path}.resources"), &mut problems);
            if rule.providers.is_empty() {
                let path = format!("{path}.providers");
                problems.required(&path, &format!("at least one {path} is required"));
            }
            rules.push((rule, rule.providers(&path, &mut problems)));
        }
        if !problems.list.is_empty() {
            return Err(InvalidEncryption(problems.list));
        }
        // The errors of kube-apiserver for a valid configuration that it does not support. It reports the first one.
        let mut built = Providers::default();
        for (rule, providers) in rules {
            if let Some(kms) =
                rule.providers.iter().filter_map(|provider| provider.kms.as_ref()).find(|kms| kms.is_v1())
            {
                return Err(InvalidEncryption(vec![kms.unsupported()]));
            }
            for name in &rule.resources {
                let resource = GroupResource::parse(name);
                let earlier =
                    [(ANY, &*resource.group), (ANY, ANY)].map(|(resource, group)| GroupResource::new(group, resource));
                if let Some(rule) = earlier.iter().find(|earlier| built.chains.contains_key(earlier)) {
                    let masked = format!("resource \"{resource}\" is masked by earlier rule \"{rule}\"");
                    return Err(InvalidEncryption(vec![masked]));
                }
                let chain = built.chains.entry(resource).or_insert_with(|| Chain(Vec::new()));
                chain.0.extend(providers.iter().cloned());
            }
            built.kms.extend(providers.iter().filter_map(|provider| match &**provider {
                Provider::Kms(kms) => Some(Arc::clone(kms)),
                _ => None,
            }));
        }
        Ok(built)
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

    /// Returns the providers that are valid, and adds the problems of the others.
    fn providers(&self, path: &str, problems: &mut Problems) -> Vec<Arc<Provider>> {
        let mut providers = Vec::new();
        for (at, provider) in self.providers.iter().enumerate() {
            providers.extend(provider.build(&format!("{path}.providers[{at}]"), problems).map(Arc::new));
        }
        providers
    }
}

impl ProviderConfiguration {
    fn build(&self, path: &str, problems: &mut Problems) -> Option<Provider> {
        let ciphers = [(Kind::AesGcm, &self.aesgcm), (Kind::AesCbc, &self.aescbc), (Kind::Secretbox, &self.secretbox)];
        let count = ciphers.iter().filter(|(_, keys)| keys.is_some()).count()
            + usize::from(self.identity.is_some())
            + usize::from(self.kms.is_some());
        match count {
            0 => problems.add(
                path,
                "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
            ),
            1 => {}
            _ => problems.add(
                path,
                "more than one provider specified in a single element, should split into different list elements",
            ),
        }
        if let Some(kms) = &self.kms {
            return kms.build(&format!("{path}.kms"), problems).map(|kms| Provider::Kms(Arc::new(kms)));
        }
        match ciphers.into_iter().find_map(|(kind, keys)| Some((kind, keys.as_ref()?))) {
            Some((kind, keys)) => Some(keys.build(kind, &format!("{path}.{}.keys", kind.name()), problems)),
            None => self.identity.as_ref().map(|Identity {}| Provider::Identity),
        }
    }
}

impl Keys {
    fn build(&self, kind: Kind, path: &str, problems: &mut Problems) -> Provider {
        if self.keys.is_empty() {
            problems.required(path, "at least one keys is required");
        }
        let mut ciphers = Vec::new();
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
            if let Some(cipher) = Cipher::new(kind, &secret) {
                ciphers.push((name.clone(), cipher));
            } else {
                let sizes: Vec<String> = kind.key_sizes().iter().map(ToString::to_string).collect();
                let (found, sizes) = (secret.len(), sizes.join(" "));
                let why = format!("secret is not of the expected length, got {found}, expected one of [{sizes}]");
                problems.invalid(&path("secret"), REDACTED, &why);
            }
        }
        Provider::Keys(provider::Keys::new(kind, ciphers))
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
struct Problems {
    list: Vec<String>,
    /// The names of the KMS providers so far.
    kms: BTreeSet<String>,
}

impl Problems {
    fn required(&mut self, path: &str, why: &str) {
        self.list.push(format!("{path}: Required value: {why}"));
    }

    fn invalid(&mut self, path: &str, value: &str, why: &str) {
        self.list.push(format!("{path}: Invalid value: {value}: {why}"));
    }

    /// Adds a problem whose value may contain keys.
    fn add(&mut self, path: &str, why: &str) {
        self.list.push(format!("{path}: {why}"));
    }
}

impl fmt::Debug for EncryptionConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resources: Vec<&String> = self.resources.iter().flat_map(|rule| &rule.resources).collect();
        f.debug_struct("EncryptionConfiguration").field("resources", &resources).finish_non_exhaustive()
    }
}
