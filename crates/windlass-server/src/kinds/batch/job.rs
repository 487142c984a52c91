//! Jobs.

use std::collections::HashSet;

use crate::kinds::{
    batch::{status::validate_job_status, success_policy},
    pod_spec::warnings,
    prelude::*,
    workload::{
        Selection, WORKLOAD, default_pod_template, validate_pod_template, validate_selector, validate_template_labels,
    },
};

/// The maximum number of parallel pods, and of failed pods, of an indexed job.
const MAX_INDEXED_PODS: i64 = 100_000;
/// The maximum length of `managedBy`, in bytes.
const MAX_MANAGER_LENGTH: usize = 63;

pub(super) const KIND: Kind = Kind {
    name: "Job",
    rules: Rules {
        metadata: MetadataRule::FULL,
        dependents: Dependents::OrphanWithWarning,
        // A job without labels gets those of its template from the server.
        rewrites_new: |job| job.at(&["metadata", "labels"]) == job.at(&["spec", "template", "metadata", "labels"]),
        fields: &[FieldRule { label: "status.successful", path: "status.succeeded" }],
        unknown_field: UnknownField::OfKind,
        ..WORKLOAD
    },
    default,
    prepare_create,
    validate,
    validate_create,
    validate_update,
    validate_status: validate_job_status,
    warnings: warnings::of_named_workload,
    ..BASE
};

fn default(object: &mut Value) {
    let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
    default_spec(object);
    if let Some(labels) = labels {
        default_labels(object, labels);
    }
}

/// Generates the selector and the labels of a job from its uid, unless the selector is manual.
fn prepare_create(object: &mut Value, _write: &WriteContext<'_>) {
    if object.flag(&["spec", "manualSelector"]) {
        return;
    }
    let generated = generated_labels(object).map(|(key, value)| (key, value.to_owned()));
    let uid = object.text(&["metadata", "uid"]).to_owned();
    let spec = object_mut(object, "spec");
    let template = spec.entry("template").or_insert(Value::Null);
    let labels = as_object(metadata_mut(template).entry("labels").or_insert(Value::Null));
    for (key, value) in generated {
        default_to(labels, key, value);
    }
    let selector = as_object(spec.entry("selector").or_insert(Value::Null));
    let labels = as_object(selector.entry("matchLabels").or_insert(Value::Null));
    default_to(labels, "batch.kubernetes.io/controller-uid", uid);
    let labels = spec.at(&["template", "metadata", "labels"]).cloned().unwrap_or_default();
    default_labels(object, labels);
}

fn validate(job: &Field<'_>, errors: &mut Errors) {
    if errors.before(V1_37) {
        validate_job(job, errors);
    }
}

fn validate_create(job: &Field<'_>, errors: &mut Errors) {
    if !errors.before(V1_37) {
        validate_job(job, errors);
    }
}

fn validate_job(job: &Field<'_>, errors: &mut Errors) {
    let spec = job.child("spec");
    if !spec.is_set() {
        return;
    }
    validate_generated(job.json(), &spec, errors);
    validate_spec_with_selector(&spec, errors);
    validate_pod_names(job, errors);
}

/// Validates that the pods of an indexed job get valid names.
fn validate_pod_names(job: &Field<'_>, errors: &mut Errors) {
    let spec = job.child("spec");
    let completions = spec.child("completions").int().unwrap_or_default();
    if spec.child("completionMode").text() == "Indexed" && completions > 0 {
        let name = job.child("metadata.name");
        let last_pod = format!("{}-{}", name.text(), completions - 1);
        if !dns_label(&last_pod).is_empty() {
            let text = format!("will not able to create pod with invalid DNS label: {last_pod}");
            name.invalid_as(name.text(), &text, errors);
        }
    }
}

