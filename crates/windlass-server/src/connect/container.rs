//! Requests for the containers of a pod, decided by its status, with the errors of the kubelet.

use jiff::Timestamp;
use serde_json::Value;
use windlass_api::{CommandResult, ContainerId, ContainerRuntime, Status, parse_time};

use crate::{object::Tree, request::Query, resource::Target};

/// The lists of statuses of containers.
const STATUSES: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// The streams that a client requests.
#[allow(clippy::struct_excessive_bools, reason = "independent parameters of the request")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streams {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// The client requests a terminal, which merges both outputs.
    pub(crate) tty: bool,
}

/// A command in a container.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) streams: Streams,
    pub(crate) command: Vec<String>,
    pub(crate) outcome: Outcome,
}

/// The outcome of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The kubelet refuses the connection with a code and a text.
    Refused(u16, String),
    /// The command does not start.
    Failed(String),
    Done(CommandResult),
}

/// The log of a container.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) text: bytes::Bytes,
    pub(crate) interval: std::time::Duration,
    pub(crate) run: Run,
    pub(crate) options: LogOptions,
    /// The pod, without a subresource.
    pub(crate) target: Target,
    pub(crate) container: String,
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The UID of the pod and the ID of the container.
    pub(crate) id: [String; 2],
    pub(crate) started: Timestamp,
    /// `None` while the container runs.
    pub(crate) finished: Option<Timestamp>,
}

/// The options of a request for a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    /// The number of lines from the end.
    pub(crate) tail: Option<u64>,
    /// Omits the lines before this time.
    pub(crate) since: Option<Timestamp>,
    /// The maximum number of bytes.
    pub(crate) limit: Option<u64>,
}

impl Streams {
    pub(crate) fn of(query: &Query) -> Self {
        let tty = query.boolean("tty");
        Self {
            stdin: query.boolean("stdin"),
            stdout: query.boolean("stdout"),
            stderr: query.boolean("stderr") && !tty,
            tty,
        }
    }

    fn is_empty(self) -> bool {
        !(self.stdin || self.stdout || self.stderr)
    }
}

impl Command {
    /// Runs the command of a request.
    pub(crate) fn run(runtime: &dyn ContainerRuntime, container: &ContainerId<'_>, query: &Query) -> Self {
        let streams = Streams::of(query);
        let command: Vec<&str> = query.all("command").collect();
        let name = container.name;
        let outcome = if streams.is_empty() {
            Outcome::Refused(400, "you must specify at least 1 of stdin, stdout, stderr".to_owned())
        } else if !is_running(container.pod, name) {
            Outcome::Refused(500, format!("container not found ({name:?})"))
        } else {
            match runtime.exec(container, &command) {
                Ok(Some(result)) => Outcome::Done(result),
                Ok(None) => Outcome::Failed(no_executable(container, command.first().copied().unwrap_or_default())),
                Err(message) => Outcome::Failed(message),
            }
        };
        Self { streams, command: command.into_iter().map(str::to_owned).collect(), outcome }
    }
}

impl Log {
    /// Returns the log of a request. `target` is its pod.
    pub(crate) fn read(
        runtime: &dyn ContainerRuntime,
        container: &ContainerId<'_>,
        target: &Target,
        options: LogOptions,
    ) -> Result<Self, Status> {
        let run = logged(container.pod, container.name, options.previous).map_err(Status::bad_request)?;
        let log = runtime.log(container, options.previous).map_err(Status::internal)?;
        let target = Target { subresource: None, ..target.clone() };
        Ok(Self { text: log.text, interval: log.interval, run, options, target, container: container.name.to_owned() })
    }
}

impl LogOptions {
    /// Parses the options of a validated query.
    pub(crate) fn parse(query: &Query, now: Timestamp) -> Result<Self, Status> {
        let number = |name| Ok::<_, Status>(query.integer(name)?.and_then(|number| u64::try_from(number).ok()));
        let since = match (query.integer("sinceSeconds")?, query.text("sinceTime").filter(|text| *text != "null")) {
            (Some(seconds), _) => Some(now.as_second().saturating_sub(seconds))
                .map(|second| Timestamp::from_second(second).unwrap_or(Timestamp::MIN)),
            (None, Some(text)) => Some(parse_time(text).map_err(|error| Status::bad_request(error.to_string()))?),
            (None, None) => None,
        };
        Ok(Self {
            follow: query.boolean("follow"),
            previous: query.boolean("previous"),
            timestamps: query.boolean("timestamps"),
            tail: number("tailLines")?,
            since,
            limit: number("limitBytes")?,
        })
    }
}

