//! A policy with its compiled expressions, and a binding of a policy.

use serde_json::Value;
use windlass_cel::{Composition, Expected, Program};

use super::optional;
use crate::{
    admission::matching::MatchResources,
    kinds::expressions::{Expression, PolicyCompiler},
    object::Tree,
};

/// A policy.
#[derive(Debug)]
pub(super) struct CompiledPolicy {
    pub(super) name: String,
    /// A failure rejects the write.
    pub(super) fails_closed: bool,
    pub(super) constraints: MatchResources,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) conditions: Vec<Expression>,
    pub(super) composition: Composition,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<AuditAnnotation>,
    pub(super) mutations: Vec<Mutation>,
    /// A mutating policy is evaluated again after later changes.
    pub(super) is_reinvoked: bool,
    /// An expression was not compiled for lack of resources. The policy must be compiled again.
    pub(super) is_incomplete: bool,
}

/// A validation of a policy.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: Option<String>,
}

/// An audit annotation of a policy.
#[derive(Debug)]
pub(super) struct AuditAnnotation {
    pub(super) key: String,
    pub(super) value: Expression,
}

/// A mutation of a policy.
#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) expression: Expression,
    pub(super) is_json_patch: bool,
}

/// The kind of a policy's parameters.
#[derive(Clone, Debug)]
pub(super) struct ParamKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    /// `None` matches all writes.
    pub(super) resources: Option<MatchResources>,
    /// The reference to parameters.
    pub(super) params: Option<Value>,
    pub(super) actions: Vec<String>,
}

// === impl CompiledPolicy ===

impl CompiledPolicy {
    /// Compiles the expressions of a policy. An expression that does not compile fails when it is evaluated.
    pub(super) fn compile(policy: &Value) -> Self {
        let null = Value::Null;
        let spec = policy.at(&["spec"]).unwrap_or(&null);
        let param_kind = spec.at(&["paramKind"]).filter(|kind| kind.is_object()).map(ParamKind::of);
        let mut compiler = PolicyCompiler::new(param_kind.is_some(), true);
        for variable in spec.items(&["variables"]) {
            // The error is reported by the expressions that use the variable.
            let _ = compiler.add_variable(variable.text(&["name"]), variable.text(&["expression"]));
        }
        let conditions = spec.items(&["matchConditions"]).iter();
        let conditions =
            conditions.map(|condition| compiler.compile(condition.text(&["expression"]), Expected::Bool, true));
        let conditions = conditions.collect();
        let validations = spec.items(&["validations"]).iter().map(|validation| Validation::of(validation, &compiler));
        let validations = validations.collect();
        let annotations = spec.items(&["auditAnnotations"]).iter().map(|annotation| AuditAnnotation {
            key: annotation.text(&["key"]).to_owned(),
            value: compiler.compile(annotation.text(&["valueExpression"]), Expected::TextOrNull, true),
        });
        let annotations = annotations.collect();
        let mutations = spec.items(&["mutations"]).iter().map(|mutation| Mutation::of(mutation, &compiler)).collect();
        Self {
            name: policy.text(&["metadata", "name"]).to_owned(),
            fails_closed: spec.text(&["failurePolicy"]) != "Ignore",
            constraints: MatchResources::of_policy(spec.at(&["matchConstraints"]).unwrap_or(&null)),
            param_kind,
            conditions,
            validations,
            annotations,
            mutations,
            is_reinvoked: spec.text(&["reinvocationPolicy"]) == "IfNeeded",
            is_incomplete: compiler.is_incomplete(),
            composition: compiler.into_composition(),
        }
    }

    /// Returns the compiled match conditions.
    pub(super) fn condition_programs(&self) -> impl Iterator<Item = &Program> {
        self.conditions.iter().filter_map(Expression::program)
    }
}

impl Validation {
    fn of(validation: &Value, compiler: &PolicyCompiler) -> Self {
        let message_expression = optional(validation, &["messageExpression"]);
        Self {
            expression: compiler.compile(validation.text(&["expression"]), Expected::Bool, true),
            message: validation.text(&["message"]).trim().to_owned(),
            message_expression: message_expression.map(|text| compiler.compile(&text, Expected::Text, false)),
            reason: optional(validation, &["reason"]),
        }
    }
}

impl Mutation {
    fn of(mutation: &Value, compiler: &PolicyCompiler) -> Self {
        let is_json_patch = mutation.text(&["patchType"]) == "JSONPatch";
        let (form, expected) =
            if is_json_patch { ("jsonPatch", Expected::Patch) } else { ("applyConfiguration", Expected::Object) };
        let expression = compiler.compile(mutation.text(&[form, "expression"]), expected, true);
        Self { expression, is_json_patch }
    }
}

impl ParamKind {
    fn of(kind: &Value) -> Self {
        let api_version = kind.text(&["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.text(&["kind"]).to_owned() }
    }
}

impl std::fmt::Display for ParamKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

// === impl Binding ===

impl Binding {
    pub(super) fn of(binding: &Value) -> Self {
        let resources = binding.at(&["spec", "matchResources"]).filter(|resources| resources.is_object());
        let actions = binding.items(&["spec", "validationActions"]).iter().filter_map(Value::as_str);
        Self {
            name: binding.text(&["metadata", "name"]).to_owned(),
            policy: binding.text(&["spec", "policyName"]).to_owned(),
            resources: resources.map(MatchResources::of_policy),
            params: binding.at(&["spec", "paramRef"]).filter(|reference| reference.is_object()).cloned(),
            actions: actions.map(str::to_owned).collect(),
        }
    }
}
