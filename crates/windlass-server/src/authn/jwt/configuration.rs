//! The authentication configuration file: `AuthenticationConfiguration` of `apiserver.config.k8s.io`.

use std::sync::LazyLock;

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_cel::{Environment, Expected, Presence, Program, Schema};

use super::keys::ALGORITHMS;
use crate::object::{Errors, Path, validate_domain_prefixed};

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const MAX_ISSUERS: usize = 64;

/// The issuers of JSON web tokens, and the handling of anonymous requests: a file of kind `AuthenticationConfiguration`, or
/// the `--oidc-*` flags of kube-apiserver.
///
/// ```
/// use windlass_server::AuthenticationConfiguration;
///
/// let configuration = AuthenticationConfiguration::parse(serde_json::json!({
///     "apiVersion": "apiserver.config.k8s.io/v1",
///     "kind": "AuthenticationConfiguration",
///     "jwt": [{
///         "issuer": {"url": "https://issuer.example.com", "audiences": ["cluster"]},
///         "claimMappings": {"username": {"expression": "'oidc:' + claims.sub"}},
///     }],
///     "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}]},
/// }))?;
/// # drop(configuration);
/// # Ok::<(), windlass_server::AuthenticationConfigurationError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AuthenticationConfiguration {
    pub(super) issuers: Vec<JwtAuthenticator>,
    pub(in crate::authn) anonymous: Option<AnonymousConfiguration>,
    /// The accepted algorithms; empty for RS256.
    pub(super) algorithms: Vec<String>,
}

/// The `--oidc-*` flags of kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcOptions {
    /// The URL of the issuer.
    pub issuer_url: String,
    /// The audience of the tokens.
    pub client_id: String,
    /// The claim with the user name. kube-apiserver defaults to `sub`.
    pub username_claim: String,
    /// The prefix of user names. If empty, names from other claims than `email` have the issuer's URL and `#` as their prefix;
    /// `-` means no prefix.
    pub username_prefix: String,
    /// The claim with the groups; empty for none.
    pub groups_claim: String,
    /// The prefix of groups.
    pub groups_prefix: String,
    /// Claims that tokens must have, with their values.
    pub required_claims: Vec<(String, String)>,
    /// The CA bundle of the issuer, in PEM; empty for the CAs of the system.
    pub certificate_authority: String,
    /// The accepted algorithms; empty for RS256.
    pub signing_algorithms: Vec<String>,
}

/// The error for an unusable authentication configuration.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationConfigurationError {
    /// The file is not an authentication configuration.
    #[error("strict decoding error")]
    Read(#[from] serde_json::Error),
    /// The configuration is invalid, for these reasons.
    #[error("invalid authentication configuration: {}", aggregate(.0))]
    Invalid(Vec<String>),
    /// The signing algorithm does not exist.
    #[error("oidc: unsupported signing alg: {0:?}")]
    Algorithm(String),
    /// The client for an issuer cannot be created.
    #[error("cannot connect to the issuer {url:?}")]
    Client {
        /// The issuer's URL.
        url: String,
        /// The reason.
        #[source]
        source: windlass_api::BoxError,
    },
}