/// Returns the error of a container runtime for a missing executable.
fn no_executable(container: &ContainerId<'_>, program: &str) -> String {
    let id = status(container.pod, container.name).map(|status| status.text(&["containerID"])).unwrap_or_default();
    let id = id.rsplit('/').next().unwrap_or_default();
    format!(
        "failed to exec in container: failed to start exec {id:?}: OCI runtime exec failed: exec failed: unable to start \
         container process: exec: {program:?}: executable file not found in $PATH"
    )
}

/// Returns the status of a container.
fn status<'p>(pod: &'p Value, name: &str) -> Option<&'p Value> {
    STATUSES.iter().flat_map(|list| pod.items(&["status", list])).find(|status| status.text(&["name"]) == name)
}

/// Reports whether a container runs.
fn is_running(pod: &Value, name: &str) -> bool {
    status(pod, name).is_some_and(|status| status.at(&["state", "running"]).is_some())
}

/// Returns the run of a container whose log a request is for.
fn logged(pod: &Value, name: &str, previous: bool) -> Result<Run, String> {
    let about = format!("container {name:?} in pod {:?}", pod.text(&["metadata", "name"]));
    let Some(status) = status(pod, name) else { return Err(format!("{about} is not available")) };
    let ended = |state: &str| status.at(&[state, "terminated"]).map(|state| ended(pod, state));
    let last = || ended("lastState");
    if previous {
        return last().ok_or_else(|| format!("previous terminated {about} not found"));
    }
    if let Some(running) = status.at(&["state", "running"]) {
        return Ok(running_since(pod, status, running));
    }
    let waiting = |status: &Value| match status.at(&["state", "waiting"]).map(|waiting| waiting.text(&["reason"])) {
        None => format!("{about} is waiting to start - no logs yet"),
        Some("ErrImagePull") => format!("{about} is waiting to start: image can't be pulled"),
        Some("ImagePullBackOff") => format!("{about} is waiting to start: trying and failing to pull image"),
        Some(reason) => format!("{about} is waiting to start: {reason}"),
    };
    ended("state").or_else(last).ok_or_else(|| waiting(status))
}

/// Returns the run with this ID in a later version of the pod. Returns `None` if it is not the container's current or last
/// one any more.
pub(crate) fn later(pod: &Value, name: &str, id: &[String; 2]) -> Option<Run> {
    let status = status(pod, name)?;
    let current = status.at(&["state", "running"]).map(|running| running_since(pod, status, running));
    let ended = ["state", "lastState"].map(|state| status.at(&[state, "terminated"]).map(|state| ended(pod, state)));
    current.into_iter().chain(ended.into_iter().flatten()).find(|run| run.id == *id)
}

fn running_since(pod: &Value, status: &Value, running: &Value) -> Run {
    let id = [pod.text(&["metadata", "uid"]).to_owned(), status.text(&["containerID"]).to_owned()];
    Run { id, started: time(running, "startedAt").unwrap_or_else(|| created(pod)), finished: None }
}

fn ended(pod: &Value, state: &Value) -> Run {
    let id = [pod.text(&["metadata", "uid"]).to_owned(), state.text(&["containerID"]).to_owned()];
    let started = time(state, "startedAt").unwrap_or_else(|| created(pod));
    Run { id, started, finished: Some(time(state, "finishedAt").unwrap_or(started)) }
}

fn time(value: &Value, field: &str) -> Option<Timestamp> {
    parse_time(value.text(&[field])).ok()
}

