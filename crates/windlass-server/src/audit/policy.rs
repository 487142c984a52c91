//! The audit policy: kind `Policy` of `audit.k8s.io/v1`.

use serde::Deserialize;
use serde_json::Value;
use windlass_api::Cause;

use crate::{
    identity::User,
    object::{Errors, Path, dns_subdomain},
    request::RequestInfo,
};

const GROUP: &str = "audit.k8s.io";
const VERSION: &str = "v1";
const KIND: &str = "Policy";

const LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];
const STAGES: [&str; 4] = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];

/// The fields of a policy, for the warning about others: the fields of the policy, of a rule, and of its resources.
const FIELDS: [&[&str]; 3] = [
    &["kind", "apiVersion", "metadata", "rules", "omitStages", "omitManagedFields"],
    &[
        "level",
        "users",
        "userGroups",
        "verbs",
        "resources",
        "namespaces",
        "nonResourceURLs",
        "omitStages",
        "omitManagedFields",
    ],
    &["group", "resources", "resourceNames"],
];

/// A valid audit policy.
///
/// ```
/// use windlass_server::AuditPolicy;
///
/// let policy = AuditPolicy::parse(serde_json::json!({
///     "apiVersion": "audit.k8s.io/v1",
///     "kind": "Policy",
///     "rules": [
///         {"level": "None", "nonResourceURLs": ["/healthz*"]},
///         {"level": "Request", "resources": [{"group": "", "resources": ["secrets"]}]},
///         {"level": "Metadata"},
///     ],
/// }))?;
/// assert!(policy.unknown_fields().is_empty());
/// # Ok::<(), windlass_server::AuditPolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AuditPolicy {
    file: PolicyFile,
    unknown: Vec<String>,
}

/// The error for an unusable audit policy. The messages are those of kube-apiserver.
#[derive(Debug, thiserror::Error)]
pub enum AuditPolicyError {
    /// The file is not a policy, or a field has the wrong type.
    #[error("failed decoding: {0}")]
    Decode(String),
    /// The file has no kind or no version.
    #[error("unknown group version field {0} in policy")]
    UnknownVersion(String),
    /// The policy is invalid, for these reasons.
    #[error("{}", join(.0))]
    Invalid(Vec<String>),
    /// The policy has no rules.
    #[error("loaded illegal policy with 0 rules")]
    NoRules,
}

/// The amount of information in an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// The stage of a request that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// The settings for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evaluation {
    pub(crate) level: Level,
    /// A bit for each omitted stage.
    omitted: u8,
    pub(crate) omits_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PolicyFile {
    rules: Option<Vec<Rule>>,
    omit_stages: Option<Vec<String>>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    level: Option<String>,
    users: Option<Vec<String>>,
    user_groups: Option<Vec<String>>,
    verbs: Option<Vec<String>>,
    resources: Option<Vec<GroupResources>>,
    namespaces: Option<Vec<String>>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Option<Vec<String>>,
    omit_stages: Option<Vec<String>>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupResources {
    group: Option<String>,
    resources: Option<Vec<String>>,
    resource_names: Option<Vec<String>>,
}

/// Formats several errors as Go does.
fn join(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

// === impl AuditPolicy ===

impl AuditPolicy {
    /// Parses and validates the content of a file, which was YAML or JSON. As in kube-apiserver, unknown fields are no
    /// error: [`Self::unknown_fields`] returns them.
    pub fn parse(file: Value) -> Result<Self, AuditPolicyError> {
        let text = |field: &str| file.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let is_complete = !api_version.is_empty() && !kind.is_empty();
        // Go completes both with the kind that it decodes into.
        let api_version = if api_version.is_empty() { format!("{GROUP}/__internal") } else { api_version };
        let kind = if kind.is_empty() { KIND.to_owned() } else { kind };
        if !file.is_null() && !file.is_object() {
            return Err(AuditPolicyError::Decode("the file is not an object".to_owned()));
        }
        if api_version == format!("{GROUP}/__internal") {
            return Err(AuditPolicyError::UnknownVersion(format!("{api_version}, Kind={kind}")));
        }
        if api_version != format!("{GROUP}/{VERSION}") || (is_complete && kind != KIND) {
            return Err(AuditPolicyError::Decode(format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/audit/scheme.go:30\""
            )));
        }
        let unknown = unknown_fields(&file);
        let file: PolicyFile =
            serde_json::from_value(file).map_err(|error| AuditPolicyError::Decode(error.to_string()))?;
        let errors = file.problems();
        if !errors.is_empty() {
            return Err(AuditPolicyError::Invalid(errors));
        }
        if file.rules.as_ref().is_none_or(Vec::is_empty) {
            return Err(AuditPolicyError::NoRules);
        }
        Ok(Self { file, unknown })
    }

    /// Returns the fields that the policy does not have. They are probably misspelled or wrongly indented.
    #[must_use]
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown
    }

    /// Returns the settings of the first rule that matches a request. Without one, the request is not audited. `user` is
    /// `None` if the authentication failed.
    pub(crate) fn evaluate(&self, user: Option<&User>, request: &RequestInfo) -> Evaluation {
        let rules = self.file.rules.as_deref().unwrap_or_default();
        let policy_default = self.file.omit_managed_fields.unwrap_or_default();
        let Some(rule) = rules.iter().find(|rule| rule.matches(user, request)) else { return Evaluation::default() };
        let stages = self.file.omit_stages.iter().chain(&rule.omit_stages).flatten();
        Evaluation {
            level: rule.level(),
            omitted: stages.filter_map(|name| Stage::parse(name)).fold(0, |omitted, stage| omitted | stage.bit()),
            omits_managed_fields: rule.omit_managed_fields.unwrap_or(policy_default),
        }
    }
}

