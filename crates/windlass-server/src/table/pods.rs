//! The cells of pods, with the pod's state in one word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{age, items, list, name, none_if_empty, parse_timestamp, text, time_since};

/// Returns name, readiness, status, restarts, age, address, node, nominated node and readiness gates.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => format!("{} ({} ago)", summary.restarts, time_since(Some(last), now)),
        _ => summary.restarts.to_string(),
    };
    let (spec, status) = (&pod["spec"], &pod["status"]);
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, now),
        none_if_empty(text(&status["podIPs"][0]["ip"])),
        none_if_empty(text(&spec["nodeName"])),
        none_if_empty(text(&status["nominatedNodeName"])),
        gates(spec, status).into(),
    ]
}

/// Returns the conditions of a finished pod's row.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

struct Summary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// The number of restarts of some containers, and the time of the last one.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container["restartCount"].as_i64().unwrap_or_default();
        self.last = self.last.max(parse_timestamp(&container["lastState"]["terminated"]["finishedAt"]));
    }
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let phase = text(&status["phase"]);
        let mut summary = Self {
            reason: [text(&status["reason"]), phase]
                .into_iter()
                .find(|reason| !reason.is_empty())
                .unwrap_or("")
                .to_owned(),
            ready: 0,
            containers: items(&spec["containers"]).len(),
            restarts: 0,
            last_restart: None,
        };
        let conditions = items(&status["conditions"]);
        if conditions.iter().any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let sidecars = list(items(&spec["initContainers"]).iter().filter(|c| c["restartPolicy"] == "Always"), "name");
        summary.containers += sidecars.len();

        let (initializing, sidecar_restarts, mut restarts) = summary.initialization(spec, status, &sidecars);
        let initialized = conditions.iter().any(|c| c["type"] == "Initialized" && c["status"] == "True");
        if !initializing || initialized {
            restarts = sidecar_restarts;
            summary.running(status, &mut restarts);
        }
        summary.restarts = restarts.count;
        summary.last_restart = restarts.last;

        if pod["metadata"].get("deletionTimestamp").is_some() {
            if status["reason"] == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Inspects the init containers up to the first unfinished one. Returns whether there is one, the restarts of
    /// sidecars, and the restarts of all init containers.
    fn initialization(&mut self, spec: &Value, status: &Value, sidecars: &[&str]) -> (bool, Restarts, Restarts) {
        let (mut of_sidecars, mut of_all) = (Restarts::default(), Restarts::default());
        for (index, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
            let sidecar = sidecars.contains(&text(&container["name"]));
            of_all.add(container);
            if sidecar {
                of_sidecars.add(container);
            }
            let terminated = container["state"].get("terminated").filter(|terminated| terminated.is_object());
            let waiting = text(&container["state"]["waiting"]["reason"]);
            if terminated.is_some_and(|terminated| terminated["exitCode"].as_i64().unwrap_or_default() == 0) {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", ending(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", items(&spec["initContainers"]).len()),
            };
            return (true, of_sidecars, of_all);
        }
        (false, of_sidecars, of_all)
    }

    /// Inspects the containers in reverse order, so that the state of the first one is shown.
    fn running(&mut self, status: &Value, restarts: &mut Restarts) {
        let mut has_running = false;
        for container in items(&status["containerStatuses"]).iter().rev() {
            restarts.add(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"]["reason"]);
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if state["terminated"].is_object() {
                self.reason = ending(&state["terminated"]);
            } else if container["ready"] == true && state["running"].is_object() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && has_running {
            let ready = items(&status["conditions"]).iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            let reason = if ready { "Running" } else { "NotReady" };
            reason.clone_into(&mut self.reason);
        }
    }
}

/// Returns the reason why a container ended: the given reason, or its signal, or its exit code.
fn ending(terminated: &Value) -> String {
    let signal = terminated["signal"].as_i64().unwrap_or_default();
    match text(&terminated["reason"]) {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default()),
        reason => reason.to_owned(),
    }
}

fn gates(spec: &Value, status: &Value) -> String {
    let gates = items(&spec["readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let is_true = |gate: &&Value| {
        let condition = items(&status["conditions"]).iter().find(|c| c["type"] == gate["conditionType"]);
        condition.is_some_and(|condition| condition["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}