/// Formats errors like Go's aggregates.
fn aggregate(problems: &[String]) -> String {
    match problems {
        [problem] => problem.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    jwt: Vec<JwtAuthenticator>,
    anonymous: Option<AnonymousConfiguration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::authn) struct AnonymousConfiguration {
    #[serde(default)]
    pub(in crate::authn) enabled: bool,
    #[serde(default)]
    pub(in crate::authn) conditions: Vec<AnonymousCondition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::authn) struct AnonymousCondition {
    #[serde(default)]
    pub(in crate::authn) path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct JwtAuthenticator {
    pub(super) issuer: Issuer,
    pub(super) claim_validation_rules: Vec<ClaimRule>,
    pub(super) claim_mappings: ClaimMappings,
    pub(super) user_validation_rules: Vec<UserRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Issuer {
    pub(super) url: String,
    #[serde(rename = "discoveryURL")]
    pub(super) discovery_url: Option<String>,
    pub(super) certificate_authority: String,
    pub(super) audiences: Vec<String>,
    audience_match_policy: String,
    egress_selector_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ClaimRule {
    pub(super) claim: String,
    pub(super) required_value: String,
    pub(super) expression: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct UserRule {
    pub(super) expression: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ClaimMappings {
    pub(super) username: PrefixedClaim,
    pub(super) groups: PrefixedClaim,
    pub(super) uid: UnprefixedClaim,
    pub(super) extra: Vec<ExtraMapping>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PrefixedClaim {
    pub(super) claim: String,
    pub(super) prefix: Option<String>,
    pub(super) expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UnprefixedClaim {
    pub(super) claim: String,
    pub(super) expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ExtraMapping {
    pub(super) key: String,
    pub(super) value_expression: String,
}

/// The environment of expressions about claims.
static CLAIMS: LazyLock<Environment> =
    LazyLock::new(|| Environment::new().with("claims", &Schema::map(Schema::any()), Presence::Certain));

/// The environment of expressions about users.
static USER: LazyLock<Environment> = LazyLock::new(|| {
    let of = |schema: &Value| Schema::of_value(schema).unwrap_or_else(Schema::any);
    let (text, list) = (json!({"type": "string"}), json!({"type": "array", "items": {"type": "string"}}));
    let fields = [
        ("username", of(&text)),
        ("uid", of(&text)),
        ("groups", of(&list)),
        ("extra", of(&json!({"type": "object", "additionalProperties": list}))),
    ];
    Environment::new().with("user", &Schema::object("kubernetes.UserInfo", fields), Presence::Certain)
});

/// The variable of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    Claims,
    User,
}

/// Compiles an expression. Returns the reason in kube-apiserver's words if it is invalid.
pub(super) fn compile(variable: Variable, expression: &str, expected: Expected) -> Result<Program, String> {
    let environment = match variable {
        Variable::Claims => &*CLAIMS,
        Variable::User => &*USER,
    };
    environment.compile(expression, expected).map_err(|error| match error.found_type() {
        Some(_) => format!("must evaluate to {expected}"),
        None => format!("compilation failed: {error}"),
    })
}

impl AuthenticationConfiguration {
    /// Parses and validates the content of a file, which was YAML or JSON.
    pub fn parse(file: Value) -> Result<Self, AuthenticationConfigurationError> {
        let File { api_version, kind, jwt, anonymous } = serde_json::from_value(file)?;
        let mut errors = Errors::default();
        if !VERSIONS.contains(&&*api_version) {
            errors.unsupported(&Path::new("apiVersion"), &*api_version, &VERSIONS);
        }
        if kind != "AuthenticationConfiguration" {
            errors.unsupported(&Path::new("kind"), &*kind, &["AuthenticationConfiguration"]);
        }
        check(errors)?;
        let algorithms = ALGORITHMS.map(str::to_owned).into();
        let configuration = Self { issuers: jwt, anonymous, algorithms };
        configuration.validate(&[])?;
        Ok(configuration)
    }

    /// Creates a configuration from the `--oidc-*` flags.
    pub fn oidc(options: OidcOptions) -> Result<Self, AuthenticationConfigurationError> {
        let OidcOptions { issuer_url, username_prefix, username_claim, groups_claim, signing_algorithms, .. } = options;
        if let Some(unknown) = signing_algorithms.iter().find(|name| !ALGORITHMS.contains(&&***name)) {
            return Err(AuthenticationConfigurationError::Algorithm(unknown.clone()));
        }
        let prefix = match &*username_prefix {
            "" if username_claim != "email" => format!("{issuer_url}#"),
            "-" => String::new(),
            prefix => prefix.to_owned(),
        };
        let mut groups = PrefixedClaim::default();
        if !groups_claim.is_empty() {
            groups = PrefixedClaim { claim: groups_claim, prefix: Some(options.groups_prefix), ..groups };
        }
        let username = PrefixedClaim { claim: username_claim, prefix: Some(prefix), ..PrefixedClaim::default() };
        let rules = options.required_claims.into_iter();
        let issuer = JwtAuthenticator {
            issuer: Issuer {
                url: issuer_url,
                audiences: vec![options.client_id],
                certificate_authority: options.certificate_authority,
                ..Issuer::default()
            },
            claim_mappings: ClaimMappings { username, groups, ..ClaimMappings::default() },
            claim_validation_rules: rules
                .map(|(claim, required_value)| ClaimRule { claim, required_value, ..ClaimRule::default() })
                .collect(),
            user_validation_rules: Vec::new(),
        };
        let configuration = Self { issuers: vec![issuer], anonymous: None, algorithms: signing_algorithms };
        configuration.validate(&[])?;
        Ok(configuration)
    }

    /// Reports whether the configuration decides about anonymous requests.
    #[must_use]
    pub fn has_anonymous(&self) -> bool {
        self.anonymous.is_some()
    }

    /// Validates the configuration. No issuer may have the URL of a disallowed one: those of service account tokens.
    pub fn validate(&self, disallowed: &[String]) -> Result<(), AuthenticationConfigurationError> {
        let mut errors = Errors::default();
        let root = Path::new("jwt");
        if self.issuers.len() > MAX_ISSUERS {
            errors.too_many(&root, self.issuers.len(), MAX_ISSUERS);
            return check(errors);
        }
        for (index, authenticator) in self.issuers.iter().enumerate() {
            let path = root.index(index);
            authenticator.validate(&path, disallowed, &mut errors);
            let earlier = &self.issuers[..index];
            let issuer = &authenticator.issuer;
            if earlier.iter().any(|other| other.issuer.url == issuer.url) {
                errors.duplicate(&path.child("issuer.url"), &*issuer.url);
            }
            if let Some(url) = issuer.discovery()
                && earlier.iter().any(|other| other.issuer.discovery() == Some(url))
            {
                errors.duplicate(&path.child("issuer.discoveryURL"), url);
            }
        }
        if let Some(AnonymousConfiguration { enabled: false, conditions }) = &self.anonymous
            && !conditions.is_empty()
        {
            let why = "enabled should be set to true when conditions are defined";
            errors.invalid(&Path::new("anonymous.conditions"), &json!(conditions), why);
        }
        check(errors)
    }
}

fn check(errors: Errors) -> Result<(), AuthenticationConfigurationError> {
    let causes = errors.into_causes();
    if causes.is_empty() {
        return Ok(());
    }
    let problems = causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message));
    Err(AuthenticationConfigurationError::Invalid(problems.collect()))
}

impl JwtAuthenticator {
    fn validate(&self, path: &Path<'_>, disallowed: &[String], errors: &mut Errors) {
        self.issuer.validate(&path.child("issuer"), disallowed, errors);
        let mut uses_verified = false;
        self.validate_claim_rules(&path.child("claimValidationRules"), &mut uses_verified, errors);
        self.claim_mappings.validate(&path.child("claimMappings"), &mut uses_verified, errors);
        let list = path.child("userValidationRules");
        for (index, rule) in self.user_validation_rules.iter().enumerate() {
            let place = list.index(index);
            let place = place.child("expression");
            let expression = &*rule.expression;
            if expression.is_empty() {
                errors.required(&place, "");
            } else if self.user_validation_rules[..index].iter().any(|other| other.expression == expression) {
                errors.duplicate(&place, expression);
            } else if let Err(why) = compile(Variable::User, expression, Expected::Bool) {
                errors.invalid(&place, expression, &why);
            }
        }
    }

    fn validate_claim_rules(&self, list: &Path<'_>, uses_verified: &mut bool, errors: &mut Errors) {
        let rules = &self.claim_validation_rules;
        for (index, rule) in rules.iter().enumerate() {
            let path = list.index(index);
            let ClaimRule { claim, required_value, expression, message } = rule;
            match (claim.is_empty(), expression.is_empty()) {
                (false, false) => errors.invalid(&path, claim, "claim and expression can't both be set"),
                (true, true) => errors.required(&path, "claim or expression is required"),
                (false, true) => {
                    if !message.is_empty() {
                        errors.invalid(&path.child("message"), message, "may not be specified when claim is set");
                    }
                    if rules[..index].iter().any(|other| other.claim == *claim && other.expression.is_empty()) {
                        errors.duplicate(&path.child("claim"), claim);
                    }
                }
                (true, false) => {
                    if !required_value.is_empty() {
                        let why = "may not be specified when expression is set";
                        errors.invalid(&path.child("requiredValue"), required_value, why);
                    }
                    let place = path.child("expression");
                    if rules[..index].iter().any(|other| other.expression == *expression && other.claim.is_empty()) {
                        errors.duplicate(&place, expression);
                        continue;
                    }
                    match compile(Variable::Claims, expression, Expected::Bool) {
                        Ok(program) => *uses_verified |= program.selects("claims", "email_verified"),
                        Err(why) => errors.invalid(&place, expression, &why),
                    }
                }
            }
        }
    }
}

impl Issuer {
    /// Returns the discovery URL, if there is one.
    pub(super) fn discovery(&self) -> Option<&str> {
        self.discovery_url.as_deref().filter(|url| !url.is_empty())
    }

    fn validate(&self, path: &Path<'_>, disallowed: &[String], errors: &mut Errors) {
        let place = path.child("url");
        if self.url.is_empty() {
            errors.required(&place, "");
        } else {
            validate_url(&self.url, disallowed, &place, errors);
        }
        if let Some(url) = self.discovery() {
            let place = path.child("discoveryURL");
            if !self.url.is_empty() && self.url.trim_end_matches('/') == url.trim_end_matches('/') {
                errors.invalid(&place, url, "discoveryURL must be different from URL");
            }
            validate_url(url, &[], &place, errors);
        }
        self.validate_audiences(path, errors);
        let certificates = &self.certificate_authority;
        if !certificates.is_empty()
            && CertificateDer::pem_slice_iter(certificates.as_bytes()).next().is_none_or(|first| first.is_err())
        {
            let why = "data does not contain any valid RSA or ECDSA certificates";
            errors.invalid(&path.child("certificateAuthority"), "<omitted>", why);
        }
        let place = path.child("egressSelectorType");
        match &*self.egress_selector_type {
            "" => {}
            // This server has no egress selectors.
            "controlplane" | "cluster" => {
                let why =
                    format!("oidc: egress lookup required with egress selector type {:?}", self.egress_selector_type);
                errors.invalid(&place, &*self.egress_selector_type, &why);
            }
            other => errors.invalid(&place, other, "egress selector must be either controlplane or cluster"),
        }
    }

    fn validate_audiences(&self, path: &Path<'_>, errors: &mut Errors) {
        let list = path.child("audiences");
        if self.audiences.is_empty() {
            return errors.required(&list, &format!("at least one {list} is required"));
        }
        for (index, audience) in self.audiences.iter().enumerate() {
            let place = list.index(index);
            if audience.is_empty() {
                errors.required(&place, "");
            }
            if self.audiences[..index].contains(audience) {
                errors.duplicate(&place, audience);
            }
        }
        let (policy, place) = (&*self.audience_match_policy, path.child("audienceMatchPolicy"));
        if self.audiences.len() > 1 && policy != "MatchAny" {
            errors.invalid(&place, policy, "audienceMatchPolicy must be MatchAny for multiple audiences");
        }
        if self.audiences.len() == 1 && !matches!(policy, "" | "MatchAny") {
            errors.invalid(&place, policy, "audienceMatchPolicy must be empty or MatchAny for single audience");
        }
    }
}

fn validate_url(url: &str, disallowed: &[String], path: &Path<'_>, errors: &mut Errors) {
    if disallowed.iter().any(|other| other == url) {
        let mut disallowed = disallowed.to_vec();
        disallowed.sort();
        let why = format!("URL must not overlap with disallowed issuers: [{}]", disallowed.join(" "));
        errors.invalid(path, url, &why);
    }
    let problem = if url.starts_with(':') {
        Some("missing protocol scheme")
    } else if url.chars().any(char::is_control) {
        Some("net/url: invalid control character in URL")
    } else {
        None
    };
    if let Some(problem) = problem {
        return errors.invalid(path, url, &format!("parse {}: {problem}", crate::codec::go_quote(url)));
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    if !scheme.eq_ignore_ascii_case("https") {
        errors.invalid(path, url, "URL scheme must be https");
    }
    if authority.contains('@') {
        errors.invalid(path, url, "URL must not contain a username or password");
    }
    if !query.is_empty() {
        errors.invalid(path, url, "URL must not contain a query");
    }
    if !fragment.is_empty() {
        errors.invalid(path, url, "URL must not contain a fragment");
    }
}

impl ClaimMappings {
    fn validate(&self, path: &Path<'_>, uses_verified: &mut bool, errors: &mut Errors) {
        let username = self.username.validate(&path.child("username"), true, errors);
        let mut uses_email = false;
        if let Some(program) = &username {
            uses_email = program.selects("claims", "email");
            *uses_verified |= program.selects("claims", "email_verified");
        }
        drop(self.groups.validate(&path.child("groups"), false, errors));
        let place = path.child("uid");
        match (self.uid.claim.is_empty(), self.uid.expression.is_empty()) {
            (false, false) => errors.invalid(&place, "", "claim and expression can't both be set"),
            (_, false) => {
                if let Err(why) = compile(Variable::Claims, &self.uid.expression, Expected::Any) {
                    errors.invalid(&place.child("expression"), &self.uid.expression, &why);
                }
            }
            _ => {}
        }
        let list = path.child("extra");
        for (index, ExtraMapping { key, value_expression }) in self.extra.iter().enumerate() {
            let path = list.index(index);
            let place = path.child("key");
            validate_domain_prefixed(key, &place, errors);
            if *key != key.to_lowercase() {
                errors.invalid(&place, key, "must be lowercase");
            }
            if is_reserved(key) {
                let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
                errors.invalid(&place, key, why);
            }
            if self.extra[..index].iter().any(|other| other.key == *key) {
                errors.duplicate(&place, key);
                continue;
            }
            let place = path.child("valueExpression");
            if value_expression.is_empty() {
                errors.required(&place, "");
                continue;
            }
            match compile(Variable::Claims, value_expression, Expected::Any) {
                Ok(program) => *uses_verified |= program.selects("claims", "email_verified"),
                Err(why) => errors.invalid(&place, value_expression, &why),
            }
        }
        if uses_email && !*uses_verified {
            let why = "claims.email_verified must be used in claimMappings.username.expression or \
                       claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is \
                       used in claimMappings.username.expression";
            errors.invalid(&path.child("username.expression"), &self.username.expression, why);
        }
    }
}

/// Reports whether a key has a prefix of Kubernetes.
fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|domain| prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

impl PrefixedClaim {
    fn validate(&self, path: &Path<'_>, is_required: bool, errors: &mut Errors) -> Option<Program> {
        match (self.claim.is_empty(), self.expression.is_empty()) {
            (false, false) => errors.invalid(path, "", "claim and expression can't both be set"),
            (true, true) if is_required => errors.required(path, "claim or expression is required"),
            (true, true) => {}
            (true, false) => {
                if let Some(prefix) = &self.prefix {
                    errors.invalid(&path.child("prefix"), prefix, "may not be specified when expression is set");
                }
                match compile(Variable::Claims, &self.expression, Expected::Any) {
                    Ok(program) => return Some(program),
                    Err(why) => errors.invalid(&path.child("expression"), &self.expression, &why),
                }
            }
            (false, true) => {
                if self.prefix.is_none() {
                    let why =
                        "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                    errors.required(&path.child("prefix"), why);
                }
            }
        }
        None
    }
}
