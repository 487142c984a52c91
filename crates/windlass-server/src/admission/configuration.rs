//! The configuration of the admission plugins, in the formats of kube-apiserver's
//! `--admission-control-config-file`.

use serde::Deserialize;
use serde_json::Value;
use windlass_api::BoxError;

use super::{
    event_rates::{EventRates, Limit},
    node_selectors::NodeSelectors,
    plugins::AdmissionPlugins,
    pod_security::{Exemptions, PodSecurity, Policy},
    quota::{LimitedResource, ResourceQuotas},
    tolerations::RestrictTolerations,
};
use crate::{
    object::{Errors, Path},
    webhook::WebhookUsers,
};

mod checks;
mod event_rates;
mod node_selectors;
mod pod_security;
mod quota;
mod tolerations;
mod webhook_users;

use self::{checks::check_kind, pod_security::PodSecurityFile, quota::QuotaFile};

const VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "AdmissionConfiguration";
/// The admission plugins of a server and their configuration.
///
/// These plugins can be configured: `PodSecurity`, `ResourceQuota`, `EventRateLimit`, `PodNodeSelector`,
/// `PodTolerationRestriction`, `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`.
///
/// ```
/// use windlass_server::AdmissionConfiguration;
///
/// let configuration = AdmissionConfiguration::parse(
///     serde_json::json!({
///         "apiVersion": "apiserver.config.k8s.io/v1",
///         "kind": "AdmissionConfiguration",
///         "plugins": [{"name": "PodSecurity", "configuration": {
///             "apiVersion": "pod-security.admission.config.k8s.io/v1",
///             "kind": "PodSecurityConfiguration",
///             "defaults": {"enforce": "baseline"},
///             "exemptions": {"namespaces": ["kube-system"]},
///         }}],
///     }),
///     |_path| Err("there is no other file".into()),
/// )?;
/// let server = windlass_server::Server::builder().admission(configuration).build();
/// # drop(server);
/// # Ok::<(), windlass_server::AdmissionConfigurationError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionConfiguration {
    /// The policy of namespaces without labels.
    policy: Policy,
    exemptions: Exemptions,
    limited: Vec<LimitedResource>,
    event_limits: Vec<Limit>,
    node_selectors: NodeSelectors,
    tolerations: RestrictTolerations,
    /// The credentials for mutating and for validating webhooks.
    webhook_users: [WebhookUsers; 2],
    plugins: AdmissionPlugins,
}

