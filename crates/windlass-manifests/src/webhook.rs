//! Admission webhooks.

use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
        ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use windlass_api::{ApiResource, Resource};

/// The type of a webhook: mutating or validating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Defaulting,
    Validating,
}

/// The names of the configurations and of the service.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    mutating: String,
    validating: String,
    service: String,
    namespace: String,
}

impl Default for Names {
    /// The names that kustomize replaces.
    fn default() -> Self {
        Self {
            mutating: "mutating-webhook-configuration".to_owned(),
            validating: "validating-webhook-configuration".to_owned(),
            service: "webhook-service".to_owned(),
            namespace: "system".to_owned(),
        }
    }
}

impl Names {
    pub(crate) fn of_project(project: &str) -> Self {
        Self {
            mutating: project.to_owned(),
            validating: project.to_owned(),
            service: format!("{project}-webhooks"),
            namespace: format!("{project}-system"),
        }
    }
}

/// A webhook in its configuration. The API server calls it at [`ApiResource::webhook_path`] on create and update.
///
/// Its service is `webhook-service` in the namespace `system`, which kustomize replaces, or that of
/// [`Manifests::of_project`](crate::Manifests::of_project).
#[derive(Clone, Debug)]
#[must_use]
pub struct Webhook {
    pub(crate) purpose: Purpose,
    pub(crate) webhook: MutatingWebhook,
}

impl Webhook {
    /// Creates a webhook that sets the defaults of objects of a kind.
    pub fn defaulting<K: Resource>() -> Self {
        Self::of(Purpose::Defaulting, &K::api_resource())
    }

    /// Creates a webhook that validates objects of a kind.
    pub fn validating<K: Resource>() -> Self {
        Self::of(Purpose::Validating, &K::api_resource())
    }

    fn of(purpose: Purpose, resource: &ApiResource) -> Self {
        let (verb, path) = match purpose {
            Purpose::Defaulting => ("default", resource.webhook_path("mutate")),
            Purpose::Validating => ("validate", resource.webhook_path("validate")),
        };
        let ApiResource { group, version, kind, plural, .. } = resource;
        let kind = kind.to_lowercase();
        let name = if group.is_empty() {
            format!("{verb}.{kind}.{version}.core")
        } else {
            format!("{verb}.{kind}.{version}.{group}")
        };
        // The project sets the name of the service.
        let service = ServiceReference { path: Some(path), ..ServiceReference::default() };
        let rule = RuleWithOperations {
            api_groups: Some(vec![group.to_string()]),
            api_versions: Some(vec![version.to_string()]),
            operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
            resources: Some(vec![plural.to_string()]),
            scope: None,
        };
        let webhook = MutatingWebhook {
            admission_review_versions: vec!["v1".to_owned()],
            client_config: WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() },
            failure_policy: Some("Fail".to_owned()),
            name,
            rules: Some(vec![rule]),
            side_effects: "None".to_owned(),
            ..MutatingWebhook::default()
        };
        Self { purpose, webhook }
    }

    /// Sets the name, which must contain at least two dots.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.webhook.name = name.into();
        self
    }

    /// Sets the operations: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`, or `*`. Defaults to create and update.
    pub fn operations(mut self, operations: &[&str]) -> Self {
        for rule in self.webhook.rules.iter_mut().flatten() {
            rule.operations = Some(operations.iter().map(|operation| (*operation).to_owned()).collect());
        }
        self
    }

    /// Lets writes proceed if the webhook is unreachable. By default, they are rejected.
    pub fn may_fail(mut self) -> Self {
        self.webhook.failure_policy = Some("Ignore".to_owned());
        self
    }

    /// Sets the URL of a webhook outside of the cluster, instead of the service.
    pub fn at(mut self, url: impl Into<String>) -> Self {
        self.webhook.client_config = WebhookClientConfig { url: Some(url.into()), ..WebhookClientConfig::default() };
        self
    }

    /// Sets the timeout of the API server's call: 1 to 30 s.
    pub fn timeout_seconds(mut self, seconds: i32) -> Self {
        self.webhook.timeout_seconds = Some(seconds);
        self
    }

    /// Declares that the webhook has side effects, but not on dry runs.
    pub fn side_effects_but_not_on_dry_run(mut self) -> Self {
        "NoneOnDryRun".clone_into(&mut self.webhook.side_effects);
        self
    }

    /// Restricts the webhook to objects for which this CEL expression is true.
    pub fn when(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        let condition = MatchCondition { name: name.into(), expression: expression.into() };
        self.webhook.match_conditions.get_or_insert_default().push(condition);
        self
    }

    /// Restricts the webhook to objects with these labels.
    pub fn for_objects(mut self, labels: LabelSelector) -> Self {
        self.webhook.object_selector = Some(labels);
        self
    }

    /// Restricts the webhook to namespaces with these labels.
    pub fn in_namespaces(mut self, labels: LabelSelector) -> Self {
        self.webhook.namespace_selector = Some(labels);
        self
    }

    /// Calls the webhook again if a later webhook has changed the object. Only for webhooks that change objects.
    pub fn again_if_needed(mut self) -> Self {
        self.webhook.reinvocation_policy = Some("IfNeeded".to_owned());
        self
    }
}

/// Returns the configurations, with the webhooks ordered by name.
pub(crate) fn configurations(
    webhooks: &[Webhook],
    names: &Names,
) -> (Option<MutatingWebhookConfiguration>, Option<ValidatingWebhookConfiguration>) {
    let of = |purpose: Purpose| {
        let mut found = webhooks
            .iter()
            .filter(|webhook| webhook.purpose == purpose)
            .map(|webhook| {
                let mut webhook = webhook.webhook.clone();
                if let Some(service) = &mut webhook.client_config.service {
                    (service.name, service.namespace) = (names.service.clone(), names.namespace.clone());
                }
                webhook
            })
            .collect::<Vec<_>>();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        (!found.is_empty()).then_some(found)
    };
    let mutating = of(Purpose::Defaulting).map(|webhooks| {
        let mut configuration =
            MutatingWebhookConfiguration { webhooks: Some(webhooks), ..MutatingWebhookConfiguration::default() };
        configuration.metadata.name = Some(names.mutating.clone());
        configuration
    });
    let validating = of(Purpose::Validating).map(|webhooks| {
        let webhooks = webhooks.into_iter().map(without_order).collect();
        let mut configuration =
            ValidatingWebhookConfiguration { webhooks: Some(webhooks), ..ValidatingWebhookConfiguration::default() };
        configuration.metadata.name = Some(names.validating.clone());
        configuration
    });
    (mutating, validating)
}

/// Validating webhooks are called concurrently, without an order or reinvocation.
fn without_order(webhook: MutatingWebhook) -> ValidatingWebhook {
    ValidatingWebhook {
        admission_review_versions: webhook.admission_review_versions,
        client_config: webhook.client_config,
        failure_policy: webhook.failure_policy,
        match_conditions: webhook.match_conditions,
        match_policy: webhook.match_policy,
        name: webhook.name,
        namespace_selector: webhook.namespace_selector,
        object_selector: webhook.object_selector,
        rules: webhook.rules,
        side_effects: webhook.side_effects,
        timeout_seconds: webhook.timeout_seconds,
    }
}
