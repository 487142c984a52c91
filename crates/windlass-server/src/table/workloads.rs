//! The cells of workloads and pod disruption budgets.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cells::{
        age, containers, flag, int, int_or_string, is_true, items, labels, name, number, parse_timestamp, selector,
        selector_text, text, time_since,
    },
    duration,
};

pub(super) fn pod_template(template: &Value, _now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(&template["template"]);
    vec![name(template), names, images, labels(&template["template"]["metadata"]["labels"])]
}

pub(super) fn replication_controller(controller: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&controller["spec"], &controller["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(controller),
        int(&spec["replicas"]),
        int(&status["replicas"]),
        int(&status["readyReplicas"]),
        age(controller, now),
        names,
        images,
        labels(&spec["selector"]),
    ]
}

pub(super) fn deployment(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&deployment["spec"], &deployment["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(deployment),
        format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"])).into(),
        int(&status["updatedReplicas"]),
        int(&status["availableReplicas"]),
        age(deployment, now),
        names,
        images,
        // Only for this kind the cell of an empty selector is empty.
        selector_text(&spec["selector"]).into(),
    ]
}

pub(super) fn replica_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(set),
        int(&spec["replicas"]),
        int(&status["replicas"]),
        int(&status["readyReplicas"]),
        age(set, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

pub(super) fn stateful_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]);
    let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
    vec![name(set), ready.into(), age(set, now), names, images]
}

pub(super) fn daemon_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&set["spec"], &set["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(set),
        int(&status["desiredNumberScheduled"]),
        int(&status["currentNumberScheduled"]),
        int(&status["numberReady"]),
        int(&status["updatedNumberScheduled"]),
        int(&status["numberAvailable"]),
        labels(&spec["template"]["spec"]["nodeSelector"]),
        age(set, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

pub(super) fn controller_revision(revision: &Value, now: Timestamp) -> Vec<Value> {
    let owners = items(&revision["metadata"]["ownerReferences"]);
    let controller = owners.iter().find(|owner| owner["controller"] == true).map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
            let kind = text(&owner["kind"]).to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(&owner["name"]))
        },
    );
    vec![name(revision), controller.into(), int(&revision["revision"]), age(revision, now)]
}

pub(super) fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let took = parse_timestamp(&status["startTime"])
        .map(|start| duration::since(start, parse_timestamp(&status["completionTime"]).unwrap_or(now)))
        .unwrap_or_default();
    let conditions = &status["conditions"];
    let deleting = job["metadata"].get("deletionTimestamp").is_some();
    let state = match () {
        () if is_true(conditions, "Complete") => "Complete",
        () if is_true(conditions, "Failed") => "Failed",
        () if deleting => "Terminating",
        () if is_true(conditions, "Suspended") => "Suspended",
        () if is_true(conditions, "FailureTarget") => "FailureTarget",
        () if is_true(conditions, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let [names, images] = containers(&spec["template"]);
    vec![
        name(job),
        state.into(),
        completions.into(),
        took.into(),
        age(job, now),
        names,
        images,
        selector(&spec["selector"]),
    ]
}

pub(super) fn cron_job(job: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&job["spec"], &job["status"]);
    let [names, images] = containers(&spec["jobTemplate"]["spec"]["template"]);
    vec![
        name(job),
        text(&spec["schedule"]).into(),
        spec["timeZone"].as_str().unwrap_or("<none>").into(),
        flag(&spec["suspend"]),
        items(&status["active"]).len().into(),
        parse_timestamp(&status["lastScheduleTime"])
            .map_or_else(|| "<none>".into(), |last| time_since(Some(last), now).into()),
        age(job, now),
        names,
        images,
        selector(&spec["jobTemplate"]["spec"]["selector"]),
    ]
}

pub(super) fn disruption_budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &budget["spec"];
    let bound = |field: &str| match &spec[field] {
        Value::Null => "N/A".into(),
        value => Value::from(int_or_string(value)),
    };
    vec![
        name(budget),
        bound("minAvailable"),
        bound("maxUnavailable"),
        int(&budget["status"]["disruptionsAllowed"]),
        age(budget, now),
    ]
}
