//! Jobs and cron jobs: kinds with a pod template whose pods run to completion.

mod status;
mod success_policy;

use std::collections::HashSet;

use jiff::tz::TimeZone;
use serde_json::Value;
use windlass_api::{Schedule, ScheduleError};

pub(super) use crate::kinds::batch::status::validate_job_status;
use crate::kinds::pod_spec::{defaults::default_template, one_of};
use super::{selector::is_readable, workload::{selector_of, template, validate_pod_template}};
use crate::{
    codec::go_worded,
    object::{
        Errors, Path, Tree, as_object, default_pointer, default_to, entry_mut, items_mut, metadata_mut, object_mut,
        qualified_name, validate_domain_prefixed,
    },
};

const SPEC: Path<'static> = Path::new("spec");
/// The maximum number of parallel pods, and of failed pods, of an indexed job.
const MOST: i64 = 100_000;
const MAX_MANAGER: usize = 63;

// === defaults ===

pub(super) fn default_job(object: &mut Value) {
    let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
    default_job_spec(object);
    if let Some(labels) = labels {
        let metadata = metadata_mut(object);
        if metadata.entries(&["labels"]).next().is_none() {
            metadata.insert("labels".to_owned(), labels);
        }
    }
}

pub(super) fn default_cron_job(object: &mut Value) {
    let spec = object_mut(object, "spec");
    default_to(spec, "concurrencyPolicy", "Allow");
    default_pointer(spec, "suspend", false);
    default_pointer(spec, "successfulJobsHistoryLimit", 3);
    default_pointer(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = spec.get_mut("jobTemplate").and_then(|template| entry_mut(template, "spec")) {
        // Defaults only the pod template; the job's fields get their defaults when it is created.
        default_template(job, "template");
    }
}

fn default_job_spec(object: &mut Value) {
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
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            for condition in items_mut(rule, "onPodConditions") {
                default_to(as_object(condition), "status", "True");
            }
        }
    }
    template(object);
}

// === preparation ===

/// Generates the selector and the labels of a job from its uid, unless the selector is manual.
pub(super) fn prepare_job_create(object: &mut Value) {
    if object.flag(&["spec", "manualSelector"]) {
        return;
    }
    let (name, uid) = (object.text(&["metadata", "name"]).to_owned(), object.text(&["metadata", "uid"]).to_owned());
    let spec = object_mut(object, "spec");
    let template = spec.entry("template").or_insert(Value::Null);
    let labels = as_object(metadata_mut(template).entry("labels").or_insert(Value::Null));
    for (key, value) in [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        default_to(labels, key, value.clone());
    }
    let selector = as_object(spec.entry("selector").or_insert(Value::Null));
    let labels = as_object(selector.entry("matchLabels").or_insert(Value::Null));
    default_to(labels, "batch.kubernetes.io/controller-uid", uid);
    let labels = spec.at(&["template", "metadata", "labels"]).cloned().unwrap_or_default();
    let metadata = metadata_mut(object);
    if metadata.entries(&["labels"]).next().is_none() {
        metadata.insert("labels".to_owned(), labels);
    }
}

// === validation ===

pub(super) fn validate_job(object: &Value, errors: &mut Errors) {
    let Some(spec) = object.at(&["spec"]) else { return };
    validate_generated(object, spec, errors);
    validate_selecting_spec(spec, errors);
    let completions = spec.int(&["completions"]).unwrap_or_default();
    if spec.text(&["completionMode"]) == "Indexed" && completions > 0 {
        let name = object.text(&["metadata", "name"]);
        let last = format!("{name}-{}", completions - 1);
        if !crate::object::dns_label(&last).is_empty() {
            let text = format!("will not able to create pod with invalid DNS label: {last}");
            errors.invalid(&Path::new("metadata.name"), name, &text);
        }
    }
}

/// Validates the spec of a job including its selector, which the jobs of cron jobs do not have yet.
fn validate_selecting_spec(spec: &Value, errors: &mut Errors) {
    validate_spec(spec, &SPEC, errors);
    if spec.at(&["selector"]).is_none() {
        errors.required(&SPEC.child("selector"), "");
    }
    let readable = is_readable(spec.at(&["selector"]), &SPEC.child("selector"), errors);
    let labels = spec.at(&["template", "metadata", "labels"]);
    let selects = spec.at(&["selector"]).is_some();
    if !selects || readable && !selector_of(spec).matches(|key| labels.and_then(|labels| labels.at(&[key])?.as_str())) {
        let text = "`selector` does not match template `labels`";
        errors.invalid(&SPEC.child("template.metadata.labels"), labels.unwrap_or(&Value::Null), text);
    }
}

