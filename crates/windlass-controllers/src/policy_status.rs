//! ValidatingAdmissionPolicyStatus: checks the types of the expressions in policies, and reports problems in the status.
//!
//! A policy is checked once per generation, with each kind that its rules name without wildcards. The types come from the
//! OpenAPI documents of the server. A problem is a warning: it does not change the effect of the policy.

mod kinds;

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    ExpressionWarning, TypeChecking, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyStatus,
};
use windlass_api::ObjectExt;
use windlass_cel::{AdmissionVariables, Composition, Environment, Expected, Schema};
use windlass_runtime::{Action, Context, Controller, Manager};

use self::kinds::{CheckedKind, kinds_of, schema_of_params};
use crate::error::{ReconcileError, await_newer_state};

/// The field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    manager.add(Controller::<ValidatingAdmissionPolicy>::new().named("validatingadmissionpolicy-status").reconcile(
        async |policy: Arc<ValidatingAdmissionPolicy>, cx: Context| await_newer_state(reconcile(&policy, &cx).await),
    ));
}

async fn reconcile(policy: &ValidatingAdmissionPolicy, cx: &Context) -> Result<Action, ReconcileError> {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    if policy.metadata.generation.unwrap_or(0) <= observed.unwrap_or(0) {
        return Ok(Action::await_change());
    }
    let kinds = kinds_of(policy, cx.live()).await?;
    let params = schema_of_params(policy, cx.live()).await?;
    let warnings = warnings(policy, &kinds, params.as_ref());
    let status = ValidatingAdmissionPolicyStatus {
        observed_generation: policy.metadata.generation,
        type_checking: Some(TypeChecking { expression_warnings: (!warnings.is_empty()).then_some(warnings) }),
        ..ValidatingAdmissionPolicyStatus::default()
    };
    let mut wanted = ValidatingAdmissionPolicy { status: Some(status), ..ValidatingAdmissionPolicy::default() };
    wanted.metadata.name = Some(policy.name().to_owned());
    cx.live().apply(&wanted).subresource("status").field_manager(MANAGER).force().await?;
    Ok(Action::await_change())
}

/// Returns the problems of the validations for objects of these kinds.
fn warnings(
    policy: &ValidatingAdmissionPolicy,
    kinds: &[CheckedKind],
    params: Option<&Arc<Schema>>,
) -> Vec<ExpressionWarning> {
    let spec = policy.spec.as_ref();
    let checked: Vec<_> = kinds.iter().map(|kind| (kind, Checked::new(policy, &kind.schema, params))).collect();
    let check = |expression: &str, field_ref: String| {
        let problems: Vec<String> = checked
            .iter()
            .filter_map(|(kind, checked)| {
                let error = checked.0.compile(expression, Expected::Any).err()?;
                Some(format!("{kind}: {error}\n"))
            })
            .collect();
        (!problems.is_empty()).then(|| ExpressionWarning { field_ref, warning: problems.join("\n") })
    };
    let validations = spec.and_then(|spec| spec.validations.as_ref()).into_iter().flatten().enumerate();
    let warnings = validations.flat_map(|(index, validation)| {
        let field = |name: &str| format!("spec.validations[{index}].{name}");
        let message = validation.message_expression.as_deref().filter(|text| !text.is_empty());
        [
            check(&validation.expression, field("expression")),
            message.and_then(|message| check(message, field("messageExpression"))),
        ]
    });
    warnings.flatten().collect()
}

/// The environment of a policy's expressions for objects of one kind, with the policy's variables.
struct Checked(Environment);

impl Checked {
    fn new(policy: &ValidatingAdmissionPolicy, object: &Arc<Schema>, params: Option<&Arc<Schema>>) -> Self {
        let spec = policy.spec.as_ref();
        let has_params = spec.is_some_and(|spec| spec.param_kind.is_some());
        let available = AdmissionVariables { params: has_params, authorizer: true, patches: false };
        let any = Schema::any();
        let environment = available.typed_environment(object, params.unwrap_or(&any));
        let mut composition = Composition::default();
        for variable in spec.and_then(|spec| spec.variables.as_ref()).into_iter().flatten() {
            // The type of a variable with a problem is not known.
            let _ = composition.add(&variable.name, &variable.expression, &environment);
        }
        Self(composition.extend(&environment))
    }
}

#[cfg(test)]
mod tests;