/// Returns the creation time of a pod, for containers whose status has no start time.
fn created(pod: &Value) -> Timestamp {
    pod.at(&["metadata"]).and_then(|metadata| time(metadata, "creationTimestamp")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: &Value) -> Value {
        let mut status = state.clone();
        status["name"] = "main".into();
        json!({"metadata": {"name": "p", "uid": "u"}, "status": {"containerStatuses": [status]}})
    }

    fn run(id: &str, started: &str, finished: Option<&str>) -> Run {
        let time = |text: &str| text.parse().unwrap();
        Run { id: ["u".to_owned(), id.to_owned()], started: time(started), finished: finished.map(time) }
    }

    const AT: [&str; 3] = ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"];

    #[test]
    fn log_is_that_of_the_current_or_last_run() {
        let ended = json!({"containerID": "a", "startedAt": AT[0], "finishedAt": AT[1]});
        let running =
            json!({"containerID": "b", "state": {"running": {"startedAt": AT[2]}}, "lastState": {"terminated": ended}});
        assert_eq!(logged(&pod(&running), "main", false), Ok(run("b", AT[2], None)));
        assert_eq!(logged(&pod(&running), "main", true), Ok(run("a", AT[0], Some(AT[1]))));
        let crashed = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}});
        assert_eq!(logged(&pod(&crashed), "main", false), Ok(run("a", AT[0], Some(AT[1]))));
        let done = json!({"state": {"terminated": ended}});
        assert_eq!(logged(&pod(&done), "main", false), Ok(run("a", AT[0], Some(AT[1]))));
    }

    #[test]
    fn log_without_a_run_has_the_error_of_the_kubelet() {
        let error = |status: Value, name: &str, previous: bool| logged(&pod(&status), name, previous).unwrap_err();
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        let about = "container \"main\" in pod \"p\"";
        assert_eq!(error(json!({}), "other", false), "container \"other\" in pod \"p\" is not available");
        assert_eq!(error(waiting("x"), "main", true), format!("previous terminated {about} not found"));
        assert_eq!(
            error(waiting("ContainerCreating"), "main", false),
            format!("{about} is waiting to start: ContainerCreating")
        );
        assert_eq!(
            error(waiting("ErrImagePull"), "main", false),
            format!("{about} is waiting to start: image can't be pulled")
        );
        let backoff = format!("{about} is waiting to start: trying and failing to pull image");
        assert_eq!(error(waiting("ImagePullBackOff"), "main", false), backoff);
        assert_eq!(error(json!({}), "main", false), format!("{about} is waiting to start - no logs yet"));
    }

    #[test]
    fn run_is_found_until_it_is_replaced() {
        let first = run("a", AT[0], None);
        let running = json!({"containerID": "a", "state": {"running": {"startedAt": AT[0]}}});
        assert_eq!(later(&pod(&running), "main", &first.id), Some(first.clone()));
        let ended = json!({"containerID": "a", "startedAt": AT[0], "finishedAt": AT[1]});
        let restarted =
            json!({"containerID": "b", "state": {"running": {"startedAt": AT[2]}}, "lastState": {"terminated": ended}});
        assert_eq!(later(&pod(&restarted), "main", &first.id), Some(run("a", AT[0], Some(AT[1]))));
        let replaced = json!({"containerID": "c", "state": {"running": {"startedAt": AT[2]}}});
        assert_eq!(later(&pod(&replaced), "main", &first.id), None);
    }

    #[test]
    fn since_is_a_time_or_a_number_of_seconds() {
        let now: Timestamp = AT[2].parse().unwrap();
        let since = |query: &str| LogOptions::parse(&Query::parse(query), now).unwrap().since.map(|at| at.to_string());
        assert_eq!(since("sinceSeconds=60").as_deref(), Some(AT[1]));
        assert_eq!(since("sinceTime=2026-01-01T00:00:00Z").as_deref(), Some(AT[0]));
        assert_eq!(since("sinceTime=null"), None);
        assert!(since("sinceSeconds=9223372036854775807").is_some());
        assert_eq!(LogOptions::parse(&Query::parse("sinceTime=today"), now).unwrap_err().code, 400);
    }

    #[test]
    fn terminal_has_no_standard_error() {
        let streams = Streams::of(&Query::parse("stdin=true&stdout=1&stderr=true&tty=true"));
        assert_eq!(streams, Streams { stdin: true, stdout: true, stderr: false, tty: true });
        assert!(Streams::of(&Query::parse("tty=true&stderr=true")).is_empty());
    }
}