impl PolicyFile {
    fn problems(&self) -> Vec<String> {
        let mut errors = Errors::default();
        check_stages(self.omit_stages.as_deref(), &Path::new("omitStages"), &mut errors);
        let list = Path::new("rules");
        for (index, rule) in self.rules.iter().flatten().enumerate() {
            rule.validate(&list.index(index), &mut errors);
        }
        errors.into_causes().into_iter().map(|Cause { field, message, .. }| format!("{field}: {message}")).collect()
    }
}

impl Rule {
    fn level(&self) -> Level {
        self.level.as_deref().and_then(Level::parse).unwrap_or_default()
    }

    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        match self.level.as_deref().unwrap_or_default() {
            "" => errors.required(&path.child("level"), ""),
            level if Level::parse(level).is_none() => errors.unsupported(&path.child("level"), level, &LEVELS),
            _ => {}
        }
        let place = path.child("nonResourceURLs");
        let urls = self.non_resource_urls.as_deref().unwrap_or_default();
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            if !url.starts_with('/') {
                let why = "non-resource URL rules must begin with a '/' character";
                errors.invalid(&place.index(index), &**url, why);
            }
            if url.find('*').is_some_and(|at| at + 1 < url.len()) {
                let why = "non-resource URL wildcards '*' must be the final character of the rule";
                errors.invalid(&place.index(index), &**url, why);
            }
        }
        self.validate_resources(&path.child("resources"), errors);
        check_stages(self.omit_stages.as_deref(), &path.child("omitStages"), errors);
        let is_empty = |list: Option<usize>| list.unwrap_or_default() == 0;
        let has_resources = !is_empty(self.resources.as_ref().map(Vec::len));
        if !urls.is_empty() && (has_resources || !is_empty(self.namespaces.as_ref().map(Vec::len))) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&place, &Value::from(urls), why);
        }
    }

    /// Validates the resources. As in kube-apiserver, the errors do not name the index.
    fn validate_resources(&self, path: &Path<'_>, errors: &mut Errors) {
        for resources in self.resources.iter().flatten() {
            let group = resources.group.as_deref().unwrap_or_default();
            if !matches!(group, "" | "*") {
                let problems = dns_subdomain(group);
                if !problems.is_empty() {
                    errors.invalid(&path.child("group"), group, &problems.join(","));
                }
            }
            let names = resources.resource_names.as_deref().unwrap_or_default();
            if !names.is_empty() && resources.resources.as_ref().is_none_or(Vec::is_empty) {
                let why = "using resourceNames requires at least one resource";
                errors.invalid(&path.child("resourceNames"), &Value::from(names), why);
            }
        }
    }

    fn matches(&self, user: Option<&User>, request: &RequestInfo) -> bool {
        let given = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
        if given(&self.users) && !user.is_some_and(|user| contains(self.users.as_deref(), &user.name)) {
            return false;
        }
        if given(&self.user_groups)
            && !user.is_some_and(|user| user.groups.iter().any(|group| contains(self.user_groups.as_deref(), group)))
        {
            return false;
        }
        if given(&self.verbs) && !contains(self.verbs.as_deref(), &request.verb) {
            return false;
        }
        if given(&self.namespaces) || self.resources.as_ref().is_some_and(|list| !list.is_empty()) {
            return self.matches_resource(request);
        }
        if given(&self.non_resource_urls) {
            let matches = |pattern: &String| path_matches(&request.path, pattern);
            return request.resource.is_none() && self.non_resource_urls.iter().flatten().any(matches);
        }
        true
    }

    fn matches_resource(&self, request: &RequestInfo) -> bool {
        let Some(resource) = &request.resource else { return false };
        let is_in = |namespaces: &Vec<String>| {
            let namespace = resource.namespace.as_deref().unwrap_or_default();
            namespaces.is_empty() || namespaces.iter().any(|own| own == namespace)
        };
        if !self.namespaces.as_ref().is_none_or(is_in) {
            return false;
        }
        let resources = self.resources.as_deref().unwrap_or_default();
        let name = resource.requested_name();
        resources.is_empty()
            || resources.iter().any(|own| {
                let group = own.group.as_deref().unwrap_or_default();
                let kinds = own.resources.as_deref().unwrap_or_default();
                let names = own.resource_names.as_deref().unwrap_or_default();
                (group == resource.group || group == "*")
                    && (kinds.is_empty()
                        || (names.is_empty() || names.iter().any(|own| own == name))
                            && kinds.iter().any(|own| kind_matches(own, &resource.resource, &resource.subresource)))
            })
    }
}