fn validate_update(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    if spec.is_set() {
        // `validate` has already checked the spec, so its errors appear twice before 1.37, as in kube-apiserver.
        validate_spec_with_selector(&spec, errors);
    }
    let (completions, old_completions) = (spec.child("completions"), old_spec.child("completions"));
    let count = completions.int();
    if spec.child("completionMode").text() != "Indexed" {
        completions.immutable(&old_completions, errors);
    } else if count.is_some() && count != old_completions.int() && count != spec.child("parallelism").int() {
        completions.invalid("can only be modified in tandem with spec.parallelism", errors);
    }
    spec.check_immutable(&old_spec, &["selector"], errors);
    let is_suspended = old_spec.child("suspend").flag() && !old.child("status.startTime").is_set();
    if !is_suspended {
        spec.check_immutable(&old_spec, &["template"], errors);
    }
    let names = ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];
    spec.check_immutable(&old_spec, &names, errors);
    if !errors.before(V1_37) {
        validate_pod_names(new, errors);
    }
}

fn default_spec(object: &mut Value) {
    let spec = object_mut(object, "spec");
    if spec.at(&["completions"]).is_none() && spec.at(&["parallelism"]).is_none() {
        default_pointer(spec, "completions", 1);
    }
    default_pointer(spec, "parallelism", 1);
    let limit = if spec.at(&["backoffLimitPerIndex"]).is_some() { i64::from(i32::MAX) } else { 6 };
    default_pointer(spec, "backoffLimit", limit);
    default_pointer(spec, "completionMode", "NonIndexed");
    default_pointer(spec, "suspend", false);
    let replacement = if spec.at(&["podFailurePolicy"]).is_some() { "Failed" } else { "TerminatingOrFailed" };
    default_pointer(spec, "podReplacementPolicy", replacement);
    default_pointer(spec, "manualSelector", false);
    let conditions = "spec.podFailurePolicy.rules.*.onPodConditions.*";
    change_each(object, conditions, |condition| default_to(condition, "status", "True"));
    default_pod_template(object);
}

/// Sets the labels of a job that has none.
fn default_labels(object: &mut Value, labels: Value) {
    let metadata = metadata_mut(object);
    if metadata.entries(&["labels"]).next().is_none() {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// Returns the labels that the server generates for the pods of a job.
fn generated_labels(job: &Value) -> [(&'static str, &str); 4] {
    let (name, uid) = (job.text(&["metadata", "name"]), job.text(&["metadata", "uid"]));
    [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ]
}

/// Validates that generated labels and selectors have their generated values.
fn validate_generated(job: &Value, spec: &Field<'_>, errors: &mut Errors) {
    let selector = spec.child("selector");
    if spec.child("manualSelector").flag() || !selector.is_set() {
        return;
    }
    let generated = generated_labels(job);
    let labels = spec.child("template.metadata.labels");
    for (key, value) in generated {
        let label = labels.key(key);
        let text = || format!("must be '{value}'");
        match label.value().and_then(Value::as_str) {
            None => label.required(&text(), errors),
            Some(found) if found != value => label.invalid_as(labels.json(), &text(), errors),
            Some(_) => {}
        }
    }
    let label = |key: &str| generated.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value);
    // Another check reports an invalid selector.
    if let Selection::Valid(parsed) = validate_selector(&selector, &mut Errors::default())
        && !parsed.matches(label)
    {
        selector.invalid("`selector` not auto-generated", errors);
    }
}

/// Validates the spec of a job including its selector, which the jobs of cron jobs do not have yet.
fn validate_spec_with_selector(spec: &Field<'_>, errors: &mut Errors) {
    validate_spec(spec, errors);
    let selection = validate_selector(&spec.child("selector"), errors);
    validate_template_labels(&spec.child("template"), &selection, errors);
}

/// Validates the fields that jobs and the job templates of cron jobs share.
pub(super) fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    spec.check_not_negative(&counts, errors);
    let index_limit = spec.child("backoffLimitPerIndex");
    if spec.child("maxFailedIndexes").is_set() && !index_limit.is_set() {
        index_limit.required("when maxFailedIndexes is specified", errors);
    }
    let manager = spec.child("managedBy");
    if manager.is_set() {
        validate_domain_prefixed(manager.text(), manager.path(), errors);
        manager.check_bytes(MAX_MANAGER_LENGTH, errors);
    }
    let mode = spec.child("completionMode");
    mode.one_of(&["NonIndexed", "Indexed"], errors);
    match mode.text() {
        "Indexed" => validate_indexed(spec, errors),
        "" | "NonIndexed" => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
                let field = spec.child(name);
                if field.is_set() {
                    field.invalid("requires indexed completion mode", errors);
                }
            }
        }
        _ => {}
    }
    validate_failure_policy(spec, errors);
    let has_failure_policy = spec.child("podFailurePolicy").is_set();
    let replacements: &[&str] = if has_failure_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    spec.child("podReplacementPolicy").one_of(replacements, errors);
    validate_template(&spec.child("template"), has_failure_policy, errors);
}

