//! Validation of a job's status.

use serde_json::Value;
use windlass_api::parse_time;

use crate::kinds::batch::success_policy;
use crate::object::{Errors, Path, Tree, same};

const STATUS: Path<'static> = Path::new("status");

/// Validates that a status is consistent. Existing inconsistencies are only reported if the affected fields change.
pub(in crate::kinds) fn validate_job_status(new: &Value, old: &Value, errors: &mut Errors) {
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.not_negative(&STATUS.child(field), new.int(&["status", field]));
    }
    let is = |job: &Value, kind: &str| {
        let is_it = |condition: &Value| condition.text(&["type"]) == kind && condition.text(&["status"]) == "True";
        job.items(&["status", "conditions"]).iter().any(is_it)
    };
    let finished = |job: &Value| is(job, "Complete") || is(job, "Failed");
    let turned = |kind: &str| is(new, kind) != is(old, kind);
    let changed = |field: &str| !same(new.at(&["status", field]), old.at(&["status", field]));
    let ended = finished(new) != finished(old);
    let conditions = STATUS.child("conditions");
    let (complete, failed) = (is(new, "Complete"), is(new, "Failed"));
    let time = |field: &str| new.at(&["status", field]).and_then(Value::as_str);
    let (started, completed) = (time("startTime"), time("completionTime"));

    if (turned("Complete") || turned("Failed")) && complete && failed {
        errors.invalid_without_value(&conditions, "cannot set Complete=True and Failed=true conditions");
    }
    if (turned("Complete") || turned("FailureTarget")) && complete && is(new, "FailureTarget") {
        errors.invalid_without_value(&conditions, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let place = STATUS.child("completionTime");
    if turned("Complete") || changed("completionTime") {
        match completed {
            Some(at) if !complete => {
                errors.invalid(&place, at, "cannot set completionTime when there is no Complete=True condition");
            }
            None if complete => errors.required(&place, "completionTime is required for Complete jobs"),
            _ => {}
        }
    }
    if (changed("startTime") || changed("completionTime"))
        && let (Some(started), Some(at)) = (started, completed)
        && parse_time(at).ok() < parse_time(started).ok()
    {
        errors.invalid(&place, at, "must be equal to or after `startTime`");
    }
    if turned("Failed") && failed && !is(new, "FailureTarget") {
        let text = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.invalid_without_value(&conditions, text);
    }
    if (turned("Complete") || turned("SuccessCriteriaMet")) && complete && !is(new, "SuccessCriteriaMet") {
        let text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_without_value(&conditions, text);
    }
    let active = new.int(&["status", "active"]).unwrap_or_default();
    if (ended || changed("active")) && active > 0 && finished(new) {
        errors.invalid(&STATUS.child("active"), &active, "active>0 is invalid for finished job");
    }
    let empty = new.flag(&["spec", "suspend"]) && new.int(&["spec", "completions"]) == Some(0);
    if (ended || changed("startTime")) && !empty && started.is_none() && finished(new) {
        errors.required(&STATUS.child("startTime"), "startTime is required for finished job");
    }
    validate_job_indexes(new, old, errors);
    let terminating = new.int(&["status", "terminating"]).unwrap_or_default();
    if (ended || changed("terminating")) && terminating > 0 && finished(new) {
        errors.invalid(&STATUS.child("terminating"), &terminating, "terminating>0 is invalid for finished job");
    }
    let ready = new.int(&["status", "ready"]).filter(|ready| *ready > active);
    if let Some(ready) = ready.filter(|_| changed("ready") || changed("active")) {
        errors.invalid(&STATUS.child("ready"), &ready, "cannot set more ready pods than active");
    }
    for kind in ["Failed", "FailureTarget"] {
        if is(new, "SuccessCriteriaMet") && is(new, kind) {
            let text = format!("cannot set SuccessCriteriaMet=True and {kind}=true conditions");
            errors.invalid_without_value(&conditions, &text);
        }
    }
    validate_job_progress(new, old, &is, errors);
}

/// Validates the completed and failed indexes.
fn validate_job_indexes(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELDS: [&str; 2] = ["completedIndexes", "failedIndexes"];
    let changed = |field: &str| new.at(&["status", field]) != old.at(&["status", field]);
    let list = |field: &str| new.at(&["status", field]).and_then(Value::as_str);
    let (completed, failed) = (list("completedIndexes").unwrap_or_default(), list("failedIndexes"));
    let by_index = new.at(&["spec", "backoffLimitPerIndex"]).is_some();
    let total = new.int(&["spec", "completions"]);
    let read = |field: &str, text: &str, total: i64, errors: &mut Errors| {
        if let Err(why) = success_policy::count_indexes(text, total) {
            errors.invalid(&STATUS.child(field), text, &format!("error parsing {field}: {why}"));
        }
    };
    if let Some(total) = total {
        if changed("completedIndexes") {
            read("completedIndexes", completed, total, errors);
        }
        if let Some(failed) = failed.filter(|_| by_index && changed("failedIndexes")) {
            read("failedIndexes", failed, total, errors);
        }
    }
    if changed("completedIndexes") && !completed.is_empty() && new.text(&["spec", "completionMode"]) != "Indexed" {
        let text = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&STATUS.child("completedIndexes"), completed, text);
    }
    let Some(failed) = failed else { return };
    let place = STATUS.child("failedIndexes");
    if changed("failedIndexes") && !by_index {
        errors.invalid(&place, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if let Some(total) = total
        && FIELDS.into_iter().any(changed)
        && let Some(index) = success_policy::common_index(completed, failed, total)
    {
        let text = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&place, failed, &text);
    }
}

/// Validates that progress is not undone.
fn validate_job_progress(new: &Value, old: &Value, is: &dyn Fn(&Value, &str) -> bool, errors: &mut Errors) {
    let conditions = STATUS.child("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is(old, kind) && !is(new, kind) {
            errors.invalid_without_value(&conditions, &format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    for field in ["failed", "succeeded"] {
        let count = |job: &Value| job.int(&["status", field]).unwrap_or_default();
        let elastic = field == "succeeded"
            && new.text(&["spec", "completionMode"]) == "Indexed"
            && new.int(&["spec", "completions"]) == new.int(&["spec", "parallelism"]);
        if count(new) < count(old) && !elastic {
            errors.invalid(&STATUS.child(field), &count(new), &format!("cannot decrease the {field} counter"));
        }
    }
    let time = |job: &Value, field: &str| job.at(&["status", field]).cloned();
    if let (Some(new), Some(old)) = (time(new, "completionTime"), time(old, "completionTime"))
        && new != old
    {
        errors.invalid(&STATUS.child("completionTime"), &new, "field is immutable");
    }
    let (started, before) = (time(new, "startTime"), time(old, "startTime"));
    if before.is_some() && started != before && !new.flag(&["spec", "suspend"]) {
        let text = "field is immutable for unsuspended job once set";
        errors.invalid(&STATUS.child("startTime"), &started.unwrap_or_default(), text);
    }
    if is(old, "SuccessCriteriaMet") && !is(new, "SuccessCriteriaMet") {
        errors.invalid_without_value(&conditions, "cannot disable the SuccessCriteriaMet=True condition");
    }
}