fn contains(list: Option<&[String]>, text: &str) -> bool {
    list.unwrap_or_default().iter().any(|own| own == text)
}

/// Reports whether a pattern such as `pods`, `pods/log`, `pods/*`, `*/scale` or `*` matches.
fn kind_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    let is_whole = match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some((kind, part)) => kind == resource && part == subresource && !part.is_empty(),
    };
    is_whole
        || pattern == "*"
        || (!subresource.is_empty() && pattern.strip_prefix("*/") == Some(subresource))
        || pattern.strip_suffix("/*") == Some(resource)
}

fn path_matches(path: &str, pattern: &str) -> bool {
    pattern == "*" || pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

fn check_stages(stages: Option<&[String]>, path: &Path<'_>, errors: &mut Errors) {
    for (index, stage) in stages.unwrap_or_default().iter().enumerate() {
        if Stage::parse(stage).is_none() {
            errors.invalid(&path.index(index), &**stage, &format!("allowed stages are {}", STAGES.join(",")));
        }
    }
}

fn unknown_fields(file: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut collect = |value: &Value, place: &str, known: &[&str]| {
        let keys = value.as_object().into_iter().flat_map(|fields| fields.keys());
        unknown.extend(keys.filter(|key| !known.contains(&&***key)).map(|key| format!("{place}{key}")));
    };
    let items = |value: &'_ Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    collect(file, "", FIELDS[0]);
    for (index, rule) in items(file, "rules").iter().enumerate() {
        collect(rule, &format!("rules[{index}]."), FIELDS[1]);
        for (number, resources) in items(rule, "resources").iter().enumerate() {
            collect(resources, &format!("rules[{index}].resources[{number}]."), FIELDS[2]);
        }
    }
    unknown
}

// === impl Level, Stage, Evaluation ===

impl Level {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        LEVELS[self as usize]
    }
}

impl Stage {
    fn parse(name: &str) -> Option<Self> {
        let all = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];
        all.into_iter().find(|stage| stage.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        STAGES[self as usize]
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Evaluation {
    pub(crate) const fn omits(self, stage: Stage) -> bool {
        self.omitted & stage.bit() != 0
    }
}
