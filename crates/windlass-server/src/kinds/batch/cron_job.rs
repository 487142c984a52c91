//! Cron jobs.

use jiff::tz::TimeZone;
use windlass_api::{Schedule, ScheduleError};

use crate::{
    codec::go_worded,
    kinds::{
        batch::job,
        pod_spec::{defaults::default_template, warnings},
        prelude::*,
        workload::WORKLOAD,
    },
};

/// The maximum length of the name, because jobs are named by the cron job's name and a time.
const MAX_NAME_LENGTH: usize = 52;

pub(super) const KIND: Kind = Kind {
    name: "CronJob",
    rules: Rules { pod_spec: Some("/spec/jobTemplate/spec/template/spec"), ..WORKLOAD },
    default,
    validate,
    validate_create,
    warnings: warnings::of_cron_job,
    ..BASE
};

fn default(object: &mut Value) {
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

fn validate(object: &Field<'_>, errors: &mut Errors) {
    let spec = object.child("spec");
    validate_schedule(&spec.child("schedule"), errors);
    spec.child("startingDeadlineSeconds").not_negative(errors);
    spec.child("timeZone").if_set(validate_zone, errors);
    spec.child("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"], errors);
    validate_job_spec(&spec.child("jobTemplate.spec"), errors);
    spec.check_not_negative(&["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], errors);
}

fn validate_create(object: &Field<'_>, errors: &mut Errors) {
    let name = object.child("metadata.name");
    if name.text().len() > MAX_NAME_LENGTH {
        name.invalid(&format!("must be no more than {MAX_NAME_LENGTH} characters"), errors);
    }
}

fn validate_schedule(schedule: &Field<'_>, errors: &mut Errors) {
    let text = schedule.text();
    if text.is_empty() {
        schedule.required("", errors);
    } else if let Err(error) = Schedule::parse(text) {
        let problem = match error {
            ScheduleError::Every(text, why) => format!("failed to parse duration {text}: {}", go_worded(&why)),
            error => error.to_string(),
        };
        schedule.invalid(&problem, errors);
    }
    if text.contains("TZ") {
        schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead", errors);
    }
}

/// Validates the name of a time zone. It is case-sensitive, because Go opens a file with that name.
fn validate_zone(zone: &Field<'_>, errors: &mut Errors) {
    let name = zone.text();
    if name.is_empty() {
        return zone.invalid("timeZone must be nil or non-empty string", errors);
    }
    if name.eq_ignore_ascii_case("local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        zone.invalid(text, errors);
    }
    let is_known = || TimeZone::get(name).is_ok_and(|found| found.iana_name() == Some(name));
    if !matches!(name, "UTC" | "Local") && !is_known() {
        zone.invalid(&format!("unknown time zone {name}"), errors);
    }
}

/// Validates the spec of the created jobs. Its selector is always generated.
fn validate_job_spec(spec: &Field<'_>, errors: &mut Errors) {
    job::validate_spec(spec, errors);
    let selector = spec.child("selector");
    if selector.is_set() {
        selector.invalid("`selector` will be auto-generated", errors);
    }
    let manual = spec.child("manualSelector");
    if manual.flag() {
        errors.unsupported(manual.path(), manual.json(), &["nil", "false"]);
    }
}