/// Validates that generated labels and selectors have their generated values.
fn validate_generated(object: &Value, spec: &Value, errors: &mut Errors) {
    if spec.flag(&["manualSelector"]) || spec.at(&["selector"]).is_none() {
        return;
    }
    let (name, uid) = (object.text(&["metadata", "name"]), object.text(&["metadata", "uid"]));
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let path = SPEC.child("template.metadata.labels");
    for (key, value) in expected {
        match spec.at(&["template", "metadata", "labels", key]).and_then(Value::as_str) {
            None => errors.required(&path.key(key), &format!("must be '{value}'")),
            Some(found) if found != value => {
                let labels = spec.at(&["template", "metadata", "labels"]).unwrap_or(&Value::Null);
                errors.invalid(&path.key(key), labels, &format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let of = |key: &str| expected.into_iter().find(|(known, _)| *known == key).map(|(_, value)| value);
    // Another check reports an invalid selector.
    let readable = is_readable(spec.at(&["selector"]), &SPEC, &mut Errors::default());
    if readable && !selector_of(spec).matches(of) {
        let selector = spec.at(&["selector"]).unwrap_or(&Value::Null);
        errors.invalid(&SPEC.child("selector"), selector, "`selector` not auto-generated");
    }
}

/// Validates the fields that jobs and the job templates of cron jobs share.
fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.not_negative(&path.child(field), spec.int(&[field]));
    }
    let failures = spec.int(&["maxFailedIndexes"]);
    if failures.is_some() && spec.int(&["backoffLimitPerIndex"]).is_none() {
        errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.at(&["managedBy"]).and_then(Value::as_str) {
        let place = path.child("managedBy");
        validate_domain_prefixed(manager, &place, errors);
        if manager.len() > MAX_MANAGER {
            errors.too_long(&place, MAX_MANAGER);
        }
    }
    one_of(spec, "completionMode", &["NonIndexed", "Indexed"], path, errors);
    let completions = spec.int(&["completions"]);
    match spec.text(&["completionMode"]) {
        "Indexed" => {
            if completions.is_none() {
                errors.required(&path.child("completions"), "when completion mode is Indexed");
            }
            if let Some(number) = spec.int(&["parallelism"]).filter(|number| *number > MOST) {
                let text = format!("must be less than or equal to {MOST} when completion mode is Indexed");
                errors.invalid(&path.child("parallelism"), &number, &text);
            }
            let place = path.child("maxFailedIndexes");
            if let Some(failures) = failures.filter(|failures| completions.is_some_and(|most| *failures > most)) {
                errors.invalid(&place, &failures, "must be less than or equal to completions");
            }
            if let Some(failures) = failures.filter(|failures| *failures > MOST) {
                errors.invalid(&place, &failures, &format!("must be less than or equal to {MOST}"));
            }
            if let (Some(_), Some(completions)) = (spec.at(&["successPolicy"]), completions) {
                success_policy::validate(spec, completions, path, errors);
            }
        }
        "" | "NonIndexed" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec.int(&[field]) {
                    errors.invalid(&path.child(field), &number, "requires indexed completion mode");
                }
            }
            if let Some(policy) = spec.at(&["successPolicy"]) {
                errors.invalid(&path.child("successPolicy"), policy, "requires indexed completion mode");
            }
        }
        _ => {}
    }
    validate_failure_policy(spec, path, errors);
    let replacements: &[&str] =
        if spec.at(&["podFailurePolicy"]).is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    one_of(spec, "podReplacementPolicy", replacements, path, errors);
    validate_template(spec, &path.child("template"), errors);
}

/// Validates the pod failure policy.
fn validate_failure_policy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("podFailurePolicy");
    let list = path.child("rules");
    for (index, rule) in spec.items(&["podFailurePolicy", "rules"]).iter().enumerate() {
        let place = list.index(index);
        match rule.text(&["action"]) {
            "" => {
                let text = r#"valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#;
                errors.required(&place.child("action"), text);
            }
            action @ "FailIndex" if spec.int(&["backoffLimitPerIndex"]).is_none() => {
                errors.invalid(&place.child("action"), action, "requires the backoffLimitPerIndex to be set");
            }
            _ => one_of(rule, "action", &["Count", "FailIndex", "FailJob", "Ignore"], &place, errors),
        }
        let codes = rule.at(&["onExitCodes"]);
        if let Some(codes) = codes {
            validate_exit_codes(codes, spec, &place.child("onExitCodes"), errors);
        }
        let conditions = rule.items(&["onPodConditions"]);
        let list = place.child("onPodConditions");
        for (index, condition) in conditions.iter().enumerate() {
            let kind = condition.text(&["type"]);
            errors.invalid_each(&list.index(index).child("type"), kind, qualified_name(kind));
            one_of(condition, "status", &["False", "True", "Unknown"], &list.index(index), errors);
        }
        match (codes.is_some(), conditions.is_empty()) {
            (true, false) => {
                errors
                    .invalid_without_value(&place, "specifying both OnExitCodes and OnPodConditions is not supported");
            }
            (false, true) => {
                errors.invalid_without_value(&place, "specifying one of OnExitCodes and OnPodConditions is required");
            }
            _ => {}
        }
    }
}

