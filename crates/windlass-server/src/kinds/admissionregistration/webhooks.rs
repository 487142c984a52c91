//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

use crate::{
    kinds::{
        View,
        admissionregistration::{
            FAILURE_POLICIES, GROUP_RULES, MATCH_POLICIES, REINVOCATION_POLICIES, default_rules, default_selectors,
            validate_match_conditions, validate_rule,
        },
        prelude::*,
        selector::validate_selector,
    },
    webhook::{validate_client_config, validate_review_versions},
};

pub(super) const VALIDATING: Kind = Kind {
    name: "ValidatingWebhookConfiguration",
    rules: Rules { generation: Generation::Content, ..GROUP_RULES },
    default: |configuration| items_mut(configuration, "webhooks").iter_mut().for_each(default_webhook),
    validate: |configuration, errors| validate_configuration(configuration, false, SIDE_EFFECTS, errors),
    ..BASE
};

/// The removed version `v1beta1` has other defaults and accepts webhooks with side effects.
pub(super) const VALIDATING_V1BETA1: Kind = Kind {
    version: "v1beta1",
    view: VIEW,
    validate: |configuration, errors| validate_configuration(configuration, false, OLD_SIDE_EFFECTS, errors),
    ..VALIDATING
};

pub(super) const MUTATING_V1BETA1: Kind = Kind {
    version: "v1beta1",
    view: VIEW,
    validate: |configuration, errors| validate_configuration(configuration, true, OLD_SIDE_EFFECTS, errors),
    ..MUTATING
};

const VIEW: Option<View> = Some(View {
    stored: ("admissionregistration.k8s.io", "v1"),
    from_stored: |configuration| configuration,
    to_stored: with_old_defaults,
});

const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const OLD_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];

pub(super) const MUTATING: Kind = Kind {
    name: "MutatingWebhookConfiguration",
    default: |configuration| {
        for webhook in items_mut(configuration, "webhooks") {
            default_webhook(webhook);
            default_pointer(as_object(webhook), "reinvocationPolicy", "Never");
        }
    },
    validate: |configuration, errors| validate_configuration(configuration, true, SIDE_EFFECTS, errors),
    ..VALIDATING
};

fn default_webhook(webhook: &mut Value) {
    let map = as_object(webhook);
    default_pointer(map, "failurePolicy", "Fail");
    default_selectors(map);
    default_pointer(map, "timeoutSeconds", 10);
    default_rules(webhook, "rules");
    change_each(webhook, "clientConfig.service", |service| default_pointer(service, "port", 443));
}

/// Applies the defaults of v1beta1.
fn with_old_defaults(mut configuration: Value) -> Value {
    for webhook in items_mut(&mut configuration, "webhooks") {
        let webhook = as_object(webhook);
        default_pointer(webhook, "failurePolicy", "Ignore");
        default_pointer(webhook, "matchPolicy", "Exact");
        default_pointer(webhook, "sideEffects", "Unknown");
        default_pointer(webhook, "timeoutSeconds", 30);
        default_to(webhook, "admissionReviewVersions", json!(["v1beta1"]));
    }
    configuration
}

fn validate_configuration(configuration: &Field<'_>, is_mutating: bool, side_effects: &[&str], errors: &mut Errors) {
    let webhooks = configuration.child("webhooks");
    let mut names = DuplicateCheck::default();
    for webhook in webhooks.items() {
        validate_webhook(&webhook, is_mutating, side_effects, errors);
        let versions = webhook.child("admissionReviewVersions");
        if versions.is_empty() {
            versions.required("must specify one of v1, v1beta1", errors);
        } else {
            validate_review_versions(webhook.json().items(&["admissionReviewVersions"]), versions.path(), errors);
        }
        if !webhook.child("name").is_empty() {
            webhook.check_unique_by("name", &mut names, errors);
        }
    }
}

fn validate_webhook(webhook: &Field<'_>, is_mutating: bool, supported: &[&str], errors: &mut Errors) {
    validate_webhook_name(&webhook.child("name"), errors);
    webhook.child("rules").each(validate_rule, errors);
    webhook.child("failurePolicy").supported_if_set(FAILURE_POLICIES, errors);
    webhook.child("matchPolicy").supported_if_set(MATCH_POLICIES, errors);
    let side_effects = webhook.child("sideEffects");
    side_effects.check_set("must specify one of None, NoneOnDryRun", errors);
    side_effects.supported_if_set(supported, errors);
    let timeout = webhook.child("timeoutSeconds");
    timeout.check_int(1..=30, "the timeout value must be between 1 and 30 seconds", errors);
    validate_selector(&webhook.child("namespaceSelector"), errors);
    validate_selector(&webhook.child("objectSelector"), errors);
    if is_mutating {
        webhook.child("reinvocationPolicy").supported_if_set(REINVOCATION_POLICIES, errors);
    }
    let config = webhook.child("clientConfig");
    validate_client_config(config.json(), config.path(), errors);
    validate_match_conditions(&webhook.child("matchConditions"), false, errors);
}

fn validate_webhook_name(name: &Field<'_>, errors: &mut Errors) {
    if name.text().is_empty() {
        return name.required("", errors);
    }
    let problems = dns_subdomain(name.text());
    if !problems.is_empty() {
        name.invalid(&problems.join(","), errors);
    } else if name.text().split('.').count() < 3 {
        name.invalid("should be a domain with at least three segments separated by dots", errors);
    }
}