/// The error for an unusable configuration.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionConfigurationError {
    /// The file, or the configuration of a plugin, has another format.
    #[error("cannot read the admission configuration of {plugin}")]
    Read {
        /// The plugin, or `all plugins`.
        plugin: String,
        /// The reason.
        #[source]
        source: BoxError,
    },
    /// The configuration is invalid, for these reasons.
    #[error("invalid admission configuration: {}", .0.join(", "))]
    Invalid(Vec<String>),
    /// The choice of plugins is invalid, for these reasons.
    #[error("{}", joined(.0))]
    Plugins(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    plugins: Vec<Plugin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plugin {
    #[serde(default)]
    name: String,
    #[serde(default)]
    path: String,
    configuration: Option<Value>,
}

impl AdmissionConfiguration {
    /// Enables the plugin `NodeRestriction`, as with `--enable-admission-plugins=NodeRestriction`. It limits what nodes can
    /// write. By default it is disabled, as in kube-apiserver.
    #[must_use]
    pub fn with_node_restriction(mut self) -> Self {
        self.plugins = self.plugins.with("NodeRestriction");
        self
    }

    /// Configures a choice of plugins without a file.
    ///
    /// # Errors
    /// Returns an error if one of them needs a configuration.
    pub fn new(plugins: AdmissionPlugins) -> Result<Self, AdmissionConfigurationError> {
        Self { plugins, ..Self::default() }.checked(Errors::default())
    }

    /// Parses and validates the content of a file for the default plugins. See [`Self::of_plugins`].
    pub fn parse(
        file: Value,
        read: impl Fn(&str) -> Result<Value, BoxError>,
    ) -> Result<Self, AdmissionConfigurationError> {
        Self::of_plugins(AdmissionPlugins::default(), file, &read)
    }

    /// Parses and validates the content of a file, which was YAML or JSON. `read` reads the file of a plugin, whose
    /// path is relative to this file.
    ///
    /// As in kube-apiserver, the configurations of plugins that do not run are ignored.
    pub fn of_plugins(
        plugins: AdmissionPlugins,
        file: Value,
        read: &dyn Fn(&str) -> Result<Value, BoxError>,
    ) -> Result<Self, AdmissionConfigurationError> {
        let failed =
            |plugin: &str, source: BoxError| AdmissionConfigurationError::Read { plugin: plugin.to_owned(), source };
        let file: File = serde_json::from_value(file).map_err(|error| failed("all plugins", error.into()))?;
        let mut configuration = Self { plugins, ..Self::default() };
        let mut errors = Errors::default();
        check_kind((&file.api_version, &file.kind), &[VERSION], KIND, &mut errors);
        for Plugin { name, path, configuration: inline } in file.plugins {
            if !configuration.plugins.contains(&name) {
                tracing::warn!(plugin = name, "the configuration of an admission plugin that does not run is ignored");
                continue;
            }
            let content = match inline {
                Some(inline) => inline,
                None if path.is_empty() => continue,
                None => read(&path).map_err(|error| failed(&name, error))?,
            };
            let parsed = match &*name {
                "PodSecurity" => serde_json::from_value(content)
                    .map(|file: PodSecurityFile| configuration.set_pod_security(file, &mut errors)),
                "ResourceQuota" => {
                    serde_json::from_value(content).map(|file: QuotaFile| configuration.set_quota(file, &mut errors))
                }
                "EventRateLimit" => {
                    configuration.set_event_limits(&content, &mut errors);
                    continue;
                }
                "PodNodeSelector" => {
                    configuration.set_node_selectors(&content, &mut errors);
                    continue;
                }
                "PodTolerationRestriction" => {
                    configuration.set_tolerations(&content, &mut errors);
                    continue;
                }
                "MutatingAdmissionWebhook" | "ValidatingAdmissionWebhook" => {
                    let index = usize::from(name == "ValidatingAdmissionWebhook");
                    let set = configuration.set_webhook_users(index, &content, read, &mut errors);
                    set.map_err(|error| failed(&name, error))?;
                    continue;
                }
                // As in kube-apiserver, the others have no configuration.
                _ => continue,
            };
            parsed.map_err(|error| failed(&name, error.into()))?;
        }
        configuration.checked(errors)
    }

    fn checked(self, mut errors: Errors) -> Result<Self, AdmissionConfigurationError> {
        if self.plugins.contains("EventRateLimit") && self.event_limits.is_empty() && errors.is_empty() {
            errors.invalid(&Path::new("limits"), &Value::Null, "must not be empty");
        }
        let problems = errors.into_causes().into_iter().map(|cause| format!("{}: {}", cause.field, cause.message));
        let problems: Vec<String> = problems.collect();
        if problems.is_empty() { Ok(self) } else { Err(AdmissionConfigurationError::Invalid(problems)) }
    }

    pub(super) fn webhook_users(&self) -> [WebhookUsers; 2] {
        self.webhook_users.clone()
    }

    pub(super) const fn plugins(&self) -> AdmissionPlugins {
        self.plugins
    }

    pub(super) fn event_rates(&self) -> EventRates {
        EventRates::new(&self.event_limits)
    }

    pub(super) fn node_selectors(&self) -> NodeSelectors {
        self.node_selectors.clone()
    }

    pub(super) fn tolerations(&self) -> RestrictTolerations {
        self.tolerations.clone()
    }

    pub(super) fn pod_security(&self) -> PodSecurity {
        PodSecurity::new(self.policy, self.exemptions.clone())
    }

    pub(super) fn resource_quotas(&self) -> ResourceQuotas {
        ResourceQuotas::new(self.limited.clone())
    }
}

/// Returns the text of several errors, as kube-apiserver prints them.
fn joined(problems: &[String]) -> String {
    match problems {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(plugins: &Value) -> Result<AdmissionConfiguration, String> {
        let file = json!({"apiVersion": VERSION, "kind": KIND, "plugins": plugins});
        let quota = json!({"apiVersion": VERSION, "kind": "ResourceQuotaConfiguration",
            "limitedResources": [{"resource": "pods", "matchScopes": [{"scopeName": "PriorityClass", "operator": "Exists"}]}]});
        let read = |path: &str| if path == "quota.yaml" { Ok(quota.clone()) } else { Err("no such file".into()) };
        AdmissionConfiguration::parse(file, read).map_err(|error| {
            let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
            format!("{error}{}", source.unwrap_or_default())
        })
    }

    fn pod_security(fields: Value) -> Value {
        let mut content = fields;
        content["apiVersion"] = "pod-security.admission.config.k8s.io/v1".into();
        content["kind"] = "PodSecurityConfiguration".into();
        json!([{"name": "PodSecurity", "configuration": content}])
    }

    #[test]
    fn unset_levels_and_versions_have_defaults() {
        let parsed =
            parse(&pod_security(json!({"defaults": {"enforce": "baseline", "warn-version": "v1.20"}}))).unwrap();
        let Policy { enforce, audit, warn } = parsed.policy;
        let texts = [enforce, audit, warn].map(|standard| standard.to_string());
        assert_eq!(texts, ["baseline:latest", "privileged:latest", "privileged:v1.20"]);
        assert_eq!(parse(&json!([])).unwrap(), AdmissionConfiguration::default());
    }

    #[test]
    fn configuration_of_a_plugin_can_be_another_file() {
        let parsed = parse(&json!([{"name": "ResourceQuota", "path": "quota.yaml"}])).unwrap();
        assert_eq!(parsed.limited[0].plural, "pods");
        assert_eq!(parsed.limited[0].match_scopes[0].scope, "PriorityClass");
        let error = parse(&json!([{"name": "PodSecurity", "path": "other.yaml"}])).unwrap_err();
        assert_eq!(error, "cannot read the admission configuration of PodSecurity: no such file");
    }

    #[test]
    fn configuration_of_webhooks_names_a_kubeconfig() {
        let parse = |path: &str| {
            let content =
                json!({"apiVersion": VERSION, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": path});
            let plugins = json!([{"name": "ValidatingAdmissionWebhook", "configuration": content}]);
            let file = json!({"apiVersion": VERSION, "kind": KIND, "plugins": plugins});
            let kubeconfig = json!({"users": [{"name": "*", "user": {"token": "t"}}]});
            let read = |path: &str| if path == "/k" { Ok(kubeconfig.clone()) } else { Err("no such file".into()) };
            AdmissionConfiguration::parse(file, read)
        };
        let [mutating, validating] = parse("/k").unwrap().webhook_users();
        assert_eq!(validating.of("example.com", 443).unwrap().authorization, "Bearer t");
        assert!(mutating.of("example.com", 443).is_none());
        assert!(matches!(parse("/other"), Err(AdmissionConfigurationError::Read { .. })));
        let error = parse("k").unwrap_err().to_string();
        assert!(error.contains("kubeConfigFile: Invalid value: \"k\": must be an absolute file path"), "{error}");
    }

    #[test]
    fn optional_plugins_need_valid_configurations() {
        let parse = |plugin: &str, content: Value| {
            let plugins = AdmissionPlugins::new(&[plugin], &[]).unwrap();
            let file =
                json!({"apiVersion": VERSION, "kind": KIND, "plugins": [{"name": plugin, "configuration": content}]});
            AdmissionConfiguration::of_plugins(plugins, file, &|_| Err("none".into()))
                .map_err(|error| error.to_string())
        };
        let limit = json!({"type": "Pod", "burst": 0, "cacheSize": -1, "other": 1});
        let api_version = "eventratelimit.admission.k8s.io/v1alpha1";
        let content = json!({"apiVersion": api_version, "kind": "Configuration", "limits": [limit]});
        let error = parse("EventRateLimit", content).unwrap_err();
        for problem in [
            "limits[0].other: ",
            "limits[0].type: Unsupported value: \"Pod\"",
            "limits[0].burst: Invalid value: 0: must be positive",
            "limits[0].qps: Invalid value: 0: must be positive",
            "limits[0].cacheSize: Invalid value: -1: must not be negative",
        ] {
            assert!(error.contains(problem), "{problem}: {error}");
        }
        let error = parse("PodNodeSelector", json!({"podNodeSelectorPluginConfig": {"a": 1}, "b": {}})).unwrap_err();
        assert!(error.contains("podNodeSelectorPluginConfig.a: Invalid value: 1") && error.contains("b: "), "{error}");
        let error = parse("PodTolerationRestriction", json!({"whitelist": ["a"]})).unwrap_err();
        assert!(error.contains("whitelist[0]: ") && error.contains("apiVersion: "), "{error}");
        // Values of another type would be read as absent, and an absent list allows everything.
        let list = json!({"podNodeSelectorPluginConfig": ["a=b"]});
        assert!(parse("PodNodeSelector", list).unwrap_err().contains("must be an object"));
        let error = parse("PodTolerationRestriction", json!({"whitelist": {"key": "a"}})).unwrap_err();
        assert!(error.contains("whitelist: ") && error.contains("must be an array"), "{error}");
        let wrong = json!({"whitelist": [{"key": 1, "tolerationSeconds": "300"}]});
        let error = parse("PodTolerationRestriction", wrong).unwrap_err();
        assert!(error.contains("whitelist[0].key: ") && error.contains("whitelist[0].tolerationSeconds: "), "{error}");
    }

    #[test]
    fn invalid_configurations_are_rejected_with_the_field() {
        let invalid = json!({
            "defaults": {"enforce": "strict", "audit-version": "1.2"},
            "exemptions": {"usernames": ["", "a", "a"], "namespaces": ["A"]},
        });
        let error = parse(&pod_security(invalid)).unwrap_err();
        for problem in [
            "defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
            "defaults.audit-version: Invalid value: \"1.2\": must be \"latest\" or \"v1.x\"",
            "exemptions.usernames[0]: Invalid value: \"\": username must not be empty",
            "exemptions.usernames[2]: Duplicate value: \"a\"",
            "exemptions.namespaces[0]: Invalid value: \"A\"",
        ] {
            assert!(error.contains(problem), "{error}");
        }
        let ignored = parse(&json!([{"name": "EventRateLimit", "configuration": {}}])).unwrap();
        assert_eq!(ignored, AdmissionConfiguration::default(), "the plugin does not run");
        let error = parse(&pod_security(json!({"default": {}}))).unwrap_err();
        assert!(error.contains("unknown field `default`"), "{error}");
        let without = json!({"apiVersion": VERSION, "kind": "ResourceQuotaConfiguration", "limitedResources": [{}]});
        let error = parse(&json!([{"name": "ResourceQuota", "configuration": without}])).unwrap_err();
        assert!(error.contains("limitedResources[0].resource: Required value"), "{error}");
        assert!(AdmissionConfiguration::parse(json!({}), |_| Err("none".into())).is_err());
    }
}
