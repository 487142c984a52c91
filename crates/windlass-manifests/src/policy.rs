//! Validation rules as ValidatingAdmissionPolicies, which an API server evaluates without a webhook.
//!
//! A policy can contain the rules of a schema: for a cluster whose CustomResourceDefinition does not have them yet, or
//! to warn about violations before the rules are enforced. A macro binds `self`, so that a rule is unchanged in its
//! policy.
//!
//! Guaranteed: rules that would have another meaning in a policy are omitted and reported. Not guaranteed: in a rule of
//! a policy, a null field does not count as absent, in contrast to a schema. A policy also rejects updates of objects
//! that already violated the rule.

mod scope;
mod spoken;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde_json::Value;
use windlass_api::{ApiResource, Resource};

use self::scope::Scope;
use crate::problem::Problem;

/// The action for objects that violate a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// The write is rejected.
    #[default]
    Deny,
    /// The write succeeds with a warning to the client.
    Warn,
    /// The write succeeds with a note in the audit log.
    Audit,
}

/// Rules about the objects of a kind, in addition to those of its schema, and their enforcement.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_manifests::{Enforcement, Manifests, Part, Policy};
///
/// let small = Policy::of::<ConfigMap>()
///     .rule("!has(object.data) || object.data.size() <= 10", "ten entries are enough")
///     .enforcement(Enforcement::Warn);
/// let files = Manifests::new("website-operator").policy(small).files(Part::Policies)?;
/// assert_eq!(files[0].path, "policy/policies.yaml");
/// assert!(files[0].text.contains("message: ten entries are enough"));
/// # Ok::<(), windlass_manifests::Problems>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Policy {
    target: Target,
    /// The expressions and messages.
    rules: Vec<(String, String)>,
    enforcement: Enforcement,
}

/// A kind in one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    plural: String,
    version: String,
}

/// The content of a policy and its binding.
#[derive(Default)]
struct Parts {
    validations: Vec<Validation>,
    /// `true` if the status is a separate subresource.
    has_status: bool,
    enforcement: Enforcement,
}

/// All policies, and the omitted rules with the reason.
#[derive(Default)]
pub(crate) struct Policies {
    pub(crate) documents: Vec<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)>,
    pub(crate) left_out: Vec<Problem>,
}

// === impl Policy ===

impl Policy {
    /// Creates a policy without rules for a kind.
    pub fn of<K: Resource>() -> Self {
        let ApiResource { group, version, plural, .. } = K::api_resource();
        let target = Target { group: group.to_string(), plural: plural.to_string(), version: version.to_string() };
        Self { target, rules: Vec::new(), enforcement: Enforcement::Deny }
    }

    /// Adds a rule in CEL about `object`, and about `oldObject` on updates. `message` is returned for objects that
    /// violate it.
    pub fn rule(mut self, expression: impl Into<String>, message: impl Into<String>) -> Self {
        self.rules.push((expression.into(), message.into()));
        self
    }

    /// Sets the action for objects that violate a rule. Defaults to `Deny`.
    pub const fn enforcement(mut self, enforcement: Enforcement) -> Self {
        self.enforcement = enforcement;
        self
    }

    /// Returns the errors in the policy.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let place = format!("policy of {}", self.target.named());
        self.rules.iter().filter_map(move |(expression, message)| {
            let why = match spoken::problem(expression) {
                Some(why) => format!("rule {expression:?}: {why}"),
                None if message.trim().is_empty() || message.contains('\n') => {
                    format!("rule {expression:?}: its message must be a single line")
                }
                None => return None,
            };
            Some(Problem::new(&place, why))
        })
    }
}

impl Target {
    /// Returns the name of the target, which is also the name of the policy.
    fn named(&self) -> String {
        let Self { group, plural, version } = self;
        format!("{plural}.{version}.{}", if group.is_empty() { "core" } else { group })
    }
}

