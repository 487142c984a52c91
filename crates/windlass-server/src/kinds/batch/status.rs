//! Validation of a job's status.

use windlass_api::parse_time;

use crate::kinds::{batch::success_policy, prelude::*};

/// Validates that a status is consistent. Existing inconsistencies are only reported if the affected fields change.
pub(super) fn validate_job_status(job: &Field<'_>, old_job: &Field<'_>, errors: &mut Errors) {
    let (status, old_status) = (job.child("status"), old_job.child("status"));
    status.check_not_negative(&["active", "succeeded", "failed", "ready", "terminating"], errors);
    let is = |kind: &str| has_condition(&status, kind);
    let turned = |kind: &str| is(kind) != has_condition(&old_status, kind);
    let changed = |name: &str| !status.child(name).same(&old_status.child(name));
    let (complete, failed, finished) = (is("Complete"), is("Failed"), is_finished(&status));
    let has_ended = finished != is_finished(&old_status);
    let conditions = status.child("conditions");
    let (started, completed) = (status.child("startTime"), status.child("completionTime"));

    if (turned("Complete") || turned("Failed")) && complete && failed {
        errors.invalid_without_value(conditions.path(), "cannot set Complete=True and Failed=true conditions");
    }
    if (turned("Complete") || turned("FailureTarget")) && complete && is("FailureTarget") {
        errors.invalid_without_value(conditions.path(), "cannot set Complete=True and FailureTarget=true conditions");
    }
    if turned("Complete") || changed("completionTime") {
        match (completed.is_set(), complete) {
            (true, false) => {
                completed.invalid("cannot set completionTime when there is no Complete=True condition", errors);
            }
            (false, true) => completed.required("completionTime is required for Complete jobs", errors),
            _ => {}
        }
    }
    if (changed("startTime") || changed("completionTime"))
        && started.is_set()
        && completed.is_set()
        && parse_time(completed.text()).ok() < parse_time(started.text()).ok()
    {
        completed.invalid("must be equal to or after `startTime`", errors);
    }
    if turned("Failed") && failed && !is("FailureTarget") {
        let text = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.invalid_without_value(conditions.path(), text);
    }
    if (turned("Complete") || turned("SuccessCriteriaMet")) && complete && !is("SuccessCriteriaMet") {
        let text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_without_value(conditions.path(), text);
    }
    let active = status.child("active");
    let active_pods = active.int().unwrap_or_default();
    if (has_ended || changed("active")) && active_pods > 0 && finished {
        active.invalid("active>0 is invalid for finished job", errors);
    }
    let runs_no_pods = job.child("spec.suspend").flag() && job.child("spec.completions").int() == Some(0);
    if (has_ended || changed("startTime")) && !runs_no_pods && !started.is_set() && finished {
        started.required("startTime is required for finished job", errors);
    }
    validate_indexes(job, old_job, errors);
    let terminating = status.child("terminating");
    if (has_ended || changed("terminating")) && terminating.int().is_some_and(|pods| pods > 0) && finished {
        terminating.invalid("terminating>0 is invalid for finished job", errors);
    }
    let ready = status.child("ready");
    if (changed("ready") || changed("active")) && ready.int().is_some_and(|pods| pods > active_pods) {
        ready.invalid("cannot set more ready pods than active", errors);
    }
    for kind in ["Failed", "FailureTarget"] {
        if is("SuccessCriteriaMet") && is(kind) {
            let text = format!("cannot set SuccessCriteriaMet=True and {kind}=true conditions");
            errors.invalid_without_value(conditions.path(), &text);
        }
    }
    validate_progress(job, old_job, errors);
}

/// Reports whether a condition of a status is true.
fn has_condition(status: &Field<'_>, kind: &str) -> bool {
    let is_it =
        |condition: Field<'_>| condition.child("type").text() == kind && condition.child("status").text() == "True";
    status.child("conditions").items().any(is_it)
}

fn is_finished(status: &Field<'_>) -> bool {
    has_condition(status, "Complete") || has_condition(status, "Failed")
}

/// Validates the completed and failed indexes.
fn validate_indexes(job: &Field<'_>, old_job: &Field<'_>, errors: &mut Errors) {
    let (status, old_status) = (job.child("status"), old_job.child("status"));
    let (completed, failed) = (status.child("completedIndexes"), status.child("failedIndexes"));
    let completed_changed = completed.value() != old_status.child("completedIndexes").value();
    let failed_changed = failed.value() != old_status.child("failedIndexes").value();
    let has_limit = job.child("spec.backoffLimitPerIndex").is_set();
    let total = job.child("spec.completions").int();
    let validate_list = |name: &str, total: i64, errors: &mut Errors| {
        let list = status.child(name);
        if let Err(problem) = success_policy::count_indexes(list.text(), total) {
            list.invalid_as(list.text(), &format!("error parsing {name}: {problem}"), errors);
        }
    };
    if let Some(total) = total {
        if completed_changed {
            validate_list("completedIndexes", total, errors);
        }
        if failed.is_set() && has_limit && failed_changed {
            validate_list("failedIndexes", total, errors);
        }
    }
    if completed_changed && !completed.is_empty() && job.child("spec.completionMode").text() != "Indexed" {
        completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode", errors);
    }
    if !failed.is_set() {
        return;
    }
    if failed_changed && !has_limit {
        failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null", errors);
    }
    if let Some(total) = total
        && (completed_changed || failed_changed)
        && let Some(index) = success_policy::common_index(completed.text(), failed.text(), total)
    {
        failed.invalid(&format!("failedIndexes and completedIndexes overlap at index: {index}"), errors);
    }
}

/// Validates that progress is not undone.
fn validate_progress(job: &Field<'_>, old_job: &Field<'_>, errors: &mut Errors) {
    let (status, old_status) = (job.child("status"), old_job.child("status"));
    let conditions = status.child("conditions");
    let lost = |kind: &str| has_condition(&old_status, kind) && !has_condition(&status, kind);
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if lost(kind) {
            let text = format!("cannot disable the terminal {kind}=True condition");
            errors.invalid_without_value(conditions.path(), &text);
        }
    }
    // An indexed job with as many completions as parallel pods can be scaled down.
    let is_elastic = job.child("spec.completionMode").text() == "Indexed"
        && job.child("spec.completions").int() == job.child("spec.parallelism").int();
    for name in ["failed", "succeeded"] {
        let count = status.child(name).int().unwrap_or_default();
        let decreases = count < old_status.child(name).int().unwrap_or_default();
        if decreases && !(name == "succeeded" && is_elastic) {
            status.child(name).invalid_as(&count, &format!("cannot decrease the {name} counter"), errors);
        }
    }
    let (completed, old_completed) = (status.child("completionTime"), old_status.child("completionTime"));
    if completed.is_set() && old_completed.is_set() {
        completed.immutable(&old_completed, errors);
    }
    let (started, old_started) = (status.child("startTime"), old_status.child("startTime"));
    if old_started.is_set() && started.value() != old_started.value() && !job.child("spec.suspend").flag() {
        started.invalid("field is immutable for unsuspended job once set", errors);
    }
    if lost("SuccessCriteriaMet") {
        errors.invalid_without_value(conditions.path(), "cannot disable the SuccessCriteriaMet=True condition");
    }
}