fn validate_exit_codes(codes: &Value, spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if codes.text(&["operator"]).is_empty() {
        errors.required(&path.child("operator"), r#"valid values: ["In" "NotIn"]"#);
    }
    one_of(codes, "operator", &["In", "NotIn"], path, errors);
    if let Some(name) = codes.at(&["containerName"]).and_then(Value::as_str) {
        let is_it = |container: &Value| container.text(&["name"]) == name;
        let lists = ["containers", "initContainers"];
        if !lists.iter().any(|list| spec.items(&["template", "spec", list]).iter().any(is_it)) {
            let text = "must be one of the container or initContainer names in the pod template";
            errors.invalid(&path.child("containerName"), name, text);
        }
    }
    let list = path.child("values");
    let values: Vec<i64> = codes.items(&["values"]).iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.invalid(&list, &Value::Array(Vec::new()), "at least one value is required");
    }
    let mut known = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        if *value == 0 && codes.text(&["operator"]) == "In" {
            errors.invalid(&list.index(index), value, "must not be 0 for the In operator");
        }
        if !known.insert(value) {
            errors.duplicate(&list.index(index), value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(&list, &Value::from(values), "must be ordered");
    }
}

/// Validates the pod template of a job: its restart policy must not be `Always`.
fn validate_template(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let template = spec.at(&["template"]).unwrap_or(&Value::Null);
    validate_pod_template(template, path, errors);
    let place = path.child("spec.restartPolicy");
    match template.text(&["spec", "restartPolicy"]) {
        "" | "Always" => errors.required(&place, "valid values: \"OnFailure\", \"Never\""),
        policy @ "OnFailure" if spec.at(&["podFailurePolicy"]).is_some() => {
            errors.invalid(&place, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => errors.unsupported(&place, other, &["OnFailure", "Never"]),
    }
}

pub(super) fn validate_job_update(new: &Value, old: &Value, errors: &mut Errors) {
    // The real server validates the spec twice and reports errors twice.
    if let Some(spec) = new.at(&["spec"]) {
        validate_selecting_spec(spec, errors);
    }
    let immutable = |field: &str, errors: &mut Errors| {
        errors.immutable(&SPEC.child(field), new.at(&["spec", field]), old.at(&["spec", field]));
    };
    let completions = new.int(&["spec", "completions"]);
    if new.text(&["spec", "completionMode"]) != "Indexed" {
        immutable("completions", errors);
    } else if let Some(number) = completions.filter(|_| completions != old.int(&["spec", "completions"]))
        && completions != new.int(&["spec", "parallelism"])
    {
        let text = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&SPEC.child("completions"), &number, text);
    }
    immutable("selector", errors);
    let suspended = old.flag(&["spec", "suspend"]) && old.at(&["status", "startTime"]).is_none();
    if !suspended {
        immutable("template", errors);
    }
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(field, errors);
    }
}

pub(super) fn validate_cron_job(object: &Value, errors: &mut Errors) {
    let nothing = Value::Object(serde_json::Map::new());
    let spec = object.at(&["spec"]).unwrap_or(&nothing);
    let (schedule, place) = (spec.text(&["schedule"]), SPEC.child("schedule"));
    if schedule.is_empty() {
        errors.required(&place, "");
    } else if let Err(error) = Schedule::parse(schedule) {
        let problem = match error {
            ScheduleError::Every(text, why) => format!("failed to parse duration {text}: {}", go_worded(&why)),
            error => error.to_string(),
        };
        errors.invalid(&place, schedule, &problem);
    }
    if schedule.contains("TZ") {
        errors.invalid(&place, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    }
    errors.not_negative(&SPEC.child("startingDeadlineSeconds"), spec.int(&["startingDeadlineSeconds"]));
    if let Some(zone) = spec.at(&["timeZone"]).and_then(Value::as_str) {
        validate_zone(zone, &SPEC.child("timeZone"), errors);
    }
    one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &SPEC, errors);
    let path = SPEC.child("jobTemplate.spec");
    let job = spec.at(&["jobTemplate", "spec"]).unwrap_or(&nothing);
    validate_spec(job, &path, errors);
    if let Some(selector) = job.at(&["selector"]) {
        errors.invalid(&path.child("selector"), selector, "`selector` will be auto-generated");
    }
    if job.flag(&["manualSelector"]) {
        errors.unsupported(&path.child("manualSelector"), &Value::Bool(true), &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.not_negative(&SPEC.child(field), spec.int(&[field]));
    }
}

/// Validates the name of a time zone. It is case-sensitive, because Go opens a file with that name.
fn validate_zone(zone: &str, path: &Path<'_>, errors: &mut Errors) {
    if zone.is_empty() {
        return errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    if zone.eq_ignore_ascii_case("local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, text);
    }
    let is_known = || TimeZone::get(zone).is_ok_and(|found| found.iana_name() == Some(zone));
    if !matches!(zone, "UTC" | "Local") && !is_known() {
        errors.invalid(path, zone, &format!("unknown time zone {zone}"));
    }
}

/// Validates the length of the name, because jobs are named by the cron job's name and a time.
pub(super) fn validate_new_cron_job(object: &Value, errors: &mut Errors) {
    let name = object.text(&["metadata", "name"]);
    if name.len() > 52 {
        errors.invalid(&Path::new("metadata.name"), name, "must be no more than 52 characters");
    }
}