/// Validates the fields of an indexed job.
fn validate_indexed(spec: &Field<'_>, errors: &mut Errors) {
    let completions = spec.child("completions");
    completions.check_set("when completion mode is Indexed", errors);
    spec.child("parallelism").check_int(
        ..=MAX_INDEXED_PODS,
        format_args!("must be less than or equal to {MAX_INDEXED_PODS} when completion mode is Indexed"),
        errors,
    );
    let failures = spec.child("maxFailedIndexes");
    if completions.is_set() && failures.int() > completions.int() {
        failures.invalid("must be less than or equal to completions", errors);
    }
    let limit = ..=MAX_INDEXED_PODS;
    failures.check_int(limit, format_args!("must be less than or equal to {MAX_INDEXED_PODS}"), errors);
    let policy = spec.child("successPolicy");
    if let Some(completions) = completions.int().filter(|_| policy.is_set()) {
        success_policy::validate(&policy, completions, errors);
    }
}

/// Validates the pod failure policy.
fn validate_failure_policy(spec: &Field<'_>, errors: &mut Errors) {
    for rule in spec.child("podFailurePolicy.rules").items() {
        let action = rule.child("action");
        match action.text() {
            "" => action.required(r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#, errors),
            "FailIndex" if !spec.child("backoffLimitPerIndex").is_set() => {
                action.invalid("requires the backoffLimitPerIndex to be set", errors);
            }
            _ => action.one_of(&["Count", "FailIndex", "FailJob", "Ignore"], errors),
        }
        let (codes, conditions) = (rule.child("onExitCodes"), rule.child("onPodConditions"));
        codes.if_set(|codes, errors| validate_exit_codes(codes, spec, errors), errors);
        for condition in conditions.items() {
            condition.child("type").check_text(qualified_name, errors);
            condition.child("status").one_of(&["False", "True", "Unknown"], errors);
        }
        if codes.is_set() && !conditions.is_empty() {
            let text = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.invalid_without_value(rule.path(), text);
        }
        if !codes.is_set() && conditions.is_empty() {
            let text = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.invalid_without_value(rule.path(), text);
        }
    }
}

fn validate_exit_codes(codes: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let operator = codes.child("operator");
    operator.check_not_empty(r#"valid values: ["In" "NotIn"]"#, errors);
    operator.one_of(&["In", "NotIn"], errors);
    let name = codes.child("containerName");
    if name.is_set() {
        let lists = ["template.spec.containers", "template.spec.initContainers"];
        let has_name = |container: Field<'_>| container.child("name").text() == name.text();
        if !lists.iter().any(|list| spec.child(list).items().any(has_name)) {
            name.invalid("must be one of the container or initContainer names in the pod template", errors);
        }
    }
    let values = codes.child("values");
    if values.is_empty() {
        values.invalid_as(&json!([]), "at least one value is required", errors);
    }
    let mut seen = HashSet::new();
    for value in values.items() {
        if value.int() == Some(0) && operator.text() == "In" {
            value.invalid("must not be 0 for the In operator", errors);
        }
        if !seen.insert(value.int()) {
            value.duplicate(errors);
        }
    }
    if !values.items().is_sorted_by_key(|value| value.int()) {
        values.invalid("must be ordered", errors);
    }
}

/// Validates the pod template of a job: its restart policy must not be `Always`.
fn validate_template(template: &Field<'_>, has_failure_policy: bool, errors: &mut Errors) {
    validate_pod_template(template, errors);
    let policy = template.child("spec.restartPolicy");
    match policy.text() {
        "" | "Always" => policy.required("valid values: \"OnFailure\", \"Never\"", errors),
        "OnFailure" if has_failure_policy => {
            policy.invalid("only \"Never\" is supported when podFailurePolicy is specified", errors);
        }
        _ => policy.one_of(&["OnFailure", "Never"], errors),
    }
}
