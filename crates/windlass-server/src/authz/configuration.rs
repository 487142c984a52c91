//! The authorization configuration file: `AuthorizationConfiguration` of `apiserver.config.k8s.io`.

use std::{
    path::{Path as FilePath, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_api::{BoxError, parse_duration};
use windlass_cel::{Environment, Expected, Presence, Program, Schema};

use super::{
    chain::{AuthorizerChain, Link},
    webhook::{AccessReviewer, Answers, AuthorizationWebhook, OnFailure},
};
use crate::object::{Errors, Path, dns_subdomain};

const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];
const TYPES: [&str; 5] = ["AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
const MAX_CONDITIONS: usize = 64;
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
const ALLOWED_TTL: Duration = Duration::from_mins(5);
const DENIED_TTL: Duration = Duration::from_secs(30);

/// A valid configuration whose webhooks are not connected yet.
///
/// ```
/// use windlass_server::AuthorizationConfiguration;
///
/// let configuration = AuthorizationConfiguration::parse(serde_json::json!({
///     "apiVersion": "apiserver.config.k8s.io/v1",
///     "kind": "AuthorizationConfiguration",
///     "authorizers": [{"type": "RBAC", "name": "rbac"}],
/// }))?;
/// let chain = configuration.connect(|_| Err("there is no webhook".into()))?;
/// # drop(chain);
/// # Ok::<(), windlass_server::ConfigurationError>(())
/// ```
#[derive(Debug)]
pub struct AuthorizationConfiguration(Vec<Authorizer>);

/// The `--authorization-webhook-*` flags of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationWebhookOptions {
    /// The kubeconfig of the webhook.
    pub kubeconfig: PathBuf,
    /// The version of the reviews: `v1` or `v1beta1`.
    pub version: String,
    /// The time for which `allowed` decisions are cached. Zero disables the cache.
    pub authorized_ttl: Duration,
    /// The time for which other decisions are cached. Zero disables the cache.
    pub unauthorized_ttl: Duration,
}

impl AuthorizationWebhookOptions {
    /// Creates options with the defaults of kube-apiserver.
    #[must_use]
    pub fn new(kubeconfig: PathBuf) -> Self {
        let (authorized_ttl, unauthorized_ttl) = (ALLOWED_TTL, DENIED_TTL);
        Self { kubeconfig, version: "v1beta1".to_owned(), authorized_ttl, unauthorized_ttl }
    }
}

/// The error for an unusable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file is not an authorization configuration.
    #[error("cannot read the authorization configuration")]
    Read(#[from] serde_json::Error),
    /// The configuration is invalid, for these reasons.
    #[error("invalid authorization configuration: {}", .0.join(", "))]
    Invalid(Vec<String>),
    /// The webhook's kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {} of the authorizer {name:?}", path.display())]
    Connection {
        /// The authorizer's name.
        name: String,
        /// The kubeconfig file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: BoxError,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    authorizers: Vec<Authorizer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Authorizer {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    webhook: Option<Webhook>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Webhook {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: Option<String>,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: Option<String>,
    cache_unauthorized_requests: Option<bool>,
    timeout: Option<String>,
    #[serde(default)]
    subject_access_review_version: String,
    #[serde(default)]
    match_condition_subject_access_review_version: String,
    #[serde(default)]
    failure_policy: String,
    #[serde(default)]
    connection_info: ConnectionInfo,
    #[serde(default)]
    match_conditions: Vec<MatchCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConnectionInfo {
    #[serde(default, rename = "type")]
    kind: String,
    kube_config_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchCondition {
    #[serde(default)]
    expression: String,
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let of = |schema: &Value| Schema::of_value(schema).unwrap_or_else(Schema::any);
    let text = || of(&json!({"type": "string"}));
    let list = json!({"type": "array", "items": {"type": "string"}});
    let resource = ["namespace", "verb", "group", "version", "resource", "subresource", "name"];
    let request = [
        ("resourceAttributes", Schema::object("kubernetes.ResourceAttributes", resource.map(|field| (field, text())))),
        (
            "nonResourceAttributes",
            Schema::object("kubernetes.NonResourceAttributes", ["path", "verb"].map(|field| (field, text()))),
        ),
        ("user", text()),
        ("groups", of(&list)),
        ("extra", of(&json!({"type": "object", "additionalProperties": list}))),
        ("uid", text()),
    ];
    Environment::new().with(
        "request",
        &Schema::object("kubernetes.SubjectAccessReviewSpec", request),
        Presence::Certain,
    )
});

impl AuthorizationConfiguration {
    /// Parses and validates the content of a file, which was YAML or JSON.
    pub fn parse(file: Value) -> Result<Self, ConfigurationError> {
        let File { api_version, kind, authorizers } = serde_json::from_value(file)?;
        let mut errors = Errors::default();
        if !VERSIONS.contains(&&*api_version) {
            errors.unsupported(&Path::new("apiVersion"), &*api_version, &VERSIONS);
        }
        if kind != "AuthorizationConfiguration" {
            errors.unsupported(&Path::new("kind"), &*kind, &["AuthorizationConfiguration"]);
        }
        let list = Path::new("authorizers");
        if authorizers.is_empty() {
            errors.required(&list, "at least one authorization mode must be defined");
        }
        for (index, authorizer) in authorizers.iter().enumerate() {
            let path = list.index(index);
            let earlier = &authorizers[..index];
            if authorizer.kind.is_empty() {
                errors.required(&path.child("type"), "");
                continue;
            }
            if !TYPES.contains(&&*authorizer.kind) {
                errors.unsupported(&path.child("type"), &*authorizer.kind, &TYPES);
                continue;
            }
            if authorizer.kind != "Webhook" && earlier.iter().any(|other| other.kind == authorizer.kind) {
                errors.duplicate(&path.child("type"), &*authorizer.kind);
                continue;
            }
            let name = path.child("name");
            if authorizer.name.is_empty() {
                errors.required(&name, "");
            } else if earlier.iter().any(|other| other.name == authorizer.name) {
                errors.duplicate(&name, &*authorizer.name);
            } else {
                for why in dns_subdomain(&authorizer.name) {
                    errors.invalid(&name, &*authorizer.name, &format!("authorizer name is invalid: {why}"));
                }
            }
            match (&*authorizer.kind, &authorizer.webhook) {
                ("Webhook", Some(webhook)) => webhook.validate(&path, &mut errors),
                ("Webhook", None) => errors.required(&path.child("webhook"), "required when type=Webhook"),
                (_, Some(_)) => {
                    errors.invalid(&path.child("webhook"), "non-null", "may only be specified when type=Webhook");
                }
                (_, None) => {}
            }
        }
        let causes = errors.into_causes();
        if causes.is_empty() {
            return Ok(Self(authorizers));
        }
        let problems = causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message));
        Err(ConfigurationError::Invalid(problems.collect()))
    }

    /// Creates a configuration from the modes of `--authorization-mode`, in order, and the flags of the webhook. `ABAC` is
    /// not supported.
    pub fn from_modes<M: AsRef<str>>(
        modes: &[M],
        webhook: Option<AuthorizationWebhookOptions>,
    ) -> Result<Self, ConfigurationError> {
        let mut problems = Vec::new();
        let modes: Vec<&str> = modes.iter().map(AsRef::as_ref).collect();
        if modes.is_empty() {
            problems.push("at least one authorization-mode must be passed".to_owned());
        }
        for (index, mode) in modes.iter().enumerate() {
            if *mode == "ABAC" {
                problems.push("authorization-mode \"ABAC\" is not supported; use RBAC or Webhook".to_owned());
            } else if !TYPES.contains(mode) {
                problems.push(format!("authorization-mode {mode:?} is not a valid mode"));
            }
            if modes[..index].contains(mode) {
                problems.push(format!("authorization-mode {mode:?} has mode specified more than once"));
            }
        }
        match (&webhook, modes.contains(&"Webhook")) {
            (None, true) => {
                problems.push("authorization-mode Webhook's authorization config file not passed".to_owned());
            }
            (Some(_), false) => {
                let why = "cannot specify --authorization-webhook-config-file without mode Webhook";
                problems.push(why.to_owned());
            }
            (Some(options), true) if !matches!(&*options.version, "v1" | "v1beta1") => problems.push(format!(
                "unsupported webhook authorizer version {:?}, supported versions are \"v1\", \"v1beta1\"",
                options.version
            )),
            _ => {}
        }
        if !problems.is_empty() {
            return Err(ConfigurationError::Invalid(problems));
        }
        let authorizers = modes.into_iter().map(|mode| Authorizer {
            kind: mode.to_owned(),
            name: if mode == "Webhook" { "default".to_owned() } else { mode.to_lowercase() },
            webhook: webhook.as_ref().filter(|_| mode == "Webhook").map(Webhook::from_options),
        });
        Ok(Self(authorizers.collect()))
    }

    /// Creates the chain of authorizers. `connect` creates the webhook client for a kubeconfig file.
    pub fn connect(
        self,
        mut connect: impl FnMut(&FilePath) -> Result<Arc<dyn AccessReviewer>, BoxError>,
    ) -> Result<AuthorizerChain, ConfigurationError> {
        let mut links = Vec::new();
        for Authorizer { kind, name, webhook } in self.0 {
            let link = match (&*kind, webhook) {
                ("RBAC", _) => Link::Rbac,
                ("Node", _) => Link::Node,
                ("AlwaysAllow", _) => Link::AlwaysAllow,
                (_, Some(webhook)) => {
                    let path = webhook.connection_info.kube_config_file.clone().unwrap_or_default();
                    let reviewer = connect(&path);
                    let problem = |source| ConfigurationError::Connection { name: name.clone(), path, source };
                    Link::Webhook(webhook.build(reviewer.map_err(problem)?))
                }
                _ => Link::AlwaysDeny,
            };
            links.push((name, link));
        }
        Ok(AuthorizerChain::new(links))
    }
}

impl AuthorizerChain {
    /// Creates a chain of one reviewer, as the API servers use that extend a cluster: the cluster decides. A decision is
    /// cached for 10 s.
    pub fn reviewed_by(reviewer: Arc<dyn AccessReviewer>) -> Self {
        const CACHED: Duration = Duration::from_secs(10);
        let options = AuthorizationWebhookOptions {
            version: "v1".to_owned(),
            authorized_ttl: CACHED,
            unauthorized_ttl: CACHED,
            ..AuthorizationWebhookOptions::new(PathBuf::new())
        };
        let link = Link::Webhook(Webhook::from_options(&options).build(reviewer));
        Self::new(vec![("cluster".to_owned(), link)])
    }
}

impl Webhook {
    fn from_options(options: &AuthorizationWebhookOptions) -> Self {
        let seconds = |duration: Duration| Some(format!("{}s", duration.as_secs_f64()));
        Self {
            authorized_ttl: seconds(options.authorized_ttl),
            cache_authorized_requests: Some(!options.authorized_ttl.is_zero()),
            unauthorized_ttl: seconds(options.unauthorized_ttl),
            cache_unauthorized_requests: Some(!options.unauthorized_ttl.is_zero()),
            timeout: seconds(MAX_TIMEOUT),
            subject_access_review_version: options.version.clone(),
            match_condition_subject_access_review_version: String::new(),
            failure_policy: "NoOpinion".to_owned(),
            connection_info: ConnectionInfo {
                kind: "KubeConfigFile".to_owned(),
                kube_config_file: Some(options.kubeconfig.clone()),
            },
            match_conditions: Vec::new(),
        }
    }

    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let place = path.child("timeout");
        match self.timeout.as_deref().map(duration) {
            None => errors.required(&place, ""),
            Some(Some(timeout)) if !timeout.is_zero() && timeout <= MAX_TIMEOUT => {}
            Some(_) => errors.invalid(&place, self.timeout.as_deref().unwrap_or_default(), "must be > 0s and <= 30s"),
        }
        for (field, given) in [("authorizedTTL", &self.authorized_ttl), ("unauthorizedTTL", &self.unauthorized_ttl)] {
            if let Some(text) = given.as_deref().filter(|text| duration(text).is_none()) {
                errors.invalid(&path.child(field), text, "must be > 0s");
            }
        }
        let mut one_of = |field: &str, given: &str, supported: &[&str], is_required: bool| {
            let place = path.child(field);
            match given {
                "" if is_required => errors.required(&place, ""),
                "" => {}
                given if supported.contains(&given) => {}
                given => errors.unsupported(&place, given, supported),
            }
        };
        one_of("subjectAccessReviewVersion", &self.subject_access_review_version, &["v1", "v1beta1"], true);
        let version = &self.match_condition_subject_access_review_version;
        one_of("matchConditionSubjectAccessReviewVersion", version, &["v1"], !self.match_conditions.is_empty());
        one_of("failurePolicy", &self.failure_policy, &["NoOpinion", "Deny"], true);
        // This server does not run in a cluster, so `InClusterConfig` is not supported.
        one_of("connectionInfo.type", &self.connection_info.kind, &["KubeConfigFile"], true);
        let place = path.child("connectionInfo.kubeConfigFile");
        match self.connection_info.kube_config_file.as_deref() {
            _ if self.connection_info.kind != "KubeConfigFile" => {}
            None => errors.required(&place, ""),
            Some(file) if !file.is_absolute() => {
                errors.invalid(&place, &*file.to_string_lossy(), "must be an absolute path");
            }
            Some(_) => {}
        }
        self.validate_conditions(&path.child("matchConditions"), errors);
    }

    fn validate_conditions(&self, list: &Path<'_>, errors: &mut Errors) {
        if self.match_conditions.len() > MAX_CONDITIONS {
            let (found, max) = (self.match_conditions.len(), MAX_CONDITIONS);
            let message = format!("Too many: {found}: must have at most {max} items");
            return errors.add(list, "FieldValueTooMany", message);
        }
        for (index, condition) in self.match_conditions.iter().enumerate() {
            let place = list.index(index);
            let place = place.child("expression");
            let expression = &*condition.expression;
            if expression.trim().is_empty() {
                errors.required(&place, "");
            } else if self.match_conditions[..index].iter().any(|other| other.expression == expression) {
                errors.duplicate(&place, expression);
            } else if let Err(error) = ENVIRONMENT.compile(expression, Expected::Bool) {
                let why = match error.found_type() {
                    Some(found) => format!("must evaluate to bool but got {found}"),
                    None => format!("compilation failed: {error}"),
                };
                errors.invalid(&place, expression, &why);
            }
        }
    }

    fn build(self, reviewer: Arc<dyn AccessReviewer>) -> AuthorizationWebhook {
        let lifetime = |given: Option<&str>, default, is_cached: Option<bool>| {
            let given = given.and_then(duration).filter(|lifetime| !lifetime.is_zero());
            is_cached.unwrap_or(true).then(|| given.unwrap_or(default))
        };
        let programs = self.match_conditions.into_iter().filter_map(|condition| {
            let program: Program = ENVIRONMENT.compile(&condition.expression, Expected::Bool).ok()?;
            Some((condition.expression, program))
        });
        AuthorizationWebhook {
            reviewer,
            timeout: self.timeout.as_deref().and_then(duration).unwrap_or(MAX_TIMEOUT),
            on_failure: if self.failure_policy == "Deny" { OnFailure::Deny } else { OnFailure::NoOpinion },
            conditions: programs.collect(),
            allowed_ttl: lifetime(self.authorized_ttl.as_deref(), ALLOWED_TTL, self.cache_authorized_requests),
            denied_ttl: lifetime(self.unauthorized_ttl.as_deref(), DENIED_TTL, self.cache_unauthorized_requests),
            version: self.subject_access_review_version,
            answers: Answers::default(),
        }
    }
}

/// Parses a duration in Go's syntax; `None` if it is invalid or negative.
fn duration(text: &str) -> Option<Duration> {
    parse_duration(text).ok().and_then(|duration| duration.try_into().ok())
}