impl Enforcement {
    const fn action(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

// === Generation ===

/// Returns the policies for the rules of the CustomResourceDefinitions, by version, and the declared policies.
pub(crate) fn policies(definitions: &[CustomResourceDefinition], declared: &[Policy]) -> Policies {
    let mut of_targets = BTreeMap::<Target, Parts>::new();
    let mut left_out = Vec::new();
    for definition in definitions {
        for version in &definition.spec.versions {
            let target = Target {
                group: definition.spec.group.clone(),
                plural: definition.spec.names.plural.clone(),
                version: version.name.clone(),
            };
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default();
            let parts = of_targets.entry(target).or_default();
            parts.has_status = version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
            let mut made = Made { kind: format!("{} {}", definition.spec.names.kind, version.name), ..Made::default() };
            made.collect(&schema, &Scope::object());
            parts.validations.extend(made.validations);
            left_out.extend(made.left_out);
        }
    }
    for policy in declared {
        let parts = of_targets.entry(policy.target.clone()).or_default();
        parts.enforcement = policy.enforcement;
        parts.validations.extend(policy.rules.iter().map(|(expression, message)| Validation {
            expression: expression.clone(),
            message: Some(message.clone()),
            ..Validation::default()
        }));
    }
    let made = of_targets.into_iter().filter(|(_, parts)| !parts.validations.is_empty());
    Policies { documents: made.map(|(target, parts)| documents(&target, parts)).collect(), left_out }
}

fn documents(target: &Target, parts: Parts) -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
    let name = target.named();
    let status = parts.has_status.then(|| format!("{}/status", target.plural));
    let rule = NamedRuleWithOperations {
        api_groups: Some(vec![target.group.clone()]),
        api_versions: Some(vec![target.version.clone()]),
        operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
        resources: Some([target.plural.clone()].into_iter().chain(status).collect()),
        ..NamedRuleWithOperations::default()
    };
    let constraints = MatchResources {
        // Each version has its own rules.
        match_policy: Some("Exact".to_owned()),
        resource_rules: Some(vec![rule]),
        ..MatchResources::default()
    };
    let mut policy = ValidatingAdmissionPolicy {
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(constraints),
            validations: Some(parts.validations),
            ..ValidatingAdmissionPolicySpec::default()
        }),
        ..ValidatingAdmissionPolicy::default()
    };
    policy.metadata.name = Some(name.clone());
    #[allow(clippy::useless_conversion, reason = "these fields are optional in older Kubernetes versions")]
    let mut binding = ValidatingAdmissionPolicyBinding {
        spec: ValidatingAdmissionPolicyBindingSpec {
            policy_name: name.clone().into(),
            validation_actions: vec![parts.enforcement.action().to_owned()].into(),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }
        .into(),
        ..ValidatingAdmissionPolicyBinding::default()
    };
    binding.metadata.name = Some(name);
    (policy, binding)
}

/// The conversion result for the rules of one schema.
#[derive(Default)]
struct Made {
    /// The kind and version: `Website v1`.
    kind: String,
    validations: Vec<Validation>,
    left_out: Vec<Problem>,
}

impl Made {
    fn collect(&mut self, schema: &Value, scope: &Scope) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            match scope.validation(schema, rule) {
                Ok(validation) => self.validations.push(validation),
                Err(why) => {
                    let place = if scope.place().is_empty() {
                        self.kind.clone()
                    } else {
                        format!("{}: {}", self.kind, scope.place())
                    };
                    let rule = rule["rule"].as_str().unwrap_or_default();
                    self.left_out.push(Problem::new(place, format!("rule {rule:?}: {why}")));
                }
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            self.collect(property, &scope.property(name, property));
        }
        if schema["items"].is_object() {
            self.collect(&schema["items"], &scope.item(schema));
        }
        if schema["additionalProperties"].is_object() {
            self.collect(&schema["additionalProperties"], &scope.entry());
        }
    }
}

#[cfg(test)]
mod tests;
